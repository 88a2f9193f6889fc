package bot

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentd/internal/agent"
	"agentd/internal/bot/bottest"
)

func (d *delivery) polling() (*Bot, func()) { return d.start((*Bot).Poll) }

// inbox is the text of what waits for a turn or was ignored, in order.
func (d *delivery) inbox() (updates []int64) {
	d.t.Helper()
	for _, kind := range []func() ([]agent.Incoming, error){
		func() ([]agent.Incoming, error) { return d.store.Ignored(d.ctx, 1000) },
		func() ([]agent.Incoming, error) { return d.store.Controls(d.ctx) },
	} {
		rows, err := kind()
		if err != nil {
			d.t.Fatal(err)
		}
		for _, u := range rows {
			updates = append(updates, u.Update)
		}
	}
	slices.Sort(updates)
	return updates
}

// gaps are the times between the ends and beginnings of the polls.
func (d *delivery) gaps() (out []time.Duration) {
	polls := d.srv.Calls(bottest.Method("getUpdates"))
	for i, c := range polls[1:] {
		out = append(out, c.At.Sub(polls[i].Answered))
	}
	return out
}

func (d *delivery) polls() []bottest.Call { return d.srv.Calls(bottest.Method("getUpdates")) }

// C034: what waited while we were away is taken, in order, and nothing is thrown away.
func TestPollTakesWhatWaits(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		for _, text := range []string{"/id", "/help", "/start"} {
			d.srv.User(ann, "Ann", "en").Send(text)
		}
		b, stop := d.polling()
		defer stop()
		d.pass(time.Second)
		if got := d.inbox(); len(got) != 3 {
			t.Errorf("inbox: %v", got)
		}
		if id, name := b.Me(); id != d.srv.BotID() || name != d.srv.Username() {
			t.Errorf("Me: %d %q", id, name)
		}
		first := d.polls()[0]
		if first.Params["offset"] != int64(0) || first.Params["timeout"] != int64(0) || len(first.Params["allowed_updates"].([]any)) == 0 {
			t.Errorf("first poll: %v", first.Params)
		}
		for _, c := range d.srv.Calls() {
			if drop, ok := c.Params["drop_pending_updates"]; ok {
				t.Errorf("%s drop_pending_updates=%v", c.Method, drop)
			}
		}
		if last := b.LastPoll(); time.Since(last) > time.Minute || b.Trouble() != "" {
			t.Errorf("last poll %v, trouble %q", last, b.Trouble())
		}
	})
}

// Idle: one long poll after the other, and no more.
func TestPollIdles(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		_, stop := d.polling()
		defer stop()
		d.pass(10 * time.Minute)
		if n := len(d.polls()); n < 12 || n > 14 {
			t.Errorf("%d polls in ten idle minutes", n)
		}
		if n := d.log.count("level=WARN"); n != 0 {
			t.Errorf("warnings:\n%s", d.log.String())
		}
	})
}

// C013: a conflict ends by itself, is told with a hint, and shows meanwhile.
func TestPollConflict(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		until := time.Now().Add(20 * time.Second)
		d.srv.Fault(bottest.Rule{Method: "getUpdates", Status: 409, Times: -1,
			Error: "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
			Match: func(bottest.Call) bool { return time.Now().Before(until) }})
		d.srv.User(ann, "Ann", "en").Send("/id")
		b, stop := d.polling()
		defer stop()
		d.pass(10 * time.Second)
		if b.Trouble() != "conflict" || !b.LastPoll().IsZero() {
			t.Errorf("trouble %q, last poll %v", b.Trouble(), b.LastPoll())
		}
		for _, gap := range d.gaps() {
			if gap < time.Second {
				t.Errorf("polls %v apart", gap)
			}
		}
		d.pass(time.Minute)
		if got := d.inbox(); len(got) != 1 || b.Trouble() != "" {
			t.Errorf("inbox %v, trouble %q", got, b.Trouble())
		}
		if d.log.count("level=WARN", "trouble=conflict", "another process polls") != 1 || d.log.count("works again") != 1 {
			t.Errorf("log:\n%s", d.log.String())
		}
	})
}

