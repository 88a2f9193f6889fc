package bot

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-telegram/bot/models"

	"agentd/internal/agent"
	"agentd/internal/bot/bottest"
	"agentd/internal/bot/markdown"
)

func decodeBody(t *testing.T, p agent.Payload, o *outgoing) {
	t.Helper()
	if err := json.Unmarshal(p.Body, o); err != nil {
		t.Fatal(err)
	}
}

func TestSendDelivers(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		question := d.srv.User(ann, "Ann", "en").SendTo(group, "hello?")
		_, stop := d.sending()
		defer stop()
		bold := markdown.Text{Text: "all is well", Entities: []models.MessageEntity{{Type: models.MessageEntityTypeBold, Offset: 7, Length: 4}}}
		d.post("turn:1", group,
			textPayload(bold, "all is **well**", withReply(int64(question.ID))),
			textPayload(markdown.Text{Text: "second"}, "", withSilence(), withKeyboard(&models.InlineKeyboardMarkup{
				InlineKeyboard: [][]models.InlineKeyboardButton{{{Text: "Press", CallbackData: "x:1"}}},
			})))
		d.pass(time.Second)
		d.want(group, "all is well", "second")
		got := d.srv.Chat(group).FromBot()
		if m := got[0]; m.ReplyTo != question.ID || len(m.Entities) != 1 || m.Silent || m.Preview {
			t.Errorf("first part: %+v", m)
		}
		if m := got[1]; m.ReplyTo != 0 || !m.Silent || len(m.Buttons) != 1 {
			t.Errorf("second part: %+v", m)
		}
		d.idle()
	})
}

// C011, C012: nothing goes to the chat before the time named, others are served,
// and stopping does not wait for it. The next process keeps to the time.
func TestSendFloodPenalty(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		const penalty = 13938
		d.srv.Fault(bottest.Rule{Method: "sendMessage", Chat: ann, RetryAfter: penalty})
		b, stop := d.sending()
		began := time.Now()
		d.post("turn:1", ann, say("the answer"))
		d.pass(time.Second)
		d.post("turn:2", bob, say("for bob"))
		d.post("turn:3", ann, say("a later one"))
		d.pass(time.Minute)
		d.want(bob, "for bob")
		if n := d.calls("sendMessage", ann); n != 1 {
			t.Errorf("%d calls to the chat in its penalty", n)
		}
		if b.gate.try(ann) {
			t.Error("a preview may go out in the penalty")
		}
		b.sender.mu.Lock()
		if n := len(b.sender.lanes); n != 0 {
			t.Errorf("%d lanes are held by the penalty", n)
		}
		b.sender.mu.Unlock()
		before := time.Now()
		stop()
		if waited := time.Since(before); waited != 0 {
			t.Errorf("stopping took %v", waited)
		}
		if d.log.count("fate=retry", "key=turn:1") != 1 {
			t.Errorf("the delay is not in the log:\n%s", d.log.String())
		}

		_, stop = d.sending()
		defer stop()
		d.pass(penalty*time.Second - time.Since(began) - time.Second)
		d.want(ann)
		d.pass(3 * time.Second)
		d.want(ann, "the answer", "a later one")
		d.idle()
	})
}

