package bottest

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

const pageHost = "127.0.0.1:8080"

// pageCall asks the page; changes may make the request less trustworthy.
func (b *bench) pageCall(p *Page, method, path, body string, changes ...func(*http.Request)) (int, string, http.Header) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, "http://"+pageHost+p.Path()+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Origin", "http://"+pageHost)
		r.Header.Set("Content-Type", "application/json")
	}
	for _, change := range changes {
		change(r)
	}
	w := &recorder{header: http.Header{}}
	p.ServeHTTP(w, r)
	return max(w.status, 200), w.body.String(), w.header
}

type recorder struct {
	header http.Header
	status int
	body   strings.Builder
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

func TestPageFiles(t *testing.T) {
	b := newBench(t, Config{})
	p := b.Page(b.mira)
	for path, kind := range map[string]string{"": "text/html", "page.js": "text/javascript", "page.css": "text/css"} {
		code, body, h := b.pageCall(p, "GET", path, "")
		if code != 200 || !strings.HasPrefix(h.Get("Content-Type"), kind) || body == "" {
			t.Errorf("%s: %d %s", path, code, h.Get("Content-Type"))
		}
		if h.Get("Content-Security-Policy") != pagePolicy || h.Get("Referrer-Policy") != "no-referrer" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, h)
		}
	}
}

