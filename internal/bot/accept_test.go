package bot

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/internal/agent"
	"agentd/internal/sqlite"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	mira  = 100200300 // the corpus' allowed person
	super = -1001557000111
)

// receptionist is a bot that knows who it is and has a store, and no network.
func receptionist(t *testing.T, cfg Config) *Bot {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "agentd.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	cfg.Token = "7000000001:TEST"
	b, err := New(cfg, store.Channel(Channel), nil)
	if err != nil {
		t.Fatal(err)
	}
	b.me.id, b.me.username = 7000000001, "agent_test_bot"
	close(b.me.known)
	return b
}

// mustKnow has the bot read who was decided about.
func mustKnow(t *testing.T, b *Bot) {
	t.Helper()
	if err := b.people.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// batch reads a whole getUpdates answer.
func batch(t *testing.T, file string) []json.RawMessage {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Result []json.RawMessage }
	if err := json.Unmarshal(data, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Result
}

// TestCorpus pins what every update of the corpus becomes. The files beside the
// updates were read by eye.
func TestUpdateCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/updates/upd_*.json")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	now := time.UnixMilli(1767322900000).UTC()
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			b := receptionist(t, Config{Allowed: []int64{mira}})
			var got []agent.Incoming
			for _, raw := range batch(t, file) {
				in := b.accept(raw, now)
				if string(in.Raw) != string(raw) {
					t.Error("the raw update changed")
				}
				in.Raw = nil
				got = append(got, in)
			}
			text, err := json.MarshalIndent(got, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, '\n')
			golden := strings.TrimSuffix(file, ".json") + ".golden"
			if *update {
				if err := os.WriteFile(golden, text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if string(text) != string(want) {
				t.Errorf("got %s\nwant %s", text, want)
			}
		})
	}
}

func TestMentions(t *testing.T) { // C097
	b := receptionist(t, Config{Allowed: []int64{mira}})
	var got []string
	for _, raw := range batch(t, "testdata/updates/upd_group_mentions.json") {
		in := b.accept(raw, time.Now())
		if in.Kind == agent.KindIgnored {
			got = append(got, "no")
		} else {
			got = append(got, "yes")
		}
	}
	if want := "yes yes no no yes no no"; strings.Join(got, " ") != want {
		t.Errorf("answered %v, want %s", got, want)
	}
	for name, c := range map[string]struct {
		message string
		kind    agent.Kind
	}{
		"mention behind an emoji":  {`"text":"😀 @agent_test_bot hi","entities":[{"type":"mention","offset":3,"length":15}]`, agent.KindMessage},
		"text mention":             {`"text":"Agent hi","entities":[{"type":"text_mention","offset":0,"length":5,"user":{"id":7000000001,"is_bot":true,"first_name":"A"}}]`, agent.KindMessage},
		"text mention of another":  {`"text":"Agent hi","entities":[{"type":"text_mention","offset":0,"length":5,"user":{"id":7,"is_bot":false,"first_name":"A"}}]`, agent.KindIgnored},
		"caption":                  {`"photo":[{"file_id":"x","file_unique_id":"y","width":1,"height":1}],"caption":"@agent_test_bot look","caption_entities":[{"type":"mention","offset":0,"length":15}]`, agent.KindMessage},
		"photo alone":              {`"photo":[{"file_id":"x","file_unique_id":"y","width":1,"height":1}]`, agent.KindIgnored},
		"reply to another":         {`"text":"hi","reply_to_message":{"message_id":1,"date":1,"chat":{"id":-4001,"type":"group"},"from":{"id":9,"is_bot":false,"first_name":"B"},"text":"x"}`, agent.KindIgnored},
		"reply to us":              {`"text":"hi","reply_to_message":{"message_id":1,"date":1,"chat":{"id":-4001,"type":"group"},"from":{"id":7000000001,"is_bot":true,"first_name":"B"},"text":"x"}`, agent.KindMessage},
		"in a topic of ours":       {`"text":"hi","reply_to_message":{"message_id":1,"date":1,"chat":{"id":-4001,"type":"group"},"from":{"id":7000000001,"is_bot":true,"first_name":"B"},"forum_topic_created":{"name":"x","icon_color":1}}`, agent.KindIgnored},
		"command to nobody":        {`"text":"/status","entities":[{"type":"bot_command","offset":0,"length":7}]`, agent.KindControl},
		"own command inside":       {`"text":"try /status@Agent_Test_Bot","entities":[{"type":"bot_command","offset":4,"length":22}]`, agent.KindMessage},
		"foreign command in reply": {`"text":"/status@other_bot","reply_to_message":{"message_id":1,"date":1,"chat":{"id":-4001,"type":"group"},"from":{"id":7000000001,"is_bot":true,"first_name":"B"},"text":"x"}`, agent.KindIgnored},
		"mention and stop":         {`"text":"@agent_test_bot stop","entities":[{"type":"mention","offset":0,"length":15}]`, agent.KindControl},
		"stop to nobody":           {`"text":"stop"`, agent.KindIgnored},
		"entity beyond the text":   {`"text":"hi","entities":[{"type":"mention","offset":1,"length":900}]`, agent.KindIgnored},
	} {
		raw := fmt.Sprintf(`{"update_id":5,"message":{"message_id":3,"date":1,"from":{"id":%d,"is_bot":false,"first_name":"Mira"},"chat":{"id":-4001,"type":"group","title":"G"},%s}}`, mira, c.message)
		if in := b.accept(json.RawMessage(raw), time.Now()); in.Kind != c.kind {
			t.Errorf("%s: %s (%s), want %s", name, in.Kind, in.Note, c.kind)
		}
	}
}

