package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"agentd/internal/agent"
	"agentd/internal/agent/agenttest"
	"agentd/internal/sqlite"
)

// windowed is a scripted model with a context of so many tokens.
type windowed struct {
	*agenttest.Model
	tokens int
}

func (w windowed) Window(context.Context, string) (int, error) { return w.tokens, nil }

// silent is a channel that shows nothing and is a Progress too.
type silent struct{}

func (s silent) Follow(context.Context, agent.Turn) Progress              { return s }
func (s silent) Remove(agent.Turn) []agent.Post                           { return nil }
func (s silent) Tell(context.Context, agent.Turn, *agent.Fault)           {}
func (s silent) Rights(context.Context, agent.Turn) (agent.Rights, error) { return agent.Owner, nil }
func (s silent) Seen(context.Context, agent.Address, int64)               {}
func (s silent) Watch(agent.Delta)                                        {}
func (s silent) Close()                                                   {}
func (s silent) Answer(_ context.Context, text string, faults ...*agent.Fault) []agent.Post {
	for _, f := range faults {
		text += "!" + string(f.Code)
	}
	return []agent.Post{{Key: text}}
}

var home = agent.Address{Channel: "test", Chat: 5}

func newStore(t *testing.T) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "agentd.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// talk is a supervisor whose turns the test runs one by one.
type talk struct {
	*Supervisor
	store  *sqlite.Store
	model  *agenttest.Model
	update int64
}

func newTalk(t *testing.T, tokens int, tools []agent.Tool, steps ...agenttest.Step) *talk {
	t.Helper()
	store, model := newStore(t), agenttest.NewModel(steps...)
	return &talk{Supervisor: New(store, windowed{model, tokens}, silent{}, tools, Config{}), store: store, model: model}
}

// say puts a message in and runs its turn; it gives the turn's answer.
func (k *talk) say(t *testing.T, text string) (string, error) {
	t.Helper()
	k.update++
	in := agent.Incoming{Update: k.update, Kind: agent.KindMessage, Address: home, Sender: agent.Principal{ID: 9, Rights: agent.Owner}, Private: true,
		Message: k.update, At: time.Now(), Due: time.Now(), Parts: []agent.Part{{Text: text}}, Raw: json.RawMessage(`{}`)}
	if _, err := k.store.Accept(t.Context(), []agent.Incoming{in}); err != nil {
		t.Fatal(err)
	}
	turn, ok, err := k.store.Claim(t.Context(), time.Now(), k.compose)
	if err != nil || !ok {
		t.Fatal("nothing was claimed", err)
	}
	w := newWork(t.Context(), turn)
	reply, err := k.answer(w, silent{})
	end := agent.Ending{State: agent.TurnFailed}
	if text := reply.Message.Text(); text != "" {
		end = agent.Ending{State: agent.TurnDone, Message: &reply.Message}
	}
	if err := k.store.Finish(t.Context(), turn, end); err != nil {
		t.Fatal(err)
	}
	return reply.Message.Text(), err
}

// bytesOf is what a request's messages weigh, as the servers count about.
func bytesOf(r agent.Request) (n int) {
	for _, m := range r.Messages {
		n += size(m)
	}
	return n
}