// Text from outside must never become markup, and nothing is loaded from
// elsewhere.
func TestPageIsHarmless(t *testing.T) {
	for _, name := range []string{"index.html", "page.js", "page.css"} {
		data, err := os.ReadFile("page/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{`innerHTML`, `outerHTML`, `insertAdjacentHTML`, `document\.write`, `\beval\b`, `new Function`, `srcdoc`, `@import`, `url\(`, ` style=`, ` on[a-z]+=`, `(src|href)="[^"]*//`} {
			if regexp.MustCompile(bad).Match(data) {
				t.Errorf("%s holds %s", name, bad)
			}
		}
	}
}

func TestPageGuards(t *testing.T) {
	b := newBench(t, Config{})
	p := b.Page(b.mira)
	send := `{"text":"hi"}`
	for _, c := range []struct {
		name         string
		method, path string
		change       func(*http.Request)
		want         int
	}{
		{"as it should be", "POST", "send", func(*http.Request) {}, 204},
		{"localhost", "POST", "send", func(r *http.Request) { r.Host = "localhost:1"; r.Header.Set("Origin", "http://localhost:1") }, 204},
		{"IPv6", "GET", "page.js", func(r *http.Request) { r.Host = "[::1]:1" }, 200},
		{"rebound name", "GET", "", func(r *http.Request) { r.Host = "evil.example:8080" }, 403},
		{"rebound name that begins well", "GET", "", func(r *http.Request) { r.Host = "127.0.0.1.evil.example" }, 403},
		{"wrong key", "GET", "", func(r *http.Request) { r.URL.Path = "/demo/" + strings.Repeat("A", len(p.key)) + "/" }, 404},
		{"no key", "GET", "", func(r *http.Request) { r.URL.Path = "/demo/" }, 404},
		{"no slash after the key", "GET", "", func(r *http.Request) { r.URL.Path = "/demo/" + p.key }, 404},
		{"elsewhere", "GET", "", func(r *http.Request) { r.URL.Path = "/" }, 404},
		{"foreign origin", "POST", "send", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		{"other port", "POST", "send", func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:9") }, 403},
		{"no origin", "POST", "send", func(r *http.Request) { r.Header.Del("Origin") }, 403},
		{"opaque origin", "POST", "send", func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		{"cross-site read", "GET", "events", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"form post", "POST", "send", func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415},
		{"wrong verb", "GET", "send", func(*http.Request) {}, 405},
		{"unknown", "GET", "page.php", func(*http.Request) {}, 404},
		{"traversal", "GET", "", func(r *http.Request) { r.URL.Path += "../../page.go" }, 307},
	} {
		if code, body, _ := b.pageCall(p, c.method, c.path, send, c.change); code != c.want {
			t.Errorf("%s: %d %s", c.name, code, body)
		}
	}
	if n := len(b.mira.Chat().Messages()); n != 2 {
		t.Errorf("%d messages were sent, want the two allowed", n)
	}
	for _, addr := range []string{"0.0.0.0:0", "example.org:80", ":0", "bad"} {
		if url, err := p.Start(addr); err == nil {
			t.Errorf("listens on %s: %s", addr, url)
		}
	}
}

func TestPageActs(t *testing.T) {
	b := newBench(t, Config{})
	p := b.Page(b.mira)
	post := func(path, body string) (int, string) {
		code, answer, _ := b.pageCall(p, "POST", path, body)
		return code, answer
	}
	bot := b.send(miraID, "hello")
	if code, body := post("send", `{"text":"  hi bot ","replyTo":1}`); code != 204 {
		t.Errorf("%d %s", code, body)
	}
	if m, _ := b.mira.Chat().Last(); m.Text != "hi bot" || m.ReplyTo != bot.ID || m.FromBot {
		t.Errorf("%+v", m)
	}
	if code, _ := post("send", `{"text":" \u200b "}`); code != 400 {
		t.Errorf("blank: %d", code)
	}
	long, err := json.Marshal(obj{"text": "x" + strings.Repeat("😀", 3000)})
	if err != nil {
		t.Fatal(err)
	}
	before := len(b.mira.Chat().Messages())
	if code, _ := post("send", string(long)); code != 204 {
		t.Errorf("long: %d", code)
	}
	got := b.mira.Chat().Messages()[before:]
	if len(got) != 2 || units(got[0].Text) != 4095 || units(got[1].Text) != 6001-4095 { // no pair is cut
		t.Errorf("%d parts", len(got))
	}
	if code, _ := post("react", `{"message":1,"emoji":["👍"]}`); code != 204 || b.message(miraID, 1).Reactions[miraID][0] != "👍" {
		t.Errorf("react: %d", code)
	}
	if code, _ := post("react", `{"message":1,"emoji":["🥔"]}`); code != 400 {
		t.Errorf("bad reaction: %d", code)
	}
	if code, _ := post("press", `{"message":99,"data":"x"}`); code != 410 {
		t.Errorf("gone: %d", code)
	}

	pressed := make(chan string, 1)
	go func() { _, answer := post("press", `{"message":1,"data":"y"}`); pressed <- answer }()
	if err := b.Wait(within(t), func(s *Server) bool { _, ok := s.Callback("4382000000000000001"); return ok }); err != nil {
		t.Fatal(err)
	}
	b.must("answerCallbackQuery", obj{"callback_query_id": "4382000000000000001", "text": "Done"})
	if answer := <-pressed; answer != `{"alert":false,"text":"Done"}` {
		t.Errorf("%s", answer)
	}
}

func TestPageServesFiles(t *testing.T) {
	b := newBench(t, Config{})
	p := b.Page(b.mira)
	b.upload("sendDocument", obj{"chat_id": miraID, "document": &Upload{Name: "a.html", Data: []byte("<script>alert(1)</script>")}})
	b.upload("sendDocument", obj{"chat_id": miraID, "document": &Upload{Name: "a.png", Data: []byte("\x89PNG\r\n\x1a\n")}})
	if _, _, h := b.pageCall(p, "GET", "file/1", ""); h.Get("Content-Type") != "application/octet-stream" || h.Get("Content-Disposition") != "attachment; filename=a.html" {
		t.Errorf("%v", h)
	}
	if _, _, h := b.pageCall(p, "GET", "file/2", ""); h.Get("Content-Type") != "image/png" || h.Get("Content-Disposition") != "" {
		t.Errorf("%v", h)
	}
	if code, _, _ := b.pageCall(p, "GET", "file/3", ""); code != 404 {
		t.Errorf("%d", code)
	}
}

// The stream tells everything at first and then every change.
func TestPageEvents(t *testing.T) {
	b := newBench(t, Config{})
	b.send(miraID, "before")
	p := b.Page(b.mira)
	url, err := p.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(url + "events")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	events := bufio.NewReader(resp.Body)
	next := func(kind string) string { // skips other kinds
		t.Helper()
		for {
			line, err := events.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			name, found := strings.CutPrefix(line, "event: ")
			if !found || strings.TrimSpace(name) != kind {
				continue
			}
			data, err := events.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(strings.TrimPrefix(data, "data: "))
		}
	}
	if got := next("hello"); got != `{"bot":"Agent Test","person":"Mira","username":"agent_test_bot"}` {
		t.Errorf("%s", got)
	}
	message := func() (m pageMessage) {
		t.Helper()
		if err := json.Unmarshal([]byte(next("message")), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	if m := message(); m.Text != "before" || !m.Bot {
		t.Errorf("%+v", m)
	}
	b.must("setMyCommands", obj{"commands": []any{obj{"command": "new", "description": "Fresh start"}}})
	if got := next("state"); !strings.Contains(got, `"commands":null`) { // the first, before the menu was set
		if !strings.Contains(got, `"command":"new"`) {
			t.Errorf("%s", got)
		}
	} else if got := next("state"); !strings.Contains(got, `"command":"new"`) {
		t.Errorf("%s", got)
	}
	sent := b.send(miraID, "prev")
	if m := message(); m.Text != "prev" || m.Edited {
		t.Errorf("%+v", m)
	}
	b.must("editMessageText", obj{"chat_id": miraID, "message_id": sent.ID, "text": "preview"})
	if m := message(); m.Text != "preview" || !m.Edited {
		t.Errorf("%+v", m)
	}
	b.must("sendChatAction", obj{"chat_id": miraID, "action": "typing"})
	if got := next("state"); !strings.Contains(got, `"action":"typing"`) {
		t.Errorf("%s", got)
	}
	b.must("deleteMessage", obj{"chat_id": miraID, "message_id": sent.ID})
	if got := next("gone"); got != "2" {
		t.Errorf("%s", got)
	}
	b.Close()
	_, _ = io.Copy(io.Discard, events) // hangs if the stream outlives the server
}
