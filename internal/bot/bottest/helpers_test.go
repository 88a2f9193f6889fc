package bottest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
)

const (
	miraID  = 100200300
	groupID = -1001557000111
	forumID = -1001557000222
)

type obj = map[string]any

// bench is a server with a person, a group and a forum, and a plain client.
type bench struct {
	*Server
	t     *testing.T
	http  *http.Client
	mira  *Person
	group Chat
	forum Chat
	topic int
}

func newBench(t *testing.T, cfg Config) *bench {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{Server: s, t: t, http: s.Client()}
	t.Cleanup(func() {
		b.http.CloseIdleConnections()
		s.Close()
	})
	b.mira = s.User(miraID, "Mira Sample", "en").Named("mira_sample")
	b.group = s.AddChat(groupID, "supergroup", "Test group", false)
	b.forum = s.AddChat(forumID, "forum", "Test forum", true)
	b.topic = b.forum.AddTopic("Ops")
	return b
}

type reply struct {
	Status      int
	OK          bool
	Code        int `json:"error_code"`
	Description string
	Parameters  obj
	Result      json.RawMessage
}

func (r reply) message(t *testing.T) apiMessage {
	t.Helper()
	var m apiMessage
	if err := json.Unmarshal(r.Result, &m); err != nil {
		t.Fatalf("%v in %s", err, r.Result)
	}
	return m
}

// do posts a JSON body and decodes the answer.
func (b *bench) do(ctx context.Context, method string, params any) (reply, error) {
	body, err := json.Marshal(params)
	if err != nil {
		return reply{}, err
	}
	return b.post(ctx, method, "application/json", bytes.NewReader(body))
}

func (b *bench) post(ctx context.Context, method, contentType string, body io.Reader) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://api/bot"+b.Token()+"/"+method, body)
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := b.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	r := reply{Status: resp.StatusCode}
	return r, json.NewDecoder(resp.Body).Decode(&r)
}

func (b *bench) call(method string, params any) reply {
	b.t.Helper()
	r, err := b.do(b.t.Context(), method, params)
	if err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	return r
}

// must is a call that has to be accepted.
func (b *bench) must(method string, params any) reply {
	b.t.Helper()
	r := b.call(method, params)
	if !r.OK || r.Status != 200 {
		b.t.Fatalf("%s %v: %d %s", method, params, r.Status, r.Description)
	}
	return r
}

// refused is a call that has to be refused so.
func (b *bench) refused(status int, description, method string, params any) reply {
	b.t.Helper()
	r := b.call(method, params)
	if r.OK || r.Status != status || r.Code != status || r.Description != description {
		b.t.Errorf("%s: %d %q, want %d %q", method, r.Status, r.Description, status, description)
	}
	return r
}

func (b *bench) send(chat int64, text string) apiMessage {
	b.t.Helper()
	return b.must("sendMessage", obj{"chat_id": chat, "text": text}).message(b.t)
}

func (b *bench) updates(params obj) []obj {
	b.t.Helper()
	var out []obj
	if err := json.Unmarshal(b.must("getUpdates", params).Result, &out); err != nil {
		b.t.Fatal(err)
	}
	return out
}

func (b *bench) noViolations() {
	b.t.Helper()
	if v := b.Violations(); len(v) > 0 {
		b.t.Errorf("violations: %q", v)
	}
}

// form makes a multipart body; *Upload values become file parts.
func form(t *testing.T, fields obj) (contentType string, body *bytes.Buffer) {
	t.Helper()
	body = &bytes.Buffer{}
	w := multipart.NewWriter(body)
	for name, v := range fields {
		if up, ok := v.(*Upload); ok {
			part, err := w.CreateFormFile(name, up.Name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := part.Write(up.Data); err != nil {
				t.Fatal(err)
			}
			continue
		}
		text, ok := v.(string)
		if !ok {
			data, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			text = string(data)
		}
		if err := w.WriteField(name, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), body
}

func (b *bench) upload(method string, fields obj) reply {
	b.t.Helper()
	contentType, body := form(b.t, fields)
	r, err := b.post(b.t.Context(), method, contentType, body)
	if err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	return r
}

// within is a context that ends the test if something never happens.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func with(base obj, more obj) obj {
	out := maps.Clone(base)
	maps.Copy(out, more)
	return out
}

func long(n int) string { return strings.Repeat("x", n) }

// cut is the text of an entity.
func cut(text string, e Entity) string {
	return string(utf16.Decode(utf16.Encode([]rune(text))[e.Offset:e.end()]))
}