// What surely failed is tried again, and comes once.
func TestSendRetriesSureFailures(t *testing.T) {
	tests := map[string]bottest.Rule{
		"server error in JSON (C114)":   {Status: 500, Times: 3},
		"token refused for a while":     {Status: 401, Times: 2},
		"bad request page of a gateway": {Status: 400, Body: "<html>400</html>", Times: 2},
	}
	for name, rule := range tests {
		t.Run(name, func(t *testing.T) {
			withDelivery(t, func(d *delivery) {
				rule.Method = "sendMessage"
				fault := d.srv.Fault(rule)
				_, stop := d.sending()
				defer stop()
				d.post("turn:1", ann, say("A"))
				d.post("turn:2", ann, say("B"))
				d.pass(5 * time.Minute)
				d.want(ann, "A", "B")
				if fault.Hits() != rule.Times {
					t.Errorf("%d failures", fault.Hits())
				}
				d.idle()
			})
		})
	}
	t.Run("no connection", func(t *testing.T) {
		withDelivery(t, func(d *delivery) {
			dial, tried := refusing(8, d.srv.Dial)
			d.cfg.Dial = dial
			_, stop := d.sending()
			defer stop()
			d.post("turn:1", ann, say("A"))
			d.pass(6 * time.Second) // tries at 0, 1, 3 s
			if n := tried(); n != 3 {
				t.Errorf("%d tries in 6 s", n)
			}
			d.pass(10 * time.Minute)
			d.want(ann, "A")
			d.idle()
		})
	})
}

// What may have been sent is not sent again: the person is asked, and the button
// sends it.
func TestSendUncertain(t *testing.T) {
	tests := map[string]struct {
		rule    bottest.Rule
		arrived bool
	}{
		"cut before it took effect": {bottest.Rule{CutBefore: true}, false},
		"cut after it took effect":  {bottest.Rule{CutAfter: true}, true},
		"half an answer":            {bottest.Rule{HalfBody: true}, true},
		"a gateway's page":          {bottest.Rule{Status: 502, Body: "<html>502</html>"}, false},
		"a gateway's page, too late": {bottest.Rule{
			Status: 504, Body: "<html>504</html>", Accept: true}, true},
		"no answer":      {bottest.Rule{Hang: true}, false},
		"a late answer":  {bottest.Rule{DelayAfter: time.Minute}, true},
		"an empty 200":   {bottest.Rule{Status: 200, Body: " "}, false},
		"a 200 of a WAF": {bottest.Rule{Status: 200, Body: "<html>checking your browser</html>"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			withDelivery(t, func(d *delivery) {
				test.rule.Method = "sendMessage"
				d.srv.Fault(test.rule)
				b, stop := d.sending()
				defer stop()
				d.post("turn:1", ann, say("one"), say("two"))
				d.pass(5 * time.Minute)
				notice := b.md.Render(b.say.say("en", "uncertain")).Text
				want := []string{notice, "two"}
				if test.arrived {
					want = slices.Insert(want, 0, "one")
				}
				d.want(ann, want...)
				d.idle()

				m := d.srv.Chat(ann).FromBot()[len(want)-2]
				data := m.Buttons[0][0].Data
				var post int64
				var part int
				if _, err := fmt.Sscanf(data, "resend:%d:%d", &post, &part); err != nil {
					t.Fatalf("button %q: %v", data, err)
				}
				for range 2 { // pressed twice
					if ok, err := d.store.Resend(d.ctx, ann, post, part); err != nil || !ok {
						t.Fatalf("Resend: %v, %v", ok, err)
					}
				}
				d.pass(time.Minute)
				d.want(ann, append(want, "one")...)
			})
		})
	}
}

// A part that may be repeated is, with no word about it.
func TestSendRepeatsIdempotent(t *testing.T) {
	for name, rule := range map[string]bottest.Rule{
		"cut before": {CutBefore: true, Times: 2}, "cut after": {CutAfter: true, Times: 2}, "page": {Status: 502, Body: "<html>", Times: 2},
	} {
		t.Run(name, func(t *testing.T) {
			withDelivery(t, func(d *delivery) {
				b, stop := d.sending()
				defer stop()
				id := d.existing(b, ann, "a preview")
				gone := d.existing(b, ann, "another")
				for _, method := range []string{"editMessageText", "deleteMessage"} {
					rule.Method = method
					d.srv.Fault(rule)
				}
				d.post("turn:1", ann, editPayload(id, markdown.Text{Text: "the answer"}, ""))
				d.post("unpreview:2", ann, deletePayload(gone))
				d.pass(time.Minute)
				d.want(ann, "the answer")
				d.idle()
			})
		})
	}
}