func private(text string) json.RawMessage { return privateFrom(mira, text) }

func privateFrom(id int64, text string) json.RawMessage {
	quoted, _ := json.Marshal(text)
	return json.RawMessage(fmt.Sprintf(`{"update_id":5,"message":{"message_id":3,"date":1,"from":{"id":%d,"is_bot":false,"first_name":"Mira"},"chat":{"id":%d,"type":"private"},"text":%s}}`, id, id, quoted))
}

func TestControls(t *testing.T) {
	b := receptionist(t, Config{Allowed: []int64{mira}})
	for text, want := range map[string]agent.Kind{
		"/new": agent.KindControl, "/new now": agent.KindControl, "/new\nnow": agent.KindControl, "/New@AGENT_test_bot": agent.KindControl,
		"/nonsense": agent.KindControl, "/new@other_bot": agent.KindIgnored,
		"/etc/passwd is what?": agent.KindMessage, "/": agent.KindMessage, "/ new": agent.KindMessage, "a /new": agent.KindMessage, "//": agent.KindMessage,
		"stop": agent.KindControl, "Stop!": agent.KindControl, "STOPP.": agent.KindControl, "стоп": agent.KindControl, "Стоп!!": agent.KindControl,
		"halt": agent.KindControl, "arrête": agent.KindControl, "ARRÊTE": agent.KindControl, "para": agent.KindControl, "停": agent.KindControl, "停。": agent.KindControl,
		"cancel…": agent.KindControl, "stop it": agent.KindMessage, "stopwatch": agent.KindMessage, "don't stop": agent.KindMessage,
		"ABCD-EFGH-JKMN-PQRS": agent.KindMessage, // there is an owner
	} {
		in := b.accept(private(text), time.Now())
		if in.Kind != want {
			t.Errorf("%q is %s (%s), want %s", text, in.Kind, in.Note, want)
		}
		if in.Kind != agent.KindMessage && len(in.Parts) != 0 {
			t.Errorf("%q: %v has parts", text, in.Kind)
		}
	}
	forwarded := strings.Replace(string(private("/stop")), `"date":1`, `"date":1,"forward_origin":{"type":"hidden_user","date":1,"sender_user_name":"X"}`, 1)
	if in := b.accept(json.RawMessage(forwarded), time.Now()); in.Kind != agent.KindMessage {
		t.Errorf("a forwarded command is %s", in.Kind)
	}
	inline := strings.Replace(string(private("/stop")), `"date":1`, `"date":1,"via_bot":{"id":9,"is_bot":true,"first_name":"B","username":"other_bot"}`, 1)
	if in := b.accept(json.RawMessage(inline), time.Now()); in.Kind != agent.KindMessage || len(in.Parts[0].Taint) != 1 {
		t.Errorf("an inline bot's command is %s", in.Kind)
	}
	edited := strings.Replace(string(private("stop")), `"message":`, `"edited_message":`, 1)
	if in := b.accept(json.RawMessage(edited), time.Now()); in.Kind != agent.KindEdit {
		t.Errorf("an edit to stop is %s", in.Kind)
	}
}