// A conflict that never ends is told about once a minute.
func TestPollLastingConflict(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		d.srv.Fault(bottest.Rule{Method: "getUpdates", Status: 409, Times: -1, Error: "Conflict: terminated by other getUpdates request"})
		_, stop := d.polling()
		defer stop()
		d.pass(10*time.Minute + 40*time.Second)
		if n := d.log.count("level=WARN", "trouble=conflict"); n < 8 || n > 11 {
			t.Errorf("%d warnings in ten minutes", n)
		}
		if n := len(d.polls()); n > 30 {
			t.Errorf("%d polls", n)
		}
	})
}

// A webhook that is set is removed, and what waits behind it is kept.
func TestPollRemovesWebhook(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		d.srv.Fault(bottest.Rule{Method: "getUpdates", Status: 409,
			Error: "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"})
		d.srv.User(ann, "Ann", "en").Send("/id")
		_, stop := d.polling()
		defer stop()
		d.pass(10 * time.Second)
		if calls := d.srv.Calls(bottest.Method("deleteWebhook")); len(calls) != 1 || len(calls[0].Params) != 0 {
			t.Errorf("deleteWebhook: %v", calls)
		}
		if got := d.inbox(); len(got) != 1 {
			t.Errorf("inbox %v", got)
		}
	})
}

// C070 and its kin: each trouble passes, costs few calls and one line.
func TestPollRecovers(t *testing.T) {
	const atLeast = 500 * time.Millisecond
	tests := map[string][]bottest.Rule{
		"page, cut, empty, then fine (C070)": {{Status: 502, Body: "<html><title>502 Bad Gateway</title></html>"}, {CutBefore: true}, {Status: 200, Body: " "}},
		"an array for an answer":             {{Status: 200, Body: "[]"}, {Status: 200, Body: "null"}},
		"a result that is none":              {{Status: 200, Body: `{"ok":true,"result":7}`}},
		"half an answer":                     {{HalfBody: true, Times: 3}},
		"a proxy's 404 page":                 {{Status: 404, Body: "<html>/bot not found</html>", Times: 2}},
		"server error in JSON":               {{Status: 500, Times: 6}},
		"no answer at all":                   {{Hang: true, Times: 2}},
	}
	for name, rules := range tests {
		t.Run(name, func(t *testing.T) {
			withDelivery(t, func(d *delivery) {
				for _, r := range rules {
					r.Method = "getUpdates"
					d.srv.Fault(r)
				}
				d.srv.User(ann, "Ann", "en").Send("/id")
				b, stop := d.polling()
				defer stop()
				d.pass(200 * time.Millisecond)
				if name != "no answer at all" && b.Trouble() == "" {
					t.Error("no trouble is shown")
				}
				d.pass(3 * time.Minute)
				if got := d.inbox(); len(got) != 1 || b.Trouble() != "" {
					t.Errorf("inbox %v, trouble %q\n%s", got, b.Trouble(), d.log.String())
				}
				for _, c := range d.polls() {
					if c.Faulty && c.Answered.IsZero() && name != "no answer at all" {
						t.Error("a poll is still open")
					}
				}
				if gaps := d.gaps(); gaps[0] < atLeast && name != "no answer at all" {
					t.Errorf("gaps %v", gaps)
				}
				if n := d.log.count("level=WARN"); n < 1 || n > 2 || d.log.count("works again") != 1 {
					t.Errorf("log:\n%s", d.log.String())
				}
			})
		})
	}
}

// A 429 is kept to.
func TestPollFlood(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		d.srv.Fault(bottest.Rule{Method: "getUpdates", RetryAfter: 300})
		b, stop := d.polling()
		defer stop()
		d.pass(299 * time.Second)
		if n := len(d.polls()); n != 1 || b.Trouble() != "flood" {
			t.Errorf("%d polls, trouble %q", n, b.Trouble())
		}
		d.pass(2 * time.Second)
		if n := len(d.polls()); n != 3 || b.Trouble() != "" {
			t.Errorf("%d polls, trouble %q", n, b.Trouble())
		}
	})
}

