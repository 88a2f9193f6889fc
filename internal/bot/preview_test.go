package bot

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/agent"
	"agentd/internal/bot/bottest"
)

func TestShortAnswerIsOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, ann)
		p := s.bot.Follow(t.Context(), s.ask(ann, 0, 0))
		pass(250 * time.Millisecond) // the model thinks
		text := stream(p, 5, 5*time.Millisecond)
		s.finish(p, text)
		m := s.shows(text)[0]
		if m.Silent || m.ReplyTo != 0 {
			t.Errorf("silent %v, reply to %d", m.Silent, m.ReplyTo)
		}
		if calls := s.srv.Calls(); len(calls) != 1 {
			t.Errorf("%d calls:%s", len(calls), s.describe())
		}
	})
}

func TestPreviewGrowsIntoTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, ann)
		p := s.bot.Follow(t.Context(), s.ask(ann, 0, 0))
		pass(2 * time.Second)
		began := time.Now()
		text := stream(p, 100, 100*time.Millisecond)
		s.finish(p, text+" **bold**")
		m := s.shows(text + " bold")[0]
		if m.Silent || len(m.Entities) != 1 {
			t.Errorf("silent %v, entities %v", m.Silent, m.Entities)
		}
		calls := s.calls()
		if at := calls[0].At.Sub(began); calls[0].Method != "sendMessage" || at != holdBack {
			t.Errorf("%s after %v, want sendMessage after %v", calls[0].Method, at, holdBack)
		}
		if n := len(calls); n < 9 || n > 12 {
			t.Errorf("%d calls in 10 s:%s", n, s.describe())
		}
		spaced(t, calls[:len(calls)-1], time.Second) // the answer itself does not wait
	})
}

func TestAnswerRingsLongAfterItsPreview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, ann)
		p := s.bot.Follow(t.Context(), s.ask(ann, 0, 0))
		text := stream(p, 25, time.Second)
		s.finish(p, text)
		m := s.shows(text)[0]
		if m.Silent || m.Edits > 0 {
			t.Errorf("silent %v, %d edits", m.Silent, m.Edits)
		}
		calls := s.calls()
		if last := calls[len(calls)-2:]; last[0].Method != "sendMessage" || last[1].Method != "deleteMessage" {
			t.Errorf("the last calls are %s, %s; want the answer, then the removal", last[0].Method, last[1].Method)
		}
	})
}

func TestLatePreviewIsSilentAndReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, ann)
		p := s.bot.Follow(t.Context(), s.ask(ann, 0, 21*time.Second))
		text := stream(p, 30, 100*time.Millisecond)
		if preview := s.chat.FromBot()[0]; !preview.Silent {
			t.Error("the preview rings")
		}
		s.finish(p, text)
		if m := s.shows(text)[0]; m.Silent || m.Edits > 0 {
			t.Errorf("silent %v, %d edits", m.Silent, m.Edits)
		}
	})
}

func TestPreviewInGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, group)
		topic := int64(s.chat.AddTopic("Talk"))
		question := s.srv.User(ann, "Ann", "en").Say(bottest.Say{Chat: group, Thread: int(topic), Text: "?"})
		turn := s.ask(group, topic, 0)
		turn.Question = int64(question.ID)
		p := s.bot.Follow(t.Context(), turn)
		text := stream(p, 90, 200*time.Millisecond) // 18 s
		s.finish(p, text)
		m := s.shows(text)[0]
		if m.Thread != int(topic) || m.ReplyTo != question.ID {
			t.Errorf("in topic %d, reply to %d; want %d, %d", m.Thread, m.ReplyTo, topic, question.ID)
		}
		calls := s.calls()
		spaced(t, calls[:len(calls)-1], 6*time.Second)
		if len(calls) != 4 {
			t.Errorf("%d calls in 18 s:%s", len(calls), s.describe())
		}
		for _, c := range s.srv.Calls(bottest.Method("sendChatAction")) {
			if c.Params["message_thread_id"] != topic {
				t.Errorf("typing in %v, want %d", c.Params["message_thread_id"], topic)
			}
		}
	})
}

func TestPreviewLeavesRoomForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, group)
		for range 15 { // a lively group: the minute is used up but for the reserve
			if err := s.bot.gate.wait(t.Context(), group); err != nil {
				t.Fatal(err)
			}
		}
		p := s.bot.Follow(t.Context(), s.ask(group, 1, 0))
		text := stream(p, 50, 100*time.Millisecond)
		if n := len(s.calls()); n != 0 {
			t.Errorf("%d previews:%s", n, s.describe())
		}
		s.finish(p, text)
		s.shows(text)
	})
}

