package bot

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"agentd/internal/agent"
	"agentd/internal/bot/bottest"
	"agentd/internal/bot/markdown"
)

// composer gives a bot that can compose, and nothing else.
func composer(t *testing.T) *Bot {
	b, err := New(Config{Token: testToken, URL: "http://telegram.test", Secrets: []string{"hunter2-hunter2"}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sent is a payload, decoded.
type sent struct {
	Method string
	Params struct {
		MessageID int64 `json:"message_id"`
		Text      string
		Entities  []struct {
			Type   string
			Offset int
			URL    string
		}
		Silent bool `json:"disable_notification"`
		Reply  *struct {
			MessageID int64 `json:"message_id"`
		} `json:"reply_parameters"`
		Keyboard json.RawMessage `json:"reply_markup"`
	}
	Plain string
}

func decode(t *testing.T, post agent.Post) (out []sent) {
	t.Helper()
	for _, p := range post.Parts {
		var s sent
		if err := json.Unmarshal(p.Body, &s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

func turnAt(chat int64) agent.Turn {
	turn := agent.Turn{Question: 7, Lang: "en", Asked: time.Now()}
	turn.Turn, turn.Address = 5, agent.Address{Channel: Channel, Chat: chat}
	return turn
}

func TestComposeChoosesNewMessageOrEdit(t *testing.T) {
	b := composer(t)
	long := strings.Repeat("word ", 1000)
	for _, tt := range []struct {
		name    string
		chat    int64
		preview *agent.Preview
		text    string
		want    string // "method[:message][ silent][ reply]" of the parts; "; " between posts
	}{
		{"no preview", 1, nil, "Hi.", "sendMessage"},
		{"no preview, group", -1, nil, "Hi.", "sendMessage reply"},
		{"no preview, group, long", -1, nil, long, "sendMessage reply, sendMessage silent"},
		{"preview", 1, &agent.Preview{Message: 9, At: time.Now().Add(-19 * time.Second)}, "Hi.", "editMessageText:9"},
		{"preview, group, long", -1, &agent.Preview{Message: 9, At: time.Now()}, long, "editMessageText:9, sendMessage silent"},
		{"old preview", 1, &agent.Preview{Message: 9, At: time.Now().Add(-21 * time.Second)}, "Hi.", "sendMessage; deleteMessage:9"},
		{"silent preview, group", -1, &agent.Preview{Message: 9, At: time.Now(), Silent: true}, long, "sendMessage reply, sendMessage silent; deleteMessage:9"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for i, post := range b.compose(turnAt(tt.chat), tt.preview, tt.text, nil) {
				if key := []string{"turn:5", "unpreview:5"}[i]; post.Key != key || post.Turn != 5 || post.Lang != "en" || post.Address.Chat != tt.chat {
					t.Errorf("post %+v, want key %s", post, key)
				}
				var parts []string
				for j, s := range decode(t, post) {
					word := s.Method
					if s.Params.MessageID == 9 {
						word += ":9"
					}
					if s.Params.Silent {
						word += " silent"
					}
					if s.Params.Reply != nil && s.Params.Reply.MessageID == 7 {
						word += " reply"
					}
					if post.Parts[j].Idempotent != (s.Method != "sendMessage") {
						t.Errorf("%s: idempotent is %v", s.Method, post.Parts[j].Idempotent)
					}
					parts = append(parts, word)
				}
				got = append(got, strings.Join(parts, ", "))
			}
			if s := strings.Join(got, "; "); s != tt.want {
				t.Errorf("got %s, want %s", s, tt.want)
			}
		})
	}
}

// TestComposeIsNeverBlank is C026.
func TestComposeIsNeverBlank(t *testing.T) {
	b := composer(t)
	variants, err := os.ReadFile("testdata/filter/md_blank_variants.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := b.md.Render(b.explain("en", &agent.Fault{Code: agent.FaultEmpty})).Text
	for _, text := range append(strings.Split(string(variants), "\n"), "", "\n \n", "<think>the user wants</think>", "<think>the user") {
		posts := b.compose(turnAt(1), nil, text, nil)
		if parts := decode(t, posts[0]); len(parts) != 1 || parts[0].Params.Text != want || want == "" {
			t.Errorf("%q: got %+v, want %q", text, parts, want)
		}
	}
}

func TestComposeFaults(t *testing.T) {
	b := composer(t)
	limit := &agent.Fault{Code: agent.FaultStepLimit, Args: map[string]string{"steps": "15"}}
	note := b.md.Render(b.explain("en", limit))

	t.Run("as the text", func(t *testing.T) {
		parts := decode(t, b.compose(turnAt(1), nil, "<think>x</think>", []*agent.Fault{limit})[0])
		if len(parts) != 1 || parts[0].Params.Text != note.Text {
			t.Errorf("got %+v", parts)
		}
	})
	t.Run("as a note", func(t *testing.T) {
		parts := decode(t, b.compose(turnAt(1), nil, "😀 **Found** `this`", []*agent.Fault{limit})[0])
		if len(parts) != 1 || parts[0].Params.Text != "😀 Found this\n\n"+note.Text {
			t.Fatalf("got %+v", parts)
		}
		if got, want := len(parts[0].Params.Entities), 2+len(note.Entities); got != want {
			t.Errorf("%d entities, want %d", got, want)
		}
	})
	t.Run("as a note without room", func(t *testing.T) {
		parts := decode(t, b.compose(turnAt(1), nil, strings.Repeat("a", messageUnits-10), []*agent.Fault{limit})[0])
		if len(parts) != 2 || parts[1].Params.Text != note.Text || !parts[1].Params.Silent {
			t.Errorf("%d parts", len(parts))
		}
	})
	t.Run("an open fence ends before the note", func(t *testing.T) {
		parts := decode(t, b.compose(turnAt(1), nil, "```go\nx := 1", []*agent.Fault{limit})[0])
		if len(parts) != 1 || !strings.HasSuffix(parts[0].Params.Text, note.Text) || parts[0].Params.Entities[0].Type != "pre" {
			t.Errorf("got %+v", parts)
		}
	})
}

// TestUnderShiftsEntities sees that a note's styles stand where its words do.
func TestUnderShiftsEntities(t *testing.T) {
	md := markdown.New()
	parts := under(md.Split("😀 text", messageUnits), md.Split("**note**", messageUnits)[0])
	if len(parts) != 1 || parts[0].Text.Text != "😀 text\n\nnote" || parts[0].Entities[0].Offset != len("xx text\n\n") {
		t.Errorf("got %+v", parts)
	}
}

// TestComposeShowsNoSecret also hides them in markup, which rendering removes.
func TestComposeShowsNoSecret(t *testing.T) {
	b := composer(t)
	for _, text := range []string{
		"It is " + testToken,
		"It is " + testSecret + ".",
		"It is hunter2-hunter2",
		"It is hunter2-**hunter2**",
		"It is hunter2\\-hunter2",
		"[it](https://example.org/?q=hunter2-hunter2)",
		"[it](https://example.org/?q=hunter2\\-hunter2)",
		"<think>no</think>[hunter2-hunter2](https://example.org)",
	} {
		for _, p := range b.compose(turnAt(1), nil, text, nil)[0].Parts {
			for _, secret := range []string{testToken, testSecret, "hunter2-hunter2"} {
				if strings.Contains(string(p.Body), secret) {
					t.Errorf("%q is sent as %s", text, p.Body)
				}
			}
			if !strings.Contains(string(p.Body), redacted) {
				t.Errorf("%q is sent as %s", text, p.Body)
			}
		}
	}
}

// BenchmarkCompose composes an answer of 16,000 characters.
func BenchmarkCompose(b *testing.B) {
	bot, err := New(Config{Token: bottest.DefaultToken}, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	text := strings.Repeat("Some **bold** words and `code` in a line of text.\n\n", 320)
	turn := turnAt(1)
	b.ReportAllocs()
	for b.Loop() {
		bot.compose(turn, nil, text, nil)
	}
}