// Every refusal that can be mended costs one more call, at once.
func TestSendMends(t *testing.T) {
	bold := markdown.Text{Text: "a word", Entities: []models.MessageEntity{{Type: models.MessageEntityTypeBold, Offset: 2, Length: 4}}}
	mends := map[string]func(t *testing.T, d *delivery, b *Bot){
		"entities refused: plain text (C006)": func(t *testing.T, d *delivery, _ *Bot) {
			d.srv.Fault(bottest.Rule{Method: "sendMessage", Status: 400,
				Error: "Bad Request: can't parse entities: Can't find end of the entity starting at byte offset 33",
				Match: func(c bottest.Call) bool { return c.Params["entities"] != nil }, Times: -1})
			d.post("turn:1", ann, textPayload(bold, "a **word**"))
			d.pass(time.Second)
			d.want(ann, "a **word**")
		},
		"entities refused, no other text": func(t *testing.T, d *delivery, _ *Bot) {
			d.srv.Fault(bottest.Rule{Method: "sendMessage", Status: 400, Error: "Bad Request: ENTITY_BOUNDS_INVALID"})
			d.post("turn:1", ann, textPayload(bold, ""))
			d.pass(time.Second)
			d.want(ann, "a word")
		},
		"edit of a deleted message: a new one": func(t *testing.T, d *delivery, b *Bot) {
			id := d.existing(b, ann, "a preview")
			d.srv.Chat(ann).Delete(int(id))
			d.post("turn:1", ann, editPayload(id, bold, "a **word**"))
			d.pass(time.Second)
			d.want(ann, "a word")
		},
		"edit that changes nothing": func(t *testing.T, d *delivery, b *Bot) {
			id := d.existing(b, ann, "the same")
			d.post("turn:1", ann, editPayload(id, markdown.Text{Text: "the same"}, ""), say("next"))
			d.pass(time.Second)
			d.want(ann, "the same", "next")
		},
		"removal of a removed message": func(t *testing.T, d *delivery, b *Bot) {
			id := d.existing(b, ann, "a preview")
			d.srv.Chat(ann).Delete(int(id))
			d.post("unpreview:1", ann, deletePayload(id), say("next"))
			d.pass(time.Second)
			d.want(ann, "next")
		},
		"reply target gone": func(t *testing.T, d *delivery, _ *Bot) {
			d.srv.Fault(bottest.Rule{Method: "sendMessage", Status: 400, Error: "Bad Request: message to be replied not found"})
			d.post("turn:1", group, textPayload(markdown.Text{Text: "x"}, "", withReply(77)))
			d.pass(time.Second)
			d.want(group, "x")
			if m := d.srv.Chat(group).FromBot()[0]; m.ReplyTo != 0 {
				t.Errorf("replies to %d", m.ReplyTo)
			}
		},
		"topic deleted (C016)": func(t *testing.T, d *delivery, _ *Bot) {
			forum := d.srv.AddChat(-1001557000333, "forum", "Forum", false)
			thread := forum.AddTopic("Work")
			forum.DeleteTopic(thread)
			to := agent.Address{Channel: Channel, Chat: -1001557000333, Thread: int64(thread)}
			d.postTo("turn:1", to, textPayload(markdown.Text{Text: "x"}, "", withReply(5)))
			d.pass(time.Second)
			d.want(-1001557000333, "x")
			if n := d.calls("sendMessage", -1001557000333); n != 2 {
				t.Errorf("%d calls", n)
			}
		},
		"general topic (C014)": func(t *testing.T, d *delivery, _ *Bot) {
			d.srv.AddChat(-1001557000333, "forum", "Forum", false)
			d.srv.Fault(bottest.Rule{Method: "sendMessage", Status: 400, Error: "Bad Request: message thread not found", Times: -1,
				Match: func(c bottest.Call) bool { return c.Params["message_thread_id"] == int64(1) }})
			d.postTo("turn:1", agent.Address{Channel: Channel, Chat: -1001557000333, Thread: 1}, say("x"))
			d.pass(time.Second)
			d.want(-1001557000333, "x")
			if n := d.calls("sendMessage", -1001557000333); n != 1 {
				t.Errorf("%d calls", n)
			}
		},
		"a topic that is there": func(t *testing.T, d *delivery, _ *Bot) {
			forum := d.srv.AddChat(-1001557000333, "forum", "Forum", false)
			thread := forum.AddTopic("Work")
			d.postTo("turn:1", agent.Address{Channel: Channel, Chat: -1001557000333, Thread: int64(thread)}, say("x"))
			d.pass(time.Second)
			if m, ok := forum.Last(); !ok || m.Text != "x" || m.Thread != thread {
				t.Errorf("last message %+v", m)
			}
		},
	}
	for name, test := range mends {
		t.Run(name, func(t *testing.T) {
			withDelivery(t, func(d *delivery) {
				b, stop := d.sending()
				defer stop()
				test(t, d, b)
				d.idle()
				if n := d.log.count("level=ERROR"); n != 0 {
					t.Errorf("errors in the log:\n%s", d.log.String())
				}
			})
		})
	}
}