// TestFloodPausesPreviews is C011.
func TestFloodPausesPreviews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, ann)
		s.srv.Fault(bottest.Rule{Method: "editMessageText", After: 2, RetryAfter: 3})
		p := s.bot.Follow(t.Context(), s.ask(ann, 0, 0))
		text := stream(p, 40, 100*time.Millisecond)
		s.finish(p, text)
		s.shows(text)
		calls, refused := s.calls(), 0
		for i, c := range calls {
			if c.Code == http.StatusTooManyRequests {
				refused++
				if d := calls[i+1].At.Sub(c.At); d < 3*time.Second {
					t.Errorf("%s %v after the 429", calls[i+1].Method, d)
				}
			}
		}
		if refused != 1 {
			t.Errorf("%d refusals:%s", refused, s.describe())
		}
	})
}

func TestFirstPreviewRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, ann)
		s.srv.Fault(bottest.Rule{Method: "sendMessage", RetryAfter: 2})
		p := s.bot.Follow(t.Context(), s.ask(ann, 0, 0))
		text := stream(p, 40, 100*time.Millisecond)
		s.finish(p, text)
		if m := s.shows(text)[0]; m.Edits == 0 {
			t.Errorf("no preview after the penalty:%s", s.describe())
		}
	})
}

// TestPreviewDeletedByPerson is C076.
func TestPreviewDeletedByPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, ann)
		s.srv.Fault(bottest.Rule{Method: "editMessageText", Status: 400,
			Error: "Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message"})
		p := s.bot.Follow(t.Context(), s.ask(ann, 0, 0))
		stream(p, 20, 100*time.Millisecond)
		if m := s.chat.FromBot()[0]; m.Edits != 0 {
			t.Errorf("%d edits", m.Edits)
		}
		stream(p, 10, 100*time.Millisecond) // goes on after "not modified"
		m := s.chat.FromBot()[0]
		if m.Edits == 0 {
			t.Error("no edit after \"not modified\"")
		}
		s.chat.Delete(m.ID)
		stream(p, 50, 100*time.Millisecond)
		s.finish(p, "The answer.")
		s.shows("The answer.")
		var lost int
		for _, c := range s.calls() {
			if strings.Contains(c.Error, "message to edit not found") {
				lost++
			}
		}
		if lost != 1 {
			t.Errorf("%d edits of a deleted message:%s", lost, s.describe())
		}
	})
}

// A server that answers without a message's id: there is nothing to edit, and the
// answer is a message of its own.
func TestPreviewWithoutAnId(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, ann)
		s.srv.Fault(bottest.Rule{Method: "sendMessage", Body: `{"ok":true,"result":{"message_id":"odd"}}`})
		p := s.bot.Follow(t.Context(), s.ask(ann, 0, 0))
		text := stream(p, 40, 100*time.Millisecond)
		s.finish(p, text)
		s.shows(text)
		if n := len(s.calls()); n != 2 {
			t.Errorf("%d calls:%s", n, s.describe())
		}
	})
}

func TestResumedTurnEditsItsPreview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, ann)
		p := s.bot.Follow(t.Context(), s.ask(ann, 0, 0))
		stream(p, 10, 100*time.Millisecond)
		p.Close() // the process goes down

		turns, err := s.store.Open(t.Context())
		if err != nil || len(turns) != 1 || turns[0].Preview == nil {
			t.Fatal(turns, err)
		}
		p = s.bot.Follow(t.Context(), turns[0])
		text := stream(p, 20, 100*time.Millisecond)
		s.finish(p, text)
		s.shows(text)
		if n := len(s.srv.Calls(bottest.Method("sendMessage"))); n != 1 {
			t.Errorf("%d messages:%s", n, s.describe())
		}
	})
}

// TestUnknownFirstPreview is the one case that leaves a message behind.
func TestUnknownFirstPreview(t *testing.T) {
	for name, rule := range map[string]bottest.Rule{
		"cut":  {Method: "sendMessage", CutAfter: true},
		"hang": {Method: "sendMessage", Hang: true},
		"page": {Method: "sendMessage", Status: 502, Body: "<html>Bad Gateway</html>", Accept: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, ann)
				s.srv.Fault(rule)
				turn := s.ask(ann, 0, 0)
				p := s.bot.Follow(t.Context(), turn)
				text := stream(p, 150, 100*time.Millisecond)
				if n := len(s.calls()); n != 1 {
					t.Errorf("%d calls:%s", n, s.describe())
				}
				turns, err := s.store.Open(t.Context())
				if err != nil || len(turns) != 1 || turns[0].Preview == nil || turns[0].Preview.Message != 0 {
					t.Fatal(turns, err)
				}
				s.finish(p, text)
				if last, _ := s.chat.Last(); last.Text != text || last.Edits > 0 {
					t.Errorf("the answer is %q with %d edits", last.Text, last.Edits)
				}
				if n := len(s.calls()); n != 2 {
					t.Errorf("%d calls:%s", n, s.describe())
				}

				// A resumed turn whose preview is unsettled begins a new one.
				again := s.ask(ann, 0, 0)
				if err := s.store.OpenPreview(t.Context(), again, false); err != nil {
					t.Fatal(err)
				}
				again.Preview = &agent.Preview{At: time.Now()}
				p = s.bot.Follow(t.Context(), again)
				text = stream(p, 20, 100*time.Millisecond)
				s.finish(p, text)
				if last, _ := s.chat.Last(); last.Text != text || last.Edits == 0 {
					t.Errorf("the answer is %q with %d edits", last.Text, last.Edits)
				}
			})
		})
	}
}

func TestPreviewInFlightWhenTheAnswerComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, ann)
		s.srv.Fault(bottest.Rule{Method: "sendMessage", DelayAfter: 2 * time.Second})
		p := s.bot.Follow(t.Context(), s.ask(ann, 0, 0))
		text := stream(p, 5, 100*time.Millisecond)
		s.finish(p, text)
		s.shows(text)
		if n := len(s.srv.Calls(bottest.Method("sendMessage"))); n != 1 {
			t.Errorf("%d messages:%s", n, s.describe())
		}
	})
}

// TestStoppedWhileThePreviewIsSent sees that a turn that was stopped meanwhile
// leaves no preview, and that none is sent afterwards.
func TestStoppedWhileThePreviewIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, ann)
		s.srv.Fault(bottest.Rule{Method: "sendMessage", DelayAfter: 2 * time.Second})
		turn := s.ask(ann, 0, 0)
		p := s.bot.Follow(t.Context(), turn)
		stream(p, 5, 100*time.Millisecond)
		if err := s.store.Finish(t.Context(), turn, agent.Ending{State: agent.TurnStopped}); err != nil {
			t.Fatal(err)
		}
		p.Close()
		pass(time.Minute)
		s.shows()

		p = s.bot.Follow(t.Context(), turn)
		stream(p, 5, 100*time.Millisecond)
		p.Close()
		s.shows()
		if n := len(s.calls()); n != 2 {
			t.Errorf("%d calls:%s", n, s.describe())
		}
	})
}

func TestRestartKeepsThePreviewUntilNewWordsCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, ann)
		p := s.bot.Follow(t.Context(), s.ask(ann, 0, 0))
		p.Watch(agent.Delta{Text: "I will look"})
		pass(3 * time.Second)
		p.Watch(agent.Delta{Restart: true})
		pass(3 * time.Second)
		s.shows("I will look")
		p.Watch(agent.Delta{Thought: "hm", Text: "It "})
		p.Watch(agent.Delta{Text: "is there"})
		pass(3 * time.Second)
		s.shows("It is there")
		s.finish(p, "It is there.")
		s.shows("It is there.")
	})
}

// TestNothingHiddenIsShown streams what C080, C082 and C083 are about, and the
// token, rune by rune.
func TestNothingHiddenIsShown(t *testing.T) {
	names, err := filepath.Glob("testdata/filter/*")
	if err != nil || len(names) < 17 {
		t.Fatal(len(names), err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, ann)
				p := s.bot.Follow(t.Context(), s.ask(ann, 0, 0))
				for _, r := range string(text) + "\n" + testToken + " " {
					p.Watch(agent.Delta{Text: string(r), Thought: "the user wants it"})
					pass(200 * time.Millisecond)
				}
				p.Close()
				for _, c := range s.calls() {
					for _, hidden := range []string{"user wants", "tool", "{", "<|", "path=", testSecret} {
						if strings.Contains(c.Text(), hidden) {
							t.Errorf("%s shows %q", c.Method, c.Text())
						}
					}
				}
			})
		})
	}
}

func TestPreviewStopsAtOneMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, ann)
		p := s.bot.Follow(t.Context(), s.ask(ann, 0, 0))
		text := stream(p, 1500, 10*time.Millisecond) // 13 kB in 15 s
		s.finish(p, text)
		var got []string
		for i, m := range s.chat.FromBot() {
			if got = append(got, m.Text); m.Silent != (i > 0) {
				t.Errorf("part %d: silent is %v", i, m.Silent)
			}
		}
		if strings.Join(got, " ") != text {
			t.Errorf("%d parts do not hold the answer", len(got))
		}
		if n := len(s.srv.Calls(bottest.Method("editMessageText"))); n > 10 {
			t.Errorf("%d edits: the preview did not stop at the end of the first message", n)
		}
	})
}

// BenchmarkWatch is what a token costs the model's stream while a preview waits
// for its time.
func BenchmarkWatch(b *testing.B) {
	p := &Progress{fresh: make(chan struct{}, 1)}
	b.ReportAllocs()
	for b.Loop() {
		p.Watch(agent.Delta{Text: "token "})
	}
}