// C024: the prompt always fits, begins with the system text and ends with the newest message.
func TestEveryPromptFits(t *testing.T) {
	const tokens, turns = 2048, 60
	var steps []agenttest.Step
	for i := range turns {
		steps = append(steps, agenttest.Step{Text: fmt.Sprintf("answer %d %s", i, strings.Repeat("word ", 40))})
	}
	k := newTalk(t, tokens, nil, steps...)
	for i := range turns {
		if _, err := k.say(t, fmt.Sprintf("question %d %s", i, strings.Repeat("text ", 30))); err != nil {
			t.Fatal(err)
		}
	}
	asked := k.model.Asked()
	changed := 0
	for i, r := range asked {
		if r.Messages[0].Role != agent.System {
			t.Fatalf("request %d begins with %q", i, r.Messages[0].Role)
		}
		if last := r.Messages[len(r.Messages)-1].Parts; !strings.HasPrefix(last[len(last)-1].Text, fmt.Sprintf("question %d ", i)) {
			t.Fatalf("request %d does not end with its question", i)
		}
		if room := tokens - tokens/answerShare; float64(bytesOf(r))/bytesPerToken > float64(room) {
			t.Errorf("request %d has %d bytes", i, bytesOf(r))
		}
		if i > 0 && !beginsWith(r.Messages, asked[i-1].Messages) {
			changed++
		}
	}
	// A cut goes down to three quarters, so that many calls pass until the next one.
	if changed > turns/5 {
		t.Errorf("%d of %d prompts began anew: the server's cache is worth nothing", changed, turns)
	}
	if changed == 0 {
		t.Error("nothing was ever cut: the test is too small")
	}
}

func beginsWith(m, prefix []agent.Message) bool {
	if len(m) < len(prefix) {
		return false
	}
	a, _ := json.Marshal(m[:len(prefix)])
	b, _ := json.Marshal(prefix)
	return string(a) == string(b)
}

// C035, C024: huge tool results, in old turns and in the running one.
func TestToolResultsAreShortenedAndStayPaired(t *testing.T) {
	big := &agenttest.Tool{Name: "read", Effect: agent.ReadOnly, Func: func(_ context.Context, c agent.Call) (agent.Result, error) {
		return agent.Result{Text: string(c.Args) + strings.Repeat("ж", 2000)}, nil
	}}
	var steps []agenttest.Step
	for i := range 8 {
		steps = append(steps,
			agenttest.Step{Calls: []agent.Call{agenttest.Call("read", fmt.Sprintf(`{"n":%d}`, i)), agenttest.Call("read", fmt.Sprintf(`{"m":%d}`, i))}},
			agenttest.Step{Calls: []agent.Call{agenttest.Call("read", fmt.Sprintf(`{"k":%d}`, i))}},
			agenttest.Step{Text: fmt.Sprint("done ", i)})
	}
	k := newTalk(t, 4096, []agent.Tool{big}, steps...)
	for i := range 8 {
		if _, err := k.say(t, fmt.Sprint("look ", i)); err != nil {
			t.Fatal(i, err)
		}
	}
	for i, r := range k.model.Asked() {
		if float64(bytesOf(r))/bytesPerToken > 4096-4096/answerShare {
			t.Errorf("request %d has %d bytes", i, bytesOf(r))
		}
		var open []string
		for _, m := range r.Messages {
			for _, p := range m.Parts {
				switch {
				case p.Call != nil:
					open = append(open, p.Call.ID)
				case p.Result != nil:
					if len(open) == 0 || open[0] != p.Result.CallID {
						t.Fatalf("request %d: result %s, open are %v", i, p.Result.CallID, open)
					}
					open = open[1:]
					if !strings.HasPrefix(p.Result.Text, "{") || !json.Valid([]byte(`"`+strings.ReplaceAll(strings.ReplaceAll(p.Result.Text, `"`, ""), "\n", "")+`"`)) {
						t.Errorf("request %d: a result was cut within a letter", i)
					}
				}
			}
		}
		if len(open) > 0 {
			t.Fatalf("request %d: calls %v without results", i, open)
		}
	}
}

func TestTheNewestMessageAloneDoesNotFit(t *testing.T) {
	k := newTalk(t, 2048, nil, agenttest.Step{Text: "fine"}, agenttest.Step{Text: "never asked"})
	if _, err := k.say(t, "hello"); err != nil {
		t.Fatal(err)
	}
	_, err := k.say(t, strings.Repeat("a long paste ", 2000))
	var f *agent.Fault
	if !errors.As(err, &f) || f.Code != agent.FaultTooLong || f.Args["limit"] != "1536" || f.Args["tokens"] == "" {
		t.Fatalf("error %v", err)
	}
	if n := len(k.model.Asked()); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
}

