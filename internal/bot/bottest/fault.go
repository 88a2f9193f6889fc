package bottest

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// Rule says which calls go wrong and how. Selectors are ANDed; the first rule
// that selects a call is the only one applied to it.
type Rule struct {
	// Which calls.
	Method string          // "" any
	Chat   int64           // 0 any
	Match  func(Call) bool // nil any
	After  int             // let so many selected calls pass first
	Times  int             // then apply to so many: 0 means 1, negative means for ever

	// What happens. Delay comes first, in every case.
	Delay      time.Duration // wait, then go on
	CutBefore  bool          // close the connection; the call has no effect
	Hang       bool          // no effect and no answer until the client goes away
	Status     int           // answer with this status instead; no effect unless Accept
	Body       string        // of that answer, JSON or HTML; "" makes an error from Status and Description
	Error      string        // description of the error made when Body is ""
	RetryAfter int           // seconds; alone it means a 429 as Telegram's
	MigrateTo  int64         // alone it means the 400 of a group that became a supergroup
	Accept     bool          // the call takes effect before Status is answered
	DelayAfter time.Duration // takes effect, then waits, then answers
	CutAfter   bool          // takes effect, then the connection is closed without an answer
	HalfBody   bool          // takes effect, then half of the answer, then closed
}

// Fault is a Rule at work.
type Fault struct {
	s    *Server
	rule Rule
	seen int
	hits int
	gone bool
}

// Fault puts a rule to work; rules are asked in the order they were added.
func (s *Server) Fault(rule Rule) *Fault {
	if rule.Times == 0 {
		rule.Times = 1
	}
	f := &Fault{s: s, rule: rule}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, f)
	return f
}

// Hits is how many calls the rule was applied to.
func (f *Fault) Hits() int {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	return f.hits
}

// Remove ends the rule.
func (f *Fault) Remove() {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.gone = true
}

// match finds the rule for a call and counts it.
func (s *Server) match(c Call) *Fault {
	s.mu.Lock()
	faults := append([]*Fault(nil), s.faults...)
	s.mu.Unlock()
	for _, f := range faults {
		r := &f.rule
		if r.Method != "" && !strings.EqualFold(r.Method, c.Method) || r.Chat != 0 && r.Chat != c.Chat || r.Match != nil && !r.Match(c) {
			continue
		}
		if f.take() {
			return f
		}
	}
	return nil
}

func (f *Fault) take() bool {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.seen++
	if f.gone || f.seen <= f.rule.After || f.rule.Times >= 0 && f.hits >= f.rule.Times {
		return false
	}
	f.hits++
	return true
}

func (r *Rule) scripted() bool {
	return r.Status != 0 || r.Body != "" || r.RetryAfter != 0 || r.MigrateTo != 0
}

func (r *Rule) answer() answer {
	switch {
	case r.Body != "":
		status := r.Status
		if status == 0 {
			status = http.StatusOK
		}
		return answer{status: status, raw: r.Body}
	case r.MigrateTo != 0:
		return refuse(migrated(r.MigrateTo))
	case r.RetryAfter != 0:
		return refuse(tooMany(r.RetryAfter))
	}
	text := r.Error
	if text == "" {
		text = http.StatusText(r.Status)
	}
	return refuse(&apiError{Code: r.Status, Description: text})
}

// pause waits, but no longer than the client or the server lives.
func (s *Server) pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-s.done:
	}
}