func TestHold(t *testing.T) { // C099
	b := receptionist(t, Config{Allowed: []int64{mira}})
	now := time.Now()
	for name, c := range map[string]struct {
		raw  json.RawMessage
		held bool
	}{
		"short":             {private("hi"), false},
		"3,999 units":       {private(strings.Repeat("я", 3999)), false},
		"4,000 units":       {private(strings.Repeat("я", 4000)), true},
		"2,000 astral":      {private(strings.Repeat("😀", 2000)), true},
		"1,999 astral":      {private(strings.Repeat("😀", 1999)), false},
		"picture of album":  {json.RawMessage(strings.Replace(string(private("x")), `"text":"x"`, `"media_group_id":"1","photo":[{"file_id":"x","file_unique_id":"y","width":1,"height":1}]`, 1)), true},
		"picture by itself": {json.RawMessage(strings.Replace(string(private("x")), `"text":"x"`, `"photo":[{"file_id":"x","file_unique_id":"y","width":1,"height":1}]`, 1)), false},
	} {
		want := now
		if c.held {
			want = now.Add(700 * time.Millisecond)
		}
		if in := b.accept(c.raw, now); !in.Due.Equal(want) || in.Kind != agent.KindMessage {
			t.Errorf("%s: %s, due after %v", name, in.Kind, in.Due.Sub(now))
		}
	}
}

func TestMarksOfMeaning(t *testing.T) {
	b := receptionist(t, Config{Allowed: []int64{mira}})
	for name, c := range map[string]struct{ text, entities, want string }{
		"plain styles":     {"bold word", `[{"type":"bold","offset":0,"length":4}]`, "bold word"},
		"hidden link":      {"see 😀 here", `[{"type":"text_link","offset":7,"length":4,"url":"https://example.org/a"}]`, "see 😀 [here](https://example.org/a)"},
		"link with spaces": {"x", `[{"type":"text_link","offset":0,"length":1,"url":"https://e.org/a (b)"}]`, "[x](<https://e.org/a (b)>)"},
		"code":             {"run ls now", `[{"type":"code","offset":4,"length":2}]`, "run `ls` now"},
		"code with ticks":  {"a `b` c", `[{"type":"code","offset":2,"length":3}]`, "a `` `b` `` c"},
		"listing":          {"x := 1", `[{"type":"pre","offset":0,"length":6,"language":"go"}]`, "\n```go\nx := 1\n```\n"},
		"code in a link":   {"go doc", `[{"type":"text_link","offset":0,"length":6,"url":"https://go.dev"},{"type":"code","offset":0,"length":2}]`, "[go doc](https://go.dev)"},
		"beyond the end":   {"ab", `[{"type":"code","offset":1,"length":9}]`, "ab"},
		"negative":         {"ab", `[{"type":"code","offset":-1,"length":2}]`, "ab"},
	} {
		raw := strings.Replace(string(private("@")), `"text":"@"`, fmt.Sprintf(`"text":%q,"entities":%s`, c.text, c.entities), 1)
		in := b.accept(json.RawMessage(raw), time.Now())
		if len(in.Parts) != 1 || in.Parts[0].Text != c.want {
			t.Errorf("%s: %+v, want %q", name, in.Parts, c.want)
		}
	}
}

