package bottest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/pipenet"
)

// bubble runs a test in a synctest bubble with a bench whose client is closed
// before the bubble ends.
func bubble(t *testing.T, cfg Config, f func(t *testing.T, b *bench)) {
	synctest.Test(t, func(t *testing.T) { f(t, newBench(t, cfg)) })
}

func TestLongPollWaits(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, b *bench) {
		start := time.Now()
		if got := b.updates(obj{"timeout": 50}); len(got) != 0 {
			t.Errorf("updates %v", got)
		}
		if d := time.Since(start); d != 50*time.Second { // virtual time: exact
			t.Errorf("waited %v", d)
		}
	})
}

func TestLongPollEndsWithAnUpdate(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, b *bench) {
		got := make(chan reply, 1)
		go func() { r, _ := b.do(context.Background(), "getUpdates", obj{"timeout": 50}); got <- r }()
		synctest.Wait()
		if !b.Polling() {
			t.Error("nobody polls")
		}
		start := time.Now()
		b.mira.Send("hello")
		r := <-got
		if time.Since(start) != 0 || !r.OK {
			t.Errorf("%v after %v", r, time.Since(start))
		}
		var updates []struct {
			UpdateID int64 `json:"update_id"`
			Message  apiMessage
		}
		if err := json.Unmarshal(r.Result, &updates); err != nil || len(updates) != 1 {
			t.Fatalf("%s %v", r.Result, err)
		}
		u := updates[0]
		if u.UpdateID != 810000001 || u.Message.Text != "hello" || u.Message.From.ID != miraID || u.Message.Chat.Type != "private" || u.Message.Chat.Username != "mira_sample" {
			t.Errorf("%+v", u)
		}
	})
}

func TestOffsetConfirms(t *testing.T) {
	b := newBench(t, Config{FirstUpdate: 1})
	for range 5 {
		b.mira.Send("x")
	}
	ids := func(params obj) (out []int) {
		for _, u := range b.updates(params) {
			out = append(out, int(u["update_id"].(float64)))
		}
		return out
	}
	for _, step := range []struct {
		params  obj
		want    []int
		pending int
	}{
		{obj{}, []int{1, 2, 3, 4, 5}, 5},
		{obj{"limit": 2}, []int{1, 2}, 5}, // not confirmed: again
		{obj{"offset": 3}, []int{3, 4, 5}, 3},
		{obj{"offset": -1}, []int{5}, 1},
		{obj{"offset": -100}, []int{5}, 1},
		{obj{"offset": 6}, nil, 0},
	} {
		got := ids(step.params)
		if len(got) != len(step.want) || b.Pending() != step.pending {
			t.Fatalf("%v: %v, %d pending", step.params, got, b.Pending())
		}
		for i := range got {
			if got[i] != step.want[i] {
				t.Errorf("%v: %v, want %v", step.params, got, step.want)
			}
		}
	}
	b.SetNextUpdate(1)
	b.mira.Send("after a quiet week")
	if got := ids(obj{}); len(got) != 1 || got[0] != 1 {
		t.Errorf("restarted ids: %v", got)
	}
}

func TestUpdatesAreKeptADay(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, b *bench) {
		b.mira.Send("old")
		<-time.After(updateLife + time.Second) // virtual
		b.mira.Send("new")
		if got := b.updates(obj{}); len(got) != 1 {
			t.Errorf("%v", got)
		}
	})
}

func TestAllowedUpdates(t *testing.T) {
	b := newBench(t, Config{})
	m := b.mira.Send("1")
	b.mira.React(m, "👍") // not asked for
	if got := b.updates(obj{"offset": 1}); len(got) != 1 {
		t.Fatalf("default: %v", got)
	}
	b.updates(obj{"offset": -1, "allowed_updates": []string{"message_reaction"}})
	b.mira.Send("2")
	b.mira.React(m, "👎")
	got := b.updates(obj{"offset": 810000002}) // unset: the list is remembered
	if len(got) != 1 || got[0]["message_reaction"] == nil {
		t.Errorf("%v", got)
	}
}