// A replaced edit is a new message: when its fate is unknown, the person is asked.
func TestSendReplacedEditIsNotRepeated(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		b, stop := d.sending()
		defer stop()
		id := d.existing(b, ann, "a preview")
		d.srv.Chat(ann).Delete(int(id))
		d.srv.Fault(bottest.Rule{Method: "sendMessage", CutAfter: true})
		d.post("turn:1", ann, editPayload(id, markdown.Text{Text: "the answer"}, ""))
		d.pass(time.Minute)
		d.want(ann, "the answer", b.md.Render(b.say.say("en", "uncertain")).Text)
	})
}

// C104: a chat that cannot be reached is left alone until it writes.
func TestSendParks(t *testing.T) {
	for _, text := range []string{
		"Forbidden: bot was blocked by the user", "Forbidden: bot was kicked from the supergroup chat", "Bad Request: chat not found",
		"Bad Request: PEER_ID_INVALID", "Forbidden: user is deactivated", "Bad Request: not enough rights to send text messages to the chat",
	} {
		t.Run(text, func(t *testing.T) {
			withDelivery(t, func(d *delivery) {
				_, stop := d.sending()
				defer stop()
				code := 400
				if strings.HasPrefix(text, "Forbidden") {
					code = 403
				}
				fault := d.srv.Fault(bottest.Rule{Method: "sendMessage", Chat: ann, Status: code, Error: text, Times: -1})
				d.post("turn:1", ann, say("A"), say("B"))
				d.post("turn:2", bob, say("for bob"))
				d.pass(time.Hour)
				if fault.Hits() != 1 {
					t.Errorf("%d calls to the chat", fault.Hits())
				}
				d.want(bob, "for bob")
				fault.Remove()
				_, err := d.store.Accept(d.ctx, []agent.Incoming{{
					Update: 1, Kind: agent.KindMessage, Address: agent.Address{Channel: Channel, Chat: ann}, At: time.Now(), Due: time.Now(), Raw: json.RawMessage("{}"),
				}})
				if err != nil {
					t.Fatal(err)
				}
				d.pass(time.Second)
				d.want(ann, "A", "B")
				d.idle()
			})
		})
	}
}

// C017: the same text goes to the chat's new id.
func TestSendMigrates(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		const old, moved = -4001, -1001557000111
		d.srv.AddChat(old, "group", "Team", false).Migrate(moved)
		_, stop := d.sending()
		defer stop()
		d.post("turn:1", old, say("one"), say("two"))
		d.post("turn:2", old, say("three"))
		d.pass(time.Minute)
		d.want(moved, "one", "two", "three")
		if n := d.calls("sendMessage", old); n != 1 {
			t.Errorf("%d calls to the old id", n)
		}
		d.idle()
	})
}