// A refused token ends the poll, and with it the process.
func TestPollRefusedToken(t *testing.T) {
	for name, rule := range map[string]*bottest.Rule{
		"unknown token": nil, "token of the wrong form": {Status: 404, Error: "Not Found"}, "revoked later": {Status: 401, Error: "Unauthorized", After: 3},
	} {
		t.Run(name, func(t *testing.T) {
			withDelivery(t, func(d *delivery) {
				if rule == nil {
					d.cfg.Token = "123456789:TESTTOKEN-abcdefghijklmnopqrstuvwxyz012"
				} else {
					rule.Method = "getUpdates"
					d.srv.Fault(*rule)
				}
				b, stop := d.start()
				defer stop()
				err := b.Poll(d.ctx)
				if !errors.Is(err, ErrUnauthorized) || !strings.Contains(err.Error(), "@BotFather") {
					t.Errorf("Poll: %v", err)
				}
				if strings.Contains(err.Error(), "abcdefghijklmnopqrstuvwxyz012") {
					t.Errorf("the token is in the error: %v", err)
				}
			})
		})
	}
}

// What cannot be stored is not confirmed, and stored once the disk is well.
func TestPollStoreFails(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		var down atomic.Bool
		down.Store(true)
		d.probe = func(verb string, committed bool) error {
			if verb == "Accept" && !committed && down.Load() {
				return errDisk
			}
			return nil
		}
		d.srv.User(ann, "Ann", "en").Send("/id")
		b, stop := d.polling()
		d.pass(5 * time.Minute)
		if n := len(d.polls()); n != 1 || b.Trouble() != "store" {
			t.Errorf("%d polls, trouble %q", n, b.Trouble())
		}
		if n := d.log.count("level=ERROR", "cannot be stored"); n != 1 {
			t.Errorf("%d lines:\n%s", n, d.log.String())
		}
		stop() // and the next process gets it again
		down.Store(false)
		_, stop = d.polling()
		defer stop()
		d.pass(time.Minute)
		if got := d.inbox(); len(got) != 1 {
			t.Errorf("inbox %v", got)
		}
	})
}

// A crash between Accept and the next poll: Telegram delivers again, the key refuses.
func TestPollRepeats(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		d.srv.Fault(bottest.Rule{Method: "getUpdates", After: 1, Hang: true}) // the poll that would confirm
		d.srv.User(ann, "Ann", "en").Send("/id")
		_, stop := d.polling()
		d.pass(time.Second)
		stop()
		_, stop = d.polling()
		defer stop()
		d.pass(time.Second)
		if got := d.inbox(); len(got) != 1 {
			t.Errorf("inbox %v", got)
		}
	})
}

// Nothing is decoded before we know who we are, however long that takes.
func TestPollWaitsForIdentity(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		d.srv.Fault(bottest.Rule{Method: "getMe", Status: 500, Times: 5})
		d.srv.User(ann, "Ann", "en").Send("/id@" + d.srv.Username())
		b, stop := d.polling()
		defer stop()
		d.pass(2 * time.Second)
		if id, _ := b.Me(); id != 0 || len(d.inbox()) != 0 {
			t.Errorf("Me %d, inbox %v", id, d.inbox())
		}
		d.pass(2 * time.Minute)
		if got := d.inbox(); len(got) != 1 {
			t.Errorf("inbox %v", got)
		}
	})
}

// Updates that nobody can read do not stop the others.
func TestPollOddUpdates(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		d.srv.Fault(bottest.Rule{Method: "getUpdates", Status: 200, Body: `{"ok":true,"result":[{"no_id":1},7,
			{"update_id":40,"brand_new_kind":{"a":1}},
			{"update_id":41,"message_reaction":{"chat":{"id":1,"type":"private"},"message_id":1,"date":1,"new_reaction":[{"type":"brand_new"}],"old_reaction":[]}},
			{"update_id":42,"message":{"message_id":1,"date":1,"chat":{"id":1001,"type":"private"},"from":{"id":1001,"first_name":"Ann"},"text":"/id"}}]}`})
		_, stop := d.polling()
		defer stop()
		d.pass(time.Second)
		if got := d.inbox(); !slices.Equal(got, []int64{40, 41, 42}) {
			t.Errorf("inbox %v\n%s", got, d.log.String())
		}
		if d.polls()[1].Params["offset"] != int64(43) {
			t.Errorf("second poll: %v", d.polls()[1].Params)
		}
	})
}

