package bot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/agent"
	"agentd/internal/bot/bottest"
)

func TestModelChoice(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		r.ann.Send("/model")
		m := r.wantLast(ann, "Now it is qwen3:4b")
		if !r.has(m, "model:qwen3:4b") || !r.has(m, "model:llama3.2:3b") || r.has(m, "model:nomic-embed-text") {
			t.Errorf("buttons %v", m.Buttons)
		}
		if got := r.notice(r.bob, m, "model:llama3.2:3b"); got != "That button is not for you." {
			t.Errorf("bob's press: %q", got)
		}
		r.ann.Press(m, "model:llama3.2:3b")
		r.wantLast(ann, "From now on llama3.2:3b answers.")
		if got := r.notice(r.ann, m, "model:nomic-embed-text"); !strings.Contains(got, "no longer installed") {
			t.Errorf("an embedding model: %q", got)
		}
		if !slices.Equal(r.models.chosen, []string{"llama3.2:3b"}) {
			t.Errorf("chosen %v", r.models.chosen)
		}
		r.models.err = &agent.Fault{Code: agent.FaultUnreachable, Args: map[string]string{"address": "127.0.0.1:11434"}}
		r.ann.Send("/model")
		r.wantLast(ann, "cannot reach", "127.0.0.1:11434")
		r.ann.Send("/status")
		r.wantLast(ann, "cannot reach", "127.0.0.1:11434", "Telegram:")
	})
}

func TestPull(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		r.models.pull = func(ctx context.Context, progress func(done, total int64)) error {
			for i := range int64(60) {
				progress(i*50e6, 3e9)
				if !sleep(ctx, time.Second) {
					return ctx.Err()
				}
			}
			progress(3e9, 3e9)
			return nil
		}
		fault := &agent.Fault{Code: agent.FaultModelAbsent, Args: map[string]string{"model": "qwen3:8b", "nearest": "qwen3:4b", "pull": "ollama pull qwen3:8b"}}
		turn := agent.Turn{Scope: agent.Scope{Principal: agent.Principal{ID: ann, Rights: agent.Owner}}, Lang: "en"}
		r.post("turn:1", ann, textPayload(r.bot.md.Render(r.bot.explain("en", fault)), "", withKeyboard(r.bot.remedy(turn, fault))))
		m := r.wantLast(ann, "not installed")
		r.ann.Press(m, "pull:qwen3:8b")
		r.pass(20 * time.Second)
		if got := r.texts(ann); len(got) != 3 || !strings.Contains(got[2], "of 3.0 GB") {
			t.Fatalf("in the middle: %q", got)
		}
		r.ann.Send("/id") // nothing is held up
		r.wantLast(ann, "1001")
		if got := r.notice(r.ann, m, "pull:gemma3:1b"); !strings.Contains(got, "still fetching qwen3:8b") {
			t.Errorf("a second pull: %q", got)
		}
		r.pass(time.Minute)
		got := r.texts(ann)
		if !strings.Contains(got[len(got)-1], "qwen3:8b is here (3.0 GB)") || slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, " of 3.0 GB") }) {
			t.Errorf("at the end: %q", got)
		}
		edits := r.srv.Calls(bottest.Method("editMessageText"))
		if len(edits) < 10 || len(edits) > 25 {
			t.Errorf("%d edits in a minute", len(edits))
		}
		if !slices.Equal(r.models.chosen, []string{"qwen3:8b"}) {
			t.Errorf("chosen %v", r.models.chosen)
		}
		if after, _ := r.srv.Chat(ann).Message(m.ID); len(after.Buttons) != 0 {
			t.Error("the button stays")
		}
	})
}