// Any other refusal is told to the owner and the chat for alarms, once; the rest
// of the post goes on. An alarm about an alarm is only logged.
func TestSendFailsLoudly(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		d.cfg.Chat = bob
		d.srv.Fault(bottest.Rule{Method: "sendMessage", Chat: group, Status: 400, Error: "Bad Request: BUTTON_DATA_INVALID"})
		d.srv.Fault(bottest.Rule{Method: "sendMessage", Chat: bob, Status: 400, Error: "Bad Request: something new", Times: -1})
		b, stop := d.sending()
		defer stop()
		d.post("turn:1", group, say("one"), say("two"))
		d.pass(time.Minute)
		d.want(group, "two")
		line := b.md.Render(b.say.say("en", "failed.owner", "chat", fmt.Sprint(group), "reason", "sendMessage: 400 Bad Request: BUTTON_DATA_INVALID")).Text
		d.want(ann, line)
		if n := d.calls("sendMessage", bob); n != 1 {
			t.Errorf("%d alarms to the chat for alarms", n)
		}
		if n := d.log.count("level=ERROR", "fate=failed"); n != 2 {
			t.Errorf("%d failures in the log:\n%s", n, d.log.String())
		}
		d.idle()
	})
}

// The table of the errors that Telegram is known to give, and what becomes of a message.
func TestSendFates(t *testing.T) {
	raw, err := os.ReadFile("testdata/tg_errors.json")
	if err != nil {
		t.Fatal(err)
	}
	var corpus []struct {
		Status int
		Body   json.RawMessage
	}
	if err := json.Unmarshal(raw, &corpus); err != nil {
		t.Fatal(err)
	}
	want := map[string]agent.Fate{
		"message is too long": agent.Failed, "message text is empty": agent.Failed, "message is not modified": agent.Sent,
		"PHOTO_INVALID_DIMENSIONS": agent.Failed, "IMAGE_PROCESS_FAILED": agent.Failed, "caption is too long": agent.Failed,
		"file must be non-empty": agent.Failed, "file is too big": agent.Failed, "query is too old": agent.Failed, "BUTTON_DATA_INVALID": agent.Failed,
		"upgraded to a supergroup": agent.Retry, "blocked by the user": agent.Parked, "kicked": agent.Parked, "Unauthorized": agent.Retry,
		"terminated by other": agent.Failed, "webhook is active": agent.Failed, "retry after 3": agent.Retry, "413": agent.Failed, "502": agent.Uncertain,
		// These are mended when the message holds what is refused; this one does not.
		"can't parse entities": agent.Failed, "to edit not found": agent.Failed, "to be replied not found": agent.Failed, "thread not found": agent.Failed,
	}
	seen := 0
	for _, c := range corpus {
		withDelivery(t, func(d *delivery) {
			body := string(c.Body)
			if body[0] == '"' {
				_ = json.Unmarshal(c.Body, &body)
			}
			d.srv.Fault(bottest.Rule{Method: "sendMessage", Status: c.Status, Body: body})
			b, stop := d.start()
			defer stop()
			out, _ := b.sender.deliver(d.ctx, agent.Send{Post: 1, Key: "turn:1", Address: agent.Address{Channel: Channel, Chat: ann}, Payload: say("x")})
			for text, fate := range want {
				if strings.Contains(body, text) {
					seen++
					if out.Fate != fate {
						t.Errorf("%s: %s (%s), want %s", body, out.Fate, out.Reason, fate)
					}
					if (out.Notice != nil) != (fate == agent.Uncertain) {
						t.Errorf("%s: notice %v", body, out.Notice)
					}
				}
			}
		})
	}
	if seen != len(corpus) {
		t.Errorf("%d of %d errors were judged", seen, len(corpus))
	}
}

