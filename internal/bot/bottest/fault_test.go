package bottest

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFaults(t *testing.T) {
	hello := obj{"chat_id": miraID, "text": "hello"}
	for _, c := range []struct {
		name    string
		rule    Rule
		took    bool // effect
		status  int  // 0: no answer
		refusal string
	}{
		{"cut before", Rule{CutBefore: true}, false, 0, ""},
		{"cut after", Rule{CutAfter: true}, true, 0, ""},
		{"half the answer", Rule{HalfBody: true}, true, 0, ""},
		{"429", Rule{RetryAfter: 3}, false, 429, "Too Many Requests: retry after 3"},
		{"migration", Rule{MigrateTo: -100}, false, 400, "Bad Request: group chat was upgraded to a supergroup chat"},
		{"error", Rule{Status: 400, Error: "Bad Request: can't parse entities"}, false, 400, "Bad Request: can't parse entities"},
		{"error without text", Rule{Status: 500}, false, 500, "Internal Server Error"},
		{"own JSON", Rule{Status: 403, Body: `{"ok":false,"error_code":403,"description":"Forbidden: x"}`}, false, 403, "Forbidden: x"},
		{"error after all", Rule{Status: 500, Accept: true}, true, 500, "Internal Server Error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, Config{})
			c.rule.Method = "sendMessage"
			f := b.Fault(c.rule)
			r, err := b.do(t.Context(), "sendMessage", hello)
			if c.status == 0 && err == nil || c.status != 0 && (err != nil || r.Status != c.status || r.Description != c.refusal) {
				t.Errorf("%+v, %v", r, err)
			}
			if got := len(b.mira.Chat().FromBot()) == 1; got != c.took {
				t.Errorf("effect: %v", got)
			}
			if calls := b.Calls(Method("sendMessage")); len(calls) != 1 || !calls[0].Faulty || f.Hits() != 1 {
				t.Errorf("%+v, %d hits", calls, f.Hits())
			}
			b.send(miraID, "the next is fine")
		})
	}
}

func TestFaultHTML(t *testing.T) {
	b := newBench(t, Config{})
	b.Fault(Rule{Status: 502, Body: "<html>Bad Gateway</html>", Times: -1})
	resp, err := b.http.Get("http://api/bot" + b.Token() + "/getMe")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 502 || resp.Header.Get("Content-Type") != "text/html" || string(body) != "<html>Bad Gateway</html>" {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Header, body)
	}
}

func TestFaultSelects(t *testing.T) {
	b := newBench(t, Config{})
	f := b.Fault(Rule{Method: "sendMessage", Chat: miraID, Match: func(c Call) bool { return strings.HasPrefix(c.Text(), "bad") }, After: 1, Times: 2, Status: 500})
	send := func(chat int64, text string) int {
		return b.call("sendMessage", obj{"chat_id": chat, "text": text}).Status
	}
	for i, step := range []struct {
		chat   int64
		text   string
		status int
	}{
		{groupID, "bad", 200}, {miraID, "good", 200}, {miraID, "bad 1", 200},
		{miraID, "bad 2", 500}, {miraID, "bad 3", 500}, {miraID, "bad 4", 200},
	} {
		if got := send(step.chat, step.text); got != step.status {
			t.Errorf("step %d: %d", i, got)
		}
	}
	if f.Hits() != 2 {
		t.Errorf("%d hits", f.Hits())
	}
	gone := b.Fault(Rule{Times: -1, Status: 500})
	gone.Remove()
	b.must("getMe", obj{})
}

func TestFaultDelays(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, b *bench) {
		b.Fault(Rule{Method: "sendMessage", Delay: 2 * time.Second, DelayAfter: 3 * time.Second})
		start := time.Now()
		done := make(chan struct{})
		go func() { b.send(miraID, "slow"); close(done) }()
		if err := b.Wait(within(t), func(*Server) bool { return len(b.mira.Chat().FromBot()) == 1 }); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 2*time.Second {
			t.Errorf("took effect after %v", d)
		}
		<-done
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("answered after %v", d)
		}
	})
}

func TestFaultHang(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, b *bench) {
		b.Fault(Rule{Method: "getMe", Hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := b.do(ctx, "getMe", obj{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		synctest.Wait()
		b.must("getMe", obj{})
	})
}

func TestCloseEndsHangingCalls(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, b *bench) {
		b.Fault(Rule{Method: "getMe", Hang: true})
		done := make(chan error, 1)
		go func() { _, err := b.do(context.Background(), "getMe", obj{}); done <- err }()
		synctest.Wait()
		b.Close()
		if err := <-done; err == nil {
			t.Error("answered")
		}
	})
}

func TestFlood(t *testing.T) {
	bubble(t, Config{Flood: true}, func(t *testing.T, b *bench) {
		status := func(method string, params obj) reply { return b.call(method, params) }
		var id int
		for i := range FloodPrivateBurst {
			r := status("sendMessage", obj{"chat_id": miraID, "text": "x"})
			if !r.OK {
				t.Fatalf("%d: %+v", i, r)
			}
			id = r.message(t).ID
		}
		r := status("editMessageText", obj{"chat_id": miraID, "message_id": id, "text": "y"})
		if r.Status != 429 || r.Description != "Too Many Requests: retry after 1" || r.Parameters["retry_after"] != 1.0 {
			t.Fatalf("%+v", r)
		}
		b.must("sendChatAction", obj{"chat_id": miraID, "action": "typing"}) // does not count
		<-time.After(time.Second)                                            // virtual
		b.send(miraID, "again")

		for range FloodGroup {
			<-time.After(time.Second)
			b.send(groupID, "x")
		}
		r = status("sendMessage", obj{"chat_id": groupID, "text": "21st"})
		if r.Status != 429 || r.Parameters["retry_after"] != 41.0 { // the first is 19 s old
			t.Errorf("%+v", r)
		}
		b.send(forumID, "another group")
		<-time.After(41 * time.Second)
		b.send(groupID, "again")

		refused := 0
		for i := range 40 {
			b.User(int64(1000+i), "X", "")
			if r := status("sendMessage", obj{"chat_id": 1000 + i, "text": "x"}); !r.OK {
				refused++
			}
		}
		if refused < 9 || refused > 11 { // 30 at once, less what stood in the last second
			t.Errorf("%d of 40 refused", refused)
		}
	})
}

// A client that dies while it sends has broken no rule, and has no effect.
func TestCutRequest(t *testing.T) {
	b := newBench(t, Config{})
	conn, err := b.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	body := "chat_id=100200300&text=x"
	if _, err := io.WriteString(conn, "POST /bot"+b.Token()+"/sendMessage HTTP/1.1\r\nHost: api\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 99\r\n\r\n"+body); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	b.must("getMe", obj{})
	b.Close()
	if len(b.Calls(Method("sendMessage"))) != 0 || len(b.mira.Chat().FromBot()) != 0 {
		t.Errorf("%+v", b.Calls())
	}
	b.noViolations()
}
