package bottest

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Call is one request to the API, as it came and as it was answered.
type Call struct {
	Seq      int            // 1, 2, 3 … in order of arrival
	Method   string         // in the specification's spelling
	Chat     int64          // chat_id, 0 if there is none or it is a name
	Params   map[string]any // int64, float64, string, bool, []any, map[string]any, *Upload
	At       time.Time      // arrival
	Answered time.Time      // zero while it runs
	Code     int            // HTTP status of the answer; 0 while it runs, or when it was cut
	Error    string         // description of a refusal
	Message  int            // id of the message sent or edited
	Faulty   bool           // a Fault was applied
}

// Text is the text or caption parameter.
func (c Call) Text() string {
	a := args(c.Params)
	if t := a.str("text"); t != "" {
		return t
	}
	return a.str("caption")
}

// Method selects calls of the named methods.
func Method(names ...string) func(Call) bool {
	return func(c Call) bool { return slices.Contains(names, c.Method) }
}

// InChat selects calls to one chat.
func InChat(id int64) func(Call) bool { return func(c Call) bool { return c.Chat == id } }

// Accepted selects calls that were answered with ok.
func Accepted(c Call) bool { return c.Code == 200 }

// Calls is the log of all calls that pass every filter, oldest first.
func (s *Server) Calls(filters ...func(Call) bool) []Call {
	s.mu.Lock()
	all := newest(s.calls, s.cfg.Keep)
	s.mu.Unlock()
	return slices.DeleteFunc(all, func(c Call) bool {
		return slices.ContainsFunc(filters, func(f func(Call) bool) bool { return !f(c) })
	})
}

// lastCalls tells the newest calls in one line each, for errors.
func (s *Server) lastCalls(n int) string {
	calls := s.Calls(func(c Call) bool { return c.Method != "getUpdates" })
	var b strings.Builder
	fmt.Fprintf(&b, "%d calls besides getUpdates", len(calls))
	for _, c := range calls[max(0, len(calls)-n):] {
		fmt.Fprintf(&b, "\n\t#%d %s chat=%d code=%d %s %.80q", c.Seq, c.Method, c.Chat, c.Code, c.Error, c.Text())
	}
	return b.String()
}

// args are checked parameters. Reading an absent or other-typed one gives the
// zero value: the check has refused what may not be so.
type args map[string]any

func (a args) has(name string) bool   { _, ok := a[name]; return ok }
func (a args) str(name string) string { s, _ := a[name].(string); return s }
func (a args) int(name string) int64  { n, _ := a[name].(int64); return n }
func (a args) bool(name string) bool  { b, _ := a[name].(bool); return b }
func (a args) list(name string) []any { l, _ := a[name].([]any); return l }
func (a args) obj(name string) args   { o, _ := a[name].(map[string]any); return o }

// request is a call while it is answered.
type request struct {
	args
	call  *Call
	entry *specEntry
	http  *http.Request
	files map[string]*Upload // all uploads by field, for attach://
}

// serveCall reads, logs and answers one method call.
func (s *Server) serveCall(w http.ResponseWriter, r *http.Request, name string) {
	params, err := decodeBody(r, s.cfg.UploadLimit+1<<16)
	if errors.Is(err, errCut) {
		panic(http.ErrAbortHandler) // nobody is there to be answered
	}
	if errors.Is(err, errTooLarge) {
		w.Header().Set("Connection", "close")
		s.log(Call{Method: name, At: time.Now(), Answered: time.Now(), Code: 413, Error: "Request Entity Too Large"})
		writeAnswer(w, answer{status: 413, raw: page413})
		return
	}
	if err != nil {
		s.violation(name + ": " + err.Error())
		s.log(Call{Method: name, At: time.Now(), Answered: time.Now(), Code: 400, Error: err.Error()})
		writeAnswer(w, answer{status: 400, err: badRequest("%v", err)})
		return
	}
	name = s.spelling(name)
	entry := s.spec.Methods[name]
	if entry == nil {
		s.violation(name + ": no such method")
		s.log(Call{Method: name, At: time.Now(), Answered: time.Now(), Code: 404, Error: "Not Found"})
		writeAnswer(w, answer{status: 404, err: &apiError{Code: 404, Description: "Not Found"}})
		return
	}
	req := &request{entry: entry, http: r, files: map[string]*Upload{}}
	for field, v := range params {
		if up, ok := v.(*Upload); ok {
			req.files[field] = up
		}
	}
	checked, bad := s.spec.check(entry, params)
	req.args = checked
	call := Call{Method: name, Params: checked, Chat: req.int("chat_id"), At: time.Now()}
	req.call = s.log(call)
	fault := s.match(call)
	a, cut := s.answerCall(req, bad, fault)
	s.finish(req.call.Seq, a, cut, fault != nil, req.call.Message)
	if cut {
		panic(http.ErrAbortHandler)
	}
	writeAnswer(w, a)
}