// After a quiet week Telegram numbers anew at random, perhaps lower.
func TestPollLowerIds(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		_, stop := d.polling()
		defer stop()
		text := `{"message":{"message_id":1,"date":1,"chat":{"id":1001,"type":"private"},"from":{"id":1001,"first_name":"Ann"},"text":"/id"},"update_id":`
		for _, id := range []string{"900", "17"} {
			d.pass(2 * time.Minute)
			if _, err := d.srv.Inject([]byte(text + id + "}")); err != nil {
				t.Fatal(err)
			}
		}
		d.pass(2 * time.Minute)
		if got := d.inbox(); !slices.Equal(got, []int64{17, 900}) {
			t.Errorf("inbox %v", got)
		}
		confirmed := map[any]bool{}
		for i, c := range d.polls() { // a batch is confirmed by the next poll alone
			offset := c.Params["offset"]
			if i > 0 && offset != int64(0) && confirmed[offset] {
				t.Errorf("poll %d asks from %v again", i, offset)
			}
			confirmed[offset] = true
		}
	})
}

// A stuck poll is replaced on a new connection.
func TestPollHalfOpen(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		var dials atomic.Int32
		d.cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return d.srv.Dial(ctx, network, addr)
		}
		d.srv.Fault(bottest.Rule{Method: "getUpdates", After: 1, Hang: true})
		_, stop := d.polling()
		defer stop()
		d.pass(pollTimeout)
		before := dials.Load()
		d.srv.User(ann, "Ann", "en").Send("/id")
		d.pass(30 * time.Second)
		if got := d.inbox(); len(got) != 1 {
			t.Errorf("inbox %v", got)
		}
		if dials.Load() == before {
			t.Error("no new connection was made")
		}
	})
}

// C072: whatever fails, the token and its secret half stay out of errors and
// logs (withDelivery looks at the log).
func TestTokenStaysSecret(t *testing.T) {
	const token = "123456789:TESTTOKEN-abcdefghijklmnopqrstuvwxyz012"
	echo := `{"ok":false,"error_code":400,"description":"Bad Request: no such path /bot` + token + `/getMe"}`
	tests := map[string]func(d *delivery){
		"refused": func(d *delivery) { d.cfg.Dial, _ = refusing(1000, nil) },
		"DNS": func(d *delivery) {
			d.cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.DNSError{Err: "no such host", Name: "telegram.test"}
			}
		},
		"500": func(d *delivery) { d.srv.Fault(bottest.Rule{Status: 500, Times: -1}) },
		"page": func(d *delivery) {
			d.srv.Fault(bottest.Rule{Status: 502, Body: "<html>/bot" + token + "/x</html>", Times: -1})
		},
		"echo":  func(d *delivery) { d.srv.Fault(bottest.Rule{Status: 400, Body: echo, Times: -1}) },
		"moved": func(d *delivery) { d.srv.Fault(bottest.Rule{Status: 302, Body: "/bot" + token, Times: -1}) },
		"cut":   func(d *delivery) { d.srv.Fault(bottest.Rule{CutBefore: true, Times: -1}) },
		"wrap": func(d *delivery) {
			d.cfg.Wrap = func(http.RoundTripper) http.RoundTripper { return echoing{} }
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			withServer(t, bottest.Config{Token: token}, func(d *delivery) {
				prepare(d)
				b, stop := d.start((*Bot).Poll, (*Bot).Send)
				defer stop()
				d.post("turn:1", ann, say("x"))
				d.pass(time.Minute)
				err := b.api.call(d.ctx, "getMe", nil, nil)
				if err == nil {
					t.Fatal("the call worked")
				}
				for ; err != nil; err = errors.Unwrap(err) {
					if strings.Contains(err.Error(), "abcdefghijklmnopqrstuvwxyz012") {
						t.Errorf("%T: %v", err, err)
					}
				}
			})
		})
	}
}