// A process that died between Telegram's yes and Settle.
func TestSendAfterACrash(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		b, stop := d.start()
		id := d.existing(b, bob, "a preview")
		stop()
		d.post("turn:1", ann, say("one"), say("two"))
		d.post("turn:2", bob, editPayload(id, markdown.Text{Text: "the answer"}, ""))
		for _, chat := range []int64{ann, bob} { // the dead process had begun
			if _, ok, err := d.store.Next(d.ctx, chat, time.Now()); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		_, stop = d.sending()
		defer stop()
		d.pass(time.Minute)
		d.want(ann, b.md.Render(b.say.say("en", "uncertain")).Text, "two")
		d.want(bob, "the answer")
		d.idle()
	})
}

// C114: the answer to A is slow to be accepted, then refused once.
func TestSendKeepsTheOrder(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		d.srv.Fault(bottest.Rule{Method: "sendMessage", Chat: ann, Delay: 3 * time.Second, Status: 500})
		_, stop := d.sending()
		defer stop()
		d.post("turn:1", ann, say("answer A"))
		d.post("turn:2", ann, say("answer B"))
		d.post("turn:3", bob, say("for bob"))
		d.pass(time.Second)
		d.want(bob, "for bob")
		d.pass(time.Minute)
		d.want(ann, "answer A", "answer B")
	})
}

// Shutdown: what is on its way is finished; what hangs is given up and labelled.
func TestSendStops(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		d.srv.Fault(bottest.Rule{Method: "sendMessage", Chat: ann, DelayAfter: 2 * time.Second})
		d.srv.Fault(bottest.Rule{Method: "sendMessage", Chat: bob, Hang: true})
		b, stop := d.sending()
		d.post("turn:1", ann, say("slow"), say("never begun"))
		d.post("turn:2", bob, say("hangs"))
		d.pass(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took != lastCalls {
			t.Errorf("stopping took %v", took)
		}
		d.want(ann, "slow")
		if left, err := d.store.InFlight(d.ctx); err != nil || len(left) != 0 {
			t.Errorf("in flight: %v, %v", left, err)
		}
		_, stop = d.sending()
		defer stop()
		d.pass(time.Minute)
		d.want(ann, "slow", "never begun")
		d.want(bob, b.md.Render(b.say.say("en", "uncertain")).Text)
	})
}

// The store fails for a while: what was sent is known as sent all the same.
func TestSendStoreFails(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		down := time.Now().Add(20 * time.Second)
		d.probe = func(verb string, committed bool) error {
			if !committed && (verb == "Settle" || verb == "Next") && time.Now().Before(down) {
				return errDisk
			}
			return nil
		}
		_, stop := d.sending()
		defer stop()
		d.post("turn:1", ann, say("one"), say("two"))
		d.pass(2 * time.Minute)
		d.want(ann, "one", "two")
		d.idle()
	})
}

// With Telegram's limits on both sides nothing is lost, hardly anything refused,
// and it takes no more than a fifth longer than the limits demand.
func TestSendUnderFloodLimits(t *testing.T) {
	withServer(t, bottest.Config{Flood: true}, func(d *delivery) {
		d.cfg.Rates = Rates{All: 30, Chat: 1, Group: 20}
		const chats, each = 100, 5
		for i := range int64(chats) {
			d.srv.User(5000+i, "P", "en")
			for n := range each {
				d.post(fmt.Sprintf("turn:%d:%d", i, n), 5000+i, say(fmt.Sprint(n)))
			}
		}
		for n := range 25 {
			d.post(fmt.Sprintf("group:%d", n), group, say(fmt.Sprint(n)))
		}
		began := time.Now()
		_, stop := d.sending()
		defer stop()
		d.pass((chats*each + 20) / 30 * time.Second * 6 / 5)
		for i := range int64(chats) {
			if d.want(5000+i, "0", "1", "2", "3", "4"); t.Failed() {
				break
			}
		}
		if n := len(d.texts(group)); n != 20 {
			t.Errorf("%d messages to the group in its first minute", n)
		}
		d.pass(time.Minute + 30*time.Second - time.Since(began))
		if n := len(d.texts(group)); n != 25 {
			t.Errorf("%d messages to the group", n)
		}
		if refused := len(d.srv.Calls(func(c bottest.Call) bool { return c.Code == 429 })); refused > 3 {
			t.Errorf("%d refusals", refused)
		}
		d.idle()
	})
}