// answerCall applies the fault, if any, around the call. cut means: close the
// connection without a word.
func (s *Server) answerCall(req *request, bad []string, fault *Fault) (a answer, cut bool) {
	ctx := req.http.Context()
	if fault != nil {
		s.pause(ctx, fault.rule.Delay)
		switch rule := &fault.rule; {
		case rule.CutBefore:
			return a, true
		case rule.Hang:
			select {
			case <-ctx.Done():
			case <-s.done:
			}
			return a, true
		case rule.scripted() && !rule.Accept:
			return rule.answer(), false
		}
	}
	a = s.execute(req, bad)
	if fault != nil {
		s.pause(ctx, fault.rule.DelayAfter)
		switch rule := &fault.rule; {
		case rule.CutAfter:
			return a, true
		case rule.scripted():
			return rule.answer(), false
		}
		a.half = fault.rule.HalfBody
	}
	return a, false
}

// execute checks and performs a call.
func (s *Server) execute(req *request, bad []string) answer {
	if len(bad) > 0 {
		s.violation(req.call.Method + ": " + strings.Join(bad, "; "))
		return refuse(violationError(bad))
	}
	if s.cfg.Flood {
		s.mu.Lock()
		err := s.flood.take(req.call.Method, req.call.Chat, time.Now())
		s.mu.Unlock()
		if err != nil {
			return refuse(err)
		}
	}
	if req.call.Method == "getUpdates" {
		return s.getUpdates(req)
	}
	handle := handlers[req.call.Method]
	if handle == nil {
		handle = (*Server).generic
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	result, err := handle(s, req)
	s.notify()
	if err != nil {
		return refuse(err)
	}
	return answer{status: 200, result: result}
}

// violationError says it in Telegram's words where they are known.
func violationError(bad []string) *apiError {
	switch bad[0] {
	case "text is required":
		return badRequest("message text is empty")
	case "chat_id is required":
		return badRequest("chat_id is empty")
	}
	return badRequest("%s", strings.Join(bad, "; "))
}

func refuse(err error) answer {
	var e *apiError
	if !errors.As(err, &e) {
		e = &apiError{Code: 500, Description: "Internal Server Error: " + err.Error()}
	}
	return answer{status: e.Code, err: e}
}

// spelling finds a method whatever the case, as the real server does.
func (s *Server) spelling(name string) string {
	if s.spec.Methods[name] != nil {
		return name
	}
	for known := range maps.Keys(s.spec.Methods) {
		if strings.EqualFold(known, name) {
			return known
		}
	}
	return name
}

// log adds a call and returns a copy with its number.
func (s *Server) log(c Call) *Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callSeq++
	c.Seq = s.callSeq
	s.calls = trimmed(append(s.calls, c), s.cfg.Keep)
	s.notify()
	return &c
}

func (s *Server) finish(seq int, a answer, cut, faulty bool, message int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, found := slices.BinarySearchFunc(s.calls, seq, func(c Call, seq int) int { return c.Seq - seq })
	if !found {
		return // no longer kept
	}
	c := &s.calls[i]
	c.Answered, c.Faulty, c.Message = time.Now(), faulty, message
	if !cut {
		c.Code = a.status
	}
	if a.err != nil {
		c.Error = a.err.Description
	}
	s.notify()
}

const page413 = "<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body>\r\n<center><h1>413 Request Entity Too Large</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