type echoing struct{}

func (echoing) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, errors.New("cannot reach " + r.URL.String())
}

func TestBackoff(t *testing.T) {
	b := backoff{first: time.Second, most: 30 * time.Second}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		if got, want := b.next(), want*time.Second; got < want || got > want*5/4 {
			t.Errorf("pause %v, want from %v on", got, want)
		}
	}
	b.reset()
	if got := b.next(); got > 1250*time.Millisecond {
		t.Errorf("after reset %v", got)
	}
}

// A server that takes no offset gives the same batch again and again.
func TestPollIsNotHurriedByRepeats(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		d.srv.Fault(bottest.Rule{Method: "getUpdates", Times: -1, Body: `{"ok":true,"result":[
			{"update_id":42,"message":{"message_id":1,"date":1,"chat":{"id":1001,"type":"private"},"from":{"id":1001,"first_name":"Ann"},"text":"/id"}}]}`})
		_, stop := d.polling()
		defer stop()
		d.pass(time.Minute)
		if n := len(d.polls()); n < 50 || n > 70 {
			t.Errorf("%d polls in a minute", n)
		}
		if got := d.inbox(); !slices.Equal(got, []int64{42}) {
			t.Errorf("inbox %v", got)
		}
	})
}

// Ids that cannot be confirmed are left out; the offset never runs over.
func TestPollAbsurdIds(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		text := `,"message":{"message_id":-9223372036854775808,"date":9223372036854775807,"chat":{"id":1001,"type":"private"},"from":{"id":1001,"first_name":"Ann"},"text":"/id"}}`
		d.srv.Fault(bottest.Rule{Method: "getUpdates", Body: `{"ok":true,"result":[{"update_id":-5` + text + `,{"update_id":0` + text + `,{"update_id":9223372036854775807` + text +
			`,{"update_id":18446744073709551616` + text + `,{"update_id":"7"` + text + `,{"update_id":42` + text + `]}`})
		_, stop := d.polling()
		defer stop()
		d.pass(time.Second)
		if got := d.inbox(); !slices.Equal(got, []int64{42}) {
			t.Errorf("inbox %v", got)
		}
		if got := d.polls()[1].Params["offset"]; got != int64(43) {
			t.Errorf("offset %v", got)
		}
	})
}

// forgetful is a store that cannot read for a while.
type forgetful struct {
	Store
	down *atomic.Bool
}

func (f forgetful) Known(ctx context.Context) ([]agent.Known, error) {
	if f.down.Load() {
		return nil, errDisk
	}
	return f.Store.Known(ctx)
}

// Nobody is judged before it is known who was decided about: neither is somebody
// who is blocked let in, nor somebody who is allowed turned away.
func TestPollWaitsUntilPeopleAreKnown(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		d.cfg.Everybody = true
		for id, state := range map[int64]agent.PersonState{bob: agent.PersonBlocked} {
			if err := d.store.SetPerson(d.ctx, id, state, ""); err != nil {
				t.Fatal(err)
			}
		}
		var down atomic.Bool
		down.Store(true)
		b, err := New(d.cfg, forgetful{d.store, &down}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(d.ctx)
		ended := make(chan error)
		d.srv.User(bob, "Bob", "en").Send("hello")
		go func() { ended <- b.Poll(ctx) }()
		d.pass(time.Minute)
		if n := len(d.polls()); n != 1 || b.Trouble() != "store" {
			t.Errorf("%d polls, trouble %q", n, b.Trouble())
		}
		down.Store(false)
		d.pass(time.Minute)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		b.api.poll.CloseIdleConnections()
		b.api.send.CloseIdleConnections()
		rows, err := d.store.Ignored(d.ctx, 10)
		if err != nil || len(rows) != 1 || rows[0].Note != "blocked" {
			t.Errorf("%+v, %v", rows, err)
		}
	})
}