func TestPullEnds(t *testing.T) {
	press := func(r *reception) {
		r.ann.Send("/start")
		r.ann.PressOld(r.last(ann), "pull:qwen3:8b")
	}
	withReception(t, nil, func(r *reception) { // fails
		r.models.pull = func(context.Context, func(int64, int64)) error {
			return errors.New("pull model manifest: file does not exist")
		}
		press(r)
		r.wantLast(ann, "could not be fetched", "file does not exist")
		press(r) // may be tried again
		r.wantLast(ann, "could not be fetched")
		if len(r.models.pulled) != 2 || len(r.models.chosen) != 0 {
			t.Errorf("pulled %v, chosen %v", r.models.pulled, r.models.chosen)
		}
	})
	withReception(t, nil, func(r *reception) { // stalls
		r.models.pull = func(ctx context.Context, progress func(int64, int64)) error {
			progress(1, 3e9)
			<-ctx.Done()
			return ctx.Err()
		}
		press(r)
		r.pass(6 * time.Minute)
		r.wantLast(ann, "no progress for 5m")
	})
	withReception(t, nil, func(r *reception) { // the process ends in the middle
		r.models.pull = func(ctx context.Context, _ func(int64, int64)) error { <-ctx.Done(); return ctx.Err() }
		press(r)
		r.pass(time.Second)
		r.stop()
		r.models.pull = func(context.Context, func(int64, int64)) error { return nil }
		r.begin()
		r.wantLast(ann, "qwen3:8b is here")
		if len(r.models.pulled) != 2 {
			t.Errorf("pulled %v", r.models.pulled)
		}
		r.stop()
		r.begin() // and that was it
		r.pass(time.Minute)
		if len(r.models.pulled) != 2 {
			t.Errorf("pulled again: %v", r.models.pulled)
		}
	})
}

func TestRemedies(t *testing.T) {
	b := receptionist(t, Config{})
	owner, person := agent.Turn{}, agent.Turn{}
	owner.Principal.Rights, person.Principal.Rights = agent.Owner, agent.Person
	for _, c := range []struct {
		fault agent.Fault
		want  string
	}{
		{agent.Fault{Code: agent.FaultModelAbsent, Args: map[string]string{"model": "m", "nearest": "n"}}, "pull:m models"},
		{agent.Fault{Code: agent.FaultModelAbsent, Args: map[string]string{"model": "m"}}, "pull:m"},
		{agent.Fault{Code: agent.FaultModelAbsent, Args: map[string]string{"model": strings.Repeat("m", 59)}}, "pull:" + strings.Repeat("m", 59)},
		{agent.Fault{Code: agent.FaultModelAbsent, Args: map[string]string{"model": strings.Repeat("m", 60)}}, ""}, // over 64 bytes
		{agent.Fault{Code: agent.FaultNoModel, Args: map[string]string{"installed": "a, b"}}, "models"},
		{agent.Fault{Code: agent.FaultNoModel}, ""},
		{agent.Fault{Code: agent.FaultNoChat}, "models"},
		{agent.Fault{Code: agent.FaultMemory}, "models"},
		{agent.Fault{Code: agent.FaultCut}, ""},
	} {
		var got []string
		if k := b.remedy(owner, &c.fault); k != nil {
			for _, row := range k.InlineKeyboard {
				for _, button := range row {
					got = append(got, button.CallbackData)
				}
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v: %q, want %q", c.fault.Code, got, c.want)
		}
		if b.remedy(person, &c.fault) != nil {
			t.Errorf("%v: a person other than the owner gets buttons", c.fault.Code)
		}
	}
}

// The first look at many models may take longer than a person waits.
func TestModelsTakeLong(t *testing.T) {
	withReception(t, nil, func(r *reception) {
		r.ann.Send("/model")
		m := r.last(ann)
		r.models.err = fmt.Errorf("show: %w", context.DeadlineExceeded)
		r.ann.Send("/model")
		r.wantLast(ann, "does not answer in time")
		r.ann.Press(m, "model:llama3.2:3b")
		r.wantLast(ann, "does not answer in time")
		if len(r.models.chosen) > 0 || strings.Contains(r.log.String(), "command failed") {
			t.Error(r.models.chosen, r.log.String())
		}
	})
}