// The server says that the prompt is too long although we thought it fits.
func TestTheServerFindsThePromptTooLong(t *testing.T) {
	steps := []agenttest.Step{}
	for range 12 {
		steps = append(steps, agenttest.Step{Text: strings.Repeat("word ", 60)})
	}
	steps = append(steps, agenttest.Step{Err: fmt.Errorf("400: %w", agent.ErrTooLong)}, agenttest.Step{Text: "now"})
	k := newTalk(t, 2048, nil, steps...)
	for range 12 {
		if _, err := k.say(t, "tell"); err != nil {
			t.Fatal(err)
		}
	}
	text, err := k.say(t, "and?")
	if err != nil || text != "now" {
		t.Fatalf("got %q, %v", text, err)
	}
	asked := k.model.Asked()
	if a, b := bytesOf(asked[12]), bytesOf(asked[13]); b >= a {
		t.Errorf("refused at %d bytes, asked again with %d", a, b)
	}
}

// A cut is stored: a new process begins its prompts with the same bytes.
func TestACutOutlivesTheProcess(t *testing.T) {
	var steps []agenttest.Step
	for range 40 {
		steps = append(steps, agenttest.Step{Text: strings.Repeat("word ", 60)})
	}
	k := newTalk(t, 2048, nil, steps...)
	for range 30 {
		if _, err := k.say(t, "tell me more"); err != nil {
			t.Fatal(err)
		}
	}
	before := k.model.Asked()[29].Messages
	k.Supervisor = New(k.store, windowed{k.model, 2048}, silent{}, nil, Config{})
	if _, err := k.say(t, "and on"); err != nil {
		t.Fatal(err)
	}
	if after := k.model.Asked()[30].Messages; !beginsWith(after, before) {
		t.Error("the prompt began anew after a restart")
	}
}

// strict is a model whose server counts a token for every byte.
type strict struct{ *agenttest.Model }

func (strict) Window(context.Context, string) (int, error) { return 8192, nil }

func (s strict) Generate(ctx context.Context, r agent.Request, watch func(agent.Delta)) (agent.Reply, error) {
	if bytesOf(r) > 8192 {
		return agent.Reply{}, &agent.Fault{Code: agent.FaultTooLong, Err: agent.ErrTooLong}
	}
	return s.Model.Generate(ctx, r, watch)
}

// Digits are a token each to some models: our estimate is three times too low, and
// no answer corrects it. What was refused must not be sent again for ever.
func TestDigitsDoNotBlockTheConversation(t *testing.T) {
	var steps []agenttest.Step
	for range 20 {
		steps = append(steps, agenttest.Step{Text: "noted"})
	}
	k := newTalk(t, 0, nil)
	k.Supervisor = New(k.store, strict{agenttest.NewModel(steps...)}, silent{}, nil, Config{})
	for i := range 12 {
		if text, err := k.say(t, strings.Repeat("31415926535 ", 100)); text != "noted" {
			t.Fatalf("table %d: %q, %v", i, text, err)
		}
	}
	// Too long by itself; what follows is answered all the same.
	if text, err := k.say(t, strings.Repeat("31415926535 ", 700)); text != "" || !errors.Is(err, agent.ErrTooLong) {
		t.Fatalf("a table beyond the context: %q, %v", text, err)
	}
	if text, err := k.say(t, "hi"); text != "noted" {
		t.Errorf("after it: %q, %v", text, err)
	}
}

