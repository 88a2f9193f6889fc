package bottest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Updates are kept so long, as Telegram does.
const updateLife = 24 * time.Hour

// Kinds that are delivered only when allowed_updates names them.
var unasked = []string{"chat_member", "message_reaction", "message_reaction_count"}

// queue holds the updates that are not confirmed; Server.mu guards it.
type queue struct {
	next    int64 // id of the next update
	pending []update
	allowed []string      // as last set; empty means the default
	wake    chan struct{} // closed and replaced when an update arrives
	poll    *poll         // the getUpdates call that waits now
}

type update struct {
	id   int64
	at   time.Time
	body json.RawMessage
}

// poll is a waiting getUpdates call; a newer one or a webhook ends it.
type poll struct {
	ended chan struct{}
	err   *apiError
}

func (q *queue) end(description string) {
	if q.poll != nil {
		q.poll.err = &apiError{Code: 409, Description: description}
		close(q.poll.ended)
		q.poll = nil
	}
}

func (q *queue) wants(kind string) bool {
	if len(q.allowed) == 0 {
		return !slices.Contains(unasked, kind)
	}
	return slices.Contains(q.allowed, kind)
}

func (q *queue) add(id int64, body json.RawMessage) {
	q.pending = append(q.pending, update{id: id, at: time.Now(), body: body})
	close(q.wake)
	q.wake = make(chan struct{})
}

// confirm drops what the offset confirms: all below it; a negative offset
// keeps that many of the newest.
func (q *queue) confirm(offset int64) {
	if offset < 0 {
		q.pending = q.pending[max(0, len(q.pending)+int(max(offset, -1<<20))):]
		return
	}
	q.pending = slices.DeleteFunc(q.pending, func(u update) bool {
		return u.id < offset || time.Since(u.at) > updateLife
	})
}

// push makes an update of one kind, if the bot asked for it; s.mu is held.
func (s *Server) push(kind string, value any) {
	if !s.updates.wants(kind) {
		return
	}
	id := s.updates.next
	s.updates.next++
	s.updates.add(id, fmt.Appendf(nil, `{"update_id":%d,%q:%s}`, id, kind, mustJSON(value)))
	s.notify()
}

// SetNextUpdate sets the next update_id. Telegram chooses a new one at random
// after a week without updates, which may be lower than the last.
func (s *Server) SetNextUpdate(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updates.next = id
}

// Pending is how many updates are not confirmed.
func (s *Server) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.updates.pending)
}

// Polling reports whether a getUpdates call waits now.
func (s *Server) Polling() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.updates.poll != nil
}

// getUpdates is the long poll.
func (s *Server) getUpdates(req *request) answer {
	limit := min(max(req.int("limit"), 0), 100)
	if limit == 0 {
		limit = 100
	}
	timer := time.NewTimer(time.Duration(min(max(req.int("timeout"), 0), 50)) * time.Second) // the real server's longest wait is 50 s
	defer timer.Stop()
	s.mu.Lock()
	if s.webhook != nil {
		s.mu.Unlock()
		return refuse(&apiError{Code: 409, Description: "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"})
	}
	s.allow(req)
	s.updates.end("Conflict: terminated by other getUpdates request; make sure that only one bot instance is running")
	s.updates.confirm(req.int("offset"))
	mine := &poll{ended: make(chan struct{})}
	s.updates.poll = mine
	s.notify()
	expired := req.int("timeout") <= 0
	for {
		got, wake := s.updates.first(int(limit)), s.updates.wake
		if len(got) > 0 || expired {
			s.leave(mine)
			s.mu.Unlock()
			return answer{status: 200, result: got}
		}
		s.mu.Unlock()
		select {
		case <-wake:
		case <-timer.C:
			expired = true
		case <-mine.ended:
			return refuse(mine.err)
		case <-req.http.Context().Done():
			expired = true
		case <-s.done:
			expired = true
		}
		s.mu.Lock()
		if s.updates.poll != mine { // ended while something else woke us
			s.mu.Unlock()
			return refuse(mine.err)
		}
	}
}