func TestTheOlderPollerGets409(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, b *bench) {
		first, second := make(chan reply, 1), make(chan reply, 1)
		poll := func(out chan reply) {
			r, err := b.do(context.Background(), "getUpdates", obj{"timeout": 50})
			if err != nil {
				t.Error(err)
			}
			out <- r
		}
		go poll(first)
		synctest.Wait()
		go poll(second)
		r := <-first
		if r.Status != 409 || r.Description != "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running" {
			t.Errorf("%+v", r)
		}
		b.mira.Send("x")
		if r := <-second; !r.OK {
			t.Errorf("%+v", r)
		}
	})
}

func TestAGonePollerConflictsWithNobody(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, b *bench) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { _, err := b.do(ctx, "getUpdates", obj{"timeout": 50}); done <- err }()
		synctest.Wait()
		cancel()
		if err := <-done; err == nil {
			t.Error("answered")
		}
		if err := b.Wait(within(t), func(s *Server) bool { return !s.Polling() }); err != nil {
			t.Error(err)
		}
		b.mira.Send("kept")
		if got := b.updates(obj{"timeout": 50}); len(got) != 1 {
			t.Errorf("%v", got)
		}
	})
}

func TestWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := pipenet.Listen()
		transport := &http.Transport{DialContext: ln.Dial}
		hook := &hookServer{got: make(chan delivery, 10), fail: make(chan int, 1)}
		srv := &http.Server{Handler: hook}
		go func() { _ = srv.Serve(ln) }()
		t.Cleanup(func() { transport.CloseIdleConnections(); _ = srv.Close() })
		testWebhook(t, newBench(t, Config{WebhookClient: &http.Client{Transport: transport}}), hook)
	})
}

type delivery struct{ body, secret string }

type hookServer struct {
	got  chan delivery
	fail chan int
}

func (h *hookServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case code := <-h.fail:
		w.WriteHeader(code)
		return
	default:
	}
	body, _ := io.ReadAll(r.Body)
	h.got <- delivery{string(body), r.Header.Get("X-Telegram-Bot-Api-Secret-Token")}
}

func testWebhook(t *testing.T, b *bench, hook *hookServer) {
	polled := make(chan reply, 1)
	go func() { r, _ := b.do(context.Background(), "getUpdates", obj{"timeout": 50}); polled <- r }()
	if err := b.Wait(within(t), func(s *Server) bool { return s.Polling() }); err != nil {
		t.Fatal(err)
	}
	b.must("setWebhook", obj{"url": "http://bot.example.org/hook", "secret_token": "s3cret-_"})
	if r := <-polled; r.Description != "Conflict: terminated by setWebhook request" {
		t.Errorf("%+v", r)
	}
	b.refused(409, "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first", "getUpdates", obj{})

	b.mira.Send("by hook")
	d := <-hook.got
	var u struct{ Message apiMessage }
	if err := json.Unmarshal([]byte(d.body), &u); err != nil || u.Message.Text != "by hook" || d.secret != "s3cret-_" {
		t.Errorf("%+v %v", d, err)
	}
	if err := b.Wait(within(t), func(s *Server) bool { return s.Pending() == 0 }); err != nil {
		t.Error(err)
	}

	hook.fail <- 500
	b.mira.Send("twice")
	if d := <-hook.got; d.secret == "" { // delivered again after the 500
		t.Errorf("%+v", d)
	}
	var info struct {
		URL  string `json:"url"`
		Last string `json:"last_error_message"`
	}
	if err := json.Unmarshal(b.must("getWebhookInfo", obj{}).Result, &info); err != nil || info.URL != "http://bot.example.org/hook" || info.Last != "Wrong response from the webhook: 500 Internal Server Error" {
		t.Errorf("%+v %v", info, err)
	}
	b.must("deleteWebhook", obj{"drop_pending_updates": true})
	if got := b.updates(obj{}); len(got) != 0 {
		t.Errorf("%v", got)
	}
	b.noViolations()
}