// A question that does not fit is left out of the history: what was said before it
// would have to leave the window with it.
func TestATooLongQuestionForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, model := newStore(t), agenttest.NewModel(agenttest.Step{Text: "hello"}, agenttest.Step{Text: "forty-two"})
		s := New(db, windowed{model, 2048}, silent{}, nil, Config{})
		runs(t, s, func() {
			for i, text := range []string{"my number is 42", strings.Repeat("a long paste ", 2000), "what is it?"} {
				if _, err := db.Accept(t.Context(), []agent.Incoming{message(int64(i+1), time.Now(), text)}); err != nil {
					t.Fatal(err)
				}
				pass(time.Second)
			}
		})
		asked := model.Asked()
		if len(asked) != 2 || !beginsWith(asked[1].Messages, asked[0].Messages) {
			t.Errorf("asked %d times; the last prompt does not begin with the first", len(asked))
		}
	})
}

// A step that is too long is no reason to give the question up: a file that the
// model has written, for one.
func TestStepsOfTheRunningTurnAreShortened(t *testing.T) {
	write := &agenttest.Tool{Name: "write", Func: func(context.Context, agent.Call) (agent.Result, error) { return agent.Result{Text: "written"}, nil }}
	text := strings.Repeat("ж", 2000)
	k := newTalk(t, 2048, []agent.Tool{write},
		agenttest.Step{Text: "Here it comes. " + text, Calls: []agent.Call{agenttest.Call("write", `{"text":"`+text+`"}`)}},
		agenttest.Step{Text: "It is written."})
	if got, err := k.say(t, "write it"); got != "It is written." {
		t.Fatalf("got %q, %v", got, err)
	}
	if args := string(write.Runs()[0].Args); !strings.Contains(args, text) {
		t.Error("the tool got the shortened arguments")
	}
	step := k.model.Asked()[1].Messages[2]
	var args map[string]string
	if err := json.Unmarshal(step.Calls()[0].Args, &args); err != nil || !strings.HasPrefix(args["shortened"], `{"text":"ж`) {
		t.Errorf("arguments %s, %v", step.Calls()[0].Args, err)
	}
	if said := step.Text(); !strings.HasPrefix(said, "Here it comes. ж") || len(said) > shortStep || !utf8.ValidString(said) {
		t.Errorf("%d bytes beside the call", len(said))
	}
}

func TestCompose(t *testing.T) {
	s := New(nil, nil, nil, nil, Config{})
	at := time.Date(2026, 12, 1, 9, 30, 0, 0, time.UTC)
	row := func(texts ...string) agent.Incoming {
		in := agent.Incoming{At: at, Private: true}
		for _, text := range texts {
			in.Parts = append(in.Parts, agent.Part{Text: text})
		}
		return in
	}
	full, nearly := strings.Repeat("x", pieceFull), strings.Repeat("y", pieceLong)
	for name, tc := range map[string]struct {
		rows []agent.Incoming
		want []string
	}{
		"one":                       {[]agent.Incoming{row("hi")}, []string{"hi"}},
		"two questions":             {[]agent.Incoming{row("a"), row("b")}, []string{"a", "b"}},
		"a paste cut where it was":  {[]agent.Incoming{row(full), row("tail")}, []string{full + "tail"}},
		"a paste cut at a line end": {[]agent.Incoming{row(nearly), row("tail")}, []string{nearly + "\ntail"}},
		"a quote behind a paste":    {[]agent.Incoming{row(full), row("[In reply to: x]", "why?")}, []string{full, "[In reply to: x]", "why?"}},
		"a forward behind a paste":  {[]agent.Incoming{row(full), {At: at, Private: true, Parts: []agent.Part{{Text: "theirs", Taint: []agent.Source{"forward"}}}}}, []string{full, "theirs"}},
		"three pieces":              {[]agent.Incoming{row(full), row(full), row("z")}, []string{full + full + "z"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := s.compose(tc.rows)
			if got := m.Parts[0].Text; got != "[Tue 2026-12-01 09:30 UTC]" {
				t.Errorf("stamp %q", got)
			}
			var got []string
			for _, p := range m.Parts[1:] {
				got = append(got, p.Text)
			}
			if fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("got %d parts, want %d", len(got), len(tc.want))
			}
		})
	}
}