// A chat whose call hangs does not hold up the others, nor do a thousand at once.
func TestSendManyChats(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		d.srv.Fault(bottest.Rule{Method: "sendMessage", Chat: ann, Hang: true, Times: -1})
		d.post("turn:ann", ann, say("x"))
		_, stop := d.sending()
		defer stop()
		d.pass(0)
		var posts []agent.Post
		for i := range int64(1000) {
			d.srv.User(5000+i, "P", "en")
			posts = append(posts, agent.Post{Key: fmt.Sprint("turn:", i), Address: agent.Address{Channel: Channel, Chat: 5000 + i}, Parts: []agent.Payload{say("hi")}})
		}
		if err := d.store.Post(d.ctx, posts...); err != nil {
			t.Fatal(err)
		}
		d.pass(0)
		for i := range int64(1000) {
			if got := d.texts(5000 + i); len(got) != 1 {
				t.Fatalf("chat %d: %q", i, got)
			}
		}
	})
}

func BenchmarkSend(b *testing.B) {
	srv, err := bottest.New(bottest.Config{Keep: 10})
	if err != nil {
		b.Fatal(err)
	}
	defer srv.Close()
	srv.User(ann, "Ann", "en")
	a, err := newAPI(Config{Token: srv.Token(), URL: "http://telegram.test", Dial: srv.Dial})
	if err != nil {
		b.Fatal(err)
	}
	defer a.send.CloseIdleConnections()
	var o outgoing
	if err := json.Unmarshal(say("hello").Body, &o); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.post(context.Background(), agent.Address{Chat: ann}, o); err != nil {
			b.Fatal(err)
		}
	}
}

// A chat that is said to have moved to itself, or to and fro, is not asked without pause.
func TestSendMigratesInCircles(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		const old, moved = -4001, -1001557000111
		d.srv.AddChat(old, "group", "Team", false)
		d.srv.AddChat(moved, "supergroup", "Team", false)
		d.srv.Fault(bottest.Rule{Method: "sendMessage", Chat: group, MigrateTo: group, Times: -1})
		d.srv.Fault(bottest.Rule{Method: "sendMessage", Chat: old, MigrateTo: moved, Times: -1})
		d.srv.Fault(bottest.Rule{Method: "sendMessage", Chat: moved, MigrateTo: old, Times: -1})
		_, stop := d.sending()
		d.post("turn:1", group, say("one"))
		d.post("turn:2", old, say("two"))
		d.pass(time.Minute)
		stop()
		if n := d.calls("sendMessage", group); n != 1 {
			t.Errorf("%d calls to the chat that moved to itself", n)
		}
		if n := d.calls("sendMessage", old) + d.calls("sendMessage", moved); n < 3 || n > 10 {
			t.Errorf("%d calls to and fro", n)
		}
	})
}

// The owner is told of a failure in the owner's language.
func TestAlarmsSpeakTheOwnersLanguage(t *testing.T) {
	withDelivery(t, func(d *delivery) {
		d.srv.Fault(bottest.Rule{Method: "sendMessage", Chat: group, Status: 400, Error: "Bad Request: BUTTON_DATA_INVALID"})
		if err := d.store.SetSetting(d.ctx, "owner_lang", "ru"); err != nil {
			t.Fatal(err)
		}
		_, stop := d.sending()
		defer stop()
		d.post("turn:1", group, say("one"))
		d.pass(time.Minute)
		if got := d.texts(ann); len(got) != 1 || !strings.HasPrefix(got[0], "Telegram не принял") {
			t.Errorf("the owner sees %q", got)
		}
	})
}