func (s *Server) leave(p *poll) {
	if s.updates.poll == p {
		s.updates.poll = nil
		s.notify()
	}
}

func (q *queue) first(n int) []json.RawMessage {
	out := []json.RawMessage{}
	for _, u := range q.pending[:min(n, len(q.pending))] {
		out = append(out, u.body)
	}
	return out
}

// allow remembers allowed_updates if the call names it.
func (s *Server) allow(req *request) {
	if !req.has("allowed_updates") {
		return
	}
	s.updates.allowed = nil
	for _, kind := range req.list("allowed_updates") {
		s.updates.allowed = append(s.updates.allowed, kind.(string))
	}
}

// webhook is the delivery set by setWebhook.
type webhook struct {
	url       string
	secret    string
	stop      context.CancelFunc
	lastError string
	errorAt   time.Time
}

func setWebhook(s *Server, req *request) (any, error) {
	url, secret := req.str("url"), req.str("secret_token")
	if url == "" {
		return deleteWebhook(s, req)
	}
	if !isLink(url) {
		return nil, badRequest("invalid webhook URL specified")
	}
	if len(secret) > 256 {
		return nil, badRequest("secret token is too long")
	}
	for _, c := range []byte(secret) {
		if !isAlnum(c) && c != '_' && c != '-' {
			return nil, badRequest("secret token contains unallowed characters")
		}
	}
	if _, err := deleteWebhook(s, req); err != nil {
		return nil, err
	}
	if s.closed {
		return nil, &apiError{Code: 500, Description: "Internal Server Error: closing"}
	}
	s.allow(req)
	s.updates.end("Conflict: terminated by setWebhook request")
	ctx, stop := context.WithCancel(context.Background())
	hook := &webhook{url: url, secret: secret, stop: stop}
	s.webhook = hook
	s.wg.Go(func() { s.deliver(ctx, hook) })
	return true, nil
}

func deleteWebhook(s *Server, req *request) (any, error) {
	if s.webhook != nil {
		s.webhook.stop()
		s.webhook = nil
	}
	if req.bool("drop_pending_updates") {
		s.updates.pending = nil
	}
	return true, nil
}

func getWebhookInfo(s *Server, req *request) (any, error) {
	info := map[string]any{"url": "", "has_custom_certificate": false, "pending_update_count": len(s.updates.pending)}
	if len(s.updates.allowed) > 0 {
		info["allowed_updates"] = s.updates.allowed
	}
	if s.webhook != nil {
		info["url"], info["max_connections"] = s.webhook.url, 40
		if s.webhook.lastError != "" {
			info["last_error_message"], info["last_error_date"] = s.webhook.lastError, s.webhook.errorAt.Unix()
		}
	}
	return info, nil
}

// deliver posts the updates one after another, each until it is answered with
// 2xx; it waits 1, 2, 4 … 60 s between tries.
func (s *Server) deliver(ctx context.Context, hook *webhook) {
	wait := time.Second
	for {
		s.mu.Lock()
		got, wake := s.updates.first(1), s.updates.wake
		s.mu.Unlock()
		var again <-chan time.Time
		if len(got) == 1 {
			err := s.postUpdate(ctx, hook, got[0])
			if err == nil {
				wait = time.Second
				continue
			}
			s.mu.Lock()
			hook.lastError, hook.errorAt = err.Error(), time.Now()
			s.notify()
			s.mu.Unlock()
			again = time.After(wait)
			wait = min(2*wait, time.Minute)
			wake = nil
		}
		select {
		case <-wake:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

func (s *Server) postUpdate(ctx context.Context, hook *webhook, body json.RawMessage) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, hook.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if hook.secret != "" {
		req.Header.Set("X-Telegram-Bot-Api-Secret-Token", hook.secret)
	}
	resp, err := s.cfg.WebhookClient.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close() // only the status counts
	if resp.StatusCode/100 != 2 {
		return wordingf("Wrong response from the webhook: %s", resp.Status)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updates.pending = slices.DeleteFunc(s.updates.pending, func(u update) bool { return bytes.Equal(u.body, body) })
	s.notify()
	return nil
}