func TestTaint(t *testing.T) {
	b := receptionist(t, Config{Allowed: []int64{mira}})
	other := `"reply_to_message":{"message_id":1,"date":1,"chat":{"id":1,"type":"private"},"from":{"id":9,"is_bot":false,"first_name":"Eve"},"text":"do evil"},"text":"hm"`
	for name, c := range map[string]struct {
		fields string
		want   []string // the sources of each part
	}{
		"own words":           {`"text":"hi"`, []string{""}},
		"quote of another":    {other, []string{"quote of Eve", ""}},
		"quote of us":         {strings.Replace(strings.Replace(other, `"id":9`, `"id":7000000001`, 1), "Eve", "Me", 1), []string{"", ""}},
		"quote of themselves": {strings.Replace(other, `"id":9`, fmt.Sprintf(`"id":%d`, mira), 1), []string{"", ""}},
		"quote of a forward by themselves": {strings.Replace(strings.Replace(other, `"id":9`, fmt.Sprintf(`"id":%d`, mira), 1), `"text":"do evil"`,
			`"forward_origin":{"type":"hidden_user","date":1,"sender_user_name":"Mallory"},"text":"do evil"`, 1), []string{"quote of Mallory", ""}},
		"forward":      {`"forward_origin":{"type":"user","date":1,"sender_user":{"id":9,"is_bot":false,"first_name":"Eve"}},"text":"do evil"`, []string{"forward from Eve", "forward from Eve"}},
		"file":         {`"document":{"file_id":"x","file_unique_id":"y","file_name":"do evil.txt"},"caption":"read"`, []string{"the file “do evil.txt”", ""}},
		"inline bot":   {`"via_bot":{"id":8,"is_bot":true,"first_name":"G","username":"gif"},"text":"x"`, []string{"inline bot @gif"}},
		"voice":        {`"voice":{"file_id":"x","file_unique_id":"y","duration":3}`, []string{""}},
		"poll":         {`"poll":{"id":"1","question":"q","options":[{"text":"a","voter_count":0}],"total_voter_count":0,"is_closed":false,"is_anonymous":true,"type":"regular","allows_multiple_answers":false}`, []string{"a poll"}},
		"another chat": {`"external_reply":{"origin":{"type":"channel","date":1,"message_id":2,"chat":{"id":-100,"type":"channel","title":"News"}}},"quote":{"text":"do evil","position":0},"text":"so?"`, []string{"quote of News", ""}},
	} {
		raw := strings.Replace(string(private("@")), `"text":"@"`, c.fields, 1)
		in := b.accept(json.RawMessage(raw), time.Now())
		var got []string
		for _, p := range in.Parts {
			if strings.TrimSpace(p.Text) == "" {
				t.Errorf("%s: an empty part", name)
			}
			var sources []string
			for _, s := range p.Taint {
				sources = append(sources, string(s))
			}
			got = append(got, strings.Join(sources, "+"))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q (%s %s), want %q", name, got, in.Kind, in.Note, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		" Ann\n Lee ": "Ann Lee", "a\u202Eevil": "aevil", "zero\u200Bwidth": "zerowidth", "nul\x00": "nul", "\u2066": "", "\u3164\u2800": "", "😀 Юрий": "😀 Юрий",
		strings.Repeat("я", 80): strings.Repeat("я", 63) + "…",
	} {
		if got := cleanName(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
}

// Whatever Telegram sends, accept gives a row that can be stored.
func FuzzAccept(f *testing.F) {
	files, _ := filepath.Glob("testdata/updates/upd_*.json")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var answer struct{ Result []json.RawMessage }
		if err := json.Unmarshal(data, &answer); err != nil {
			f.Fatal(err)
		}
		for _, raw := range answer.Result {
			f.Add([]byte(raw))
		}
	}
	for _, odd := range []string{`{"update_id":1,"message_reaction":{"new_reaction":[{"type":"new"}]}}`, `{"update_id":1,"callback_query":{"id":"1","message":null}}`,
		`{"update_id":1,"message":{}}`, `null`, `{"update_id":1,"message":{"chat":{"id":1,"type":"private"},"text":"x","reply_to_message":{}}}`,
		`{"update_id":1,"my_chat_member":{"new_chat_member":{"status":"kicked"}}}`, `{"update_id":9007199254740993,"edited_message":null}`} {
		f.Add([]byte(odd))
	}
	cfg := Config{Token: "7000000001:TEST", Allowed: []int64{mira, super}}
	b, err := New(cfg, nobody{}, nil)
	if err != nil {
		f.Fatal(err)
	}
	b.me.id, b.me.username = 7000000001, "agent_test_bot"
	close(b.me.known)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return // the poller has split a JSON array
		}
		in := b.accept(raw, time.UnixMilli(1))
		if strings.Contains(in.Note, "broke its reader") {
			t.Fatalf("panic on %s", raw)
		}
		switch in.Kind {
		case agent.KindMessage, agent.KindEdit:
			if len(in.Parts) == 0 || in.Sender.Rights == agent.Stranger || in.Address.Chat == 0 {
				t.Fatalf("%s: %+v", raw, in)
			}
		case agent.KindControl:
		case agent.KindIgnored:
			if in.Note == "" {
				t.Fatalf("ignored without a reason: %s", raw)
			}
		default:
			t.Fatalf("kind %q", in.Kind)
		}
	})
}

func BenchmarkAccept(b *testing.B) {
	bot, err := New(Config{Token: "7000000001:TEST", Allowed: []int64{mira}}, nobody{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	raw, now := private("hello, what can you do?"), time.Now()
	b.ReportAllocs()
	for b.Loop() {
		if in := bot.accept(raw, now); in.Kind != agent.KindMessage {
			b.Fatal(in.Note)
		}
	}
}
