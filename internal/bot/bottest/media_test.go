package bottest

import (
	"bytes"
	"io"
	"os"
	"testing"
)

func (b *bench) download(url string) string {
	b.t.Helper()
	resp, err := b.http.Get(url)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		b.t.Fatalf("%d %v", resp.StatusCode, err)
	}
	return string(data)
}

func TestPhotos(t *testing.T) {
	b := newBench(t, Config{})
	file := func(name string) *Upload {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return &Upload{Name: name, Data: data}
	}
	for _, c := range []struct {
		up   *Upload
		want string
	}{
		{file("img_ok_64x48.png"), ""},
		{file("img_tall_1280x9800.png"), "Bad Request: PHOTO_INVALID_DIMENSIONS"},
		{file("img_wide_2100x100.png"), "Bad Request: PHOTO_INVALID_DIMENSIONS"},
		{&Upload{Name: "x.png", Data: []byte("no picture")}, "Bad Request: IMAGE_PROCESS_FAILED"},
		{&Upload{Name: "x.png", Data: nil}, "Bad Request: file must be non-empty"},
		{&Upload{Name: "big.jpg", Data: make([]byte, photoLimit+1)}, `Bad Request: file "big.jpg" of size 10485761 bytes is too big for a photo`},
	} {
		if r := b.upload("sendPhoto", obj{"chat_id": miraID, "photo": c.up}); r.Description != c.want {
			t.Errorf("%s: %+v", c.up.Name, r)
		}
	}
	// The same bytes go as a document.
	if r := b.upload("sendDocument", obj{"chat_id": miraID, "document": file("img_tall_1280x9800.png")}); !r.OK {
		t.Errorf("%+v", r)
	}
	b.noViolations()
}

func TestUploadLimit(t *testing.T) {
	b := newBench(t, Config{UploadLimit: 100_000})
	if r := b.upload("sendDocument", obj{"chat_id": miraID, "document": &Upload{Name: "ok", Data: make([]byte, 100_000)}}); !r.OK {
		t.Errorf("%+v", r)
	}
	contentType, body := form(t, obj{"chat_id": miraID, "document": &Upload{Name: "big", Data: make([]byte, 200_000)}})
	for _, known := range []bool{true, false} { // with and without Content-Length
		var rd io.Reader = bytes.NewReader(body.Bytes())
		if !known {
			rd = io.MultiReader(rd)
		}
		resp, err := b.http.Post("http://api/bot"+b.Token()+"/sendDocument", contentType, rd)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 413 || string(got) != page413 || resp.Header.Get("Content-Type") != "text/html" {
			t.Errorf("%d %s", resp.StatusCode, got)
		}
	}
	if n := len(b.mira.Chat().FromBot()); n != 1 {
		t.Errorf("%d messages", n)
	}
}

func TestReceivedFiles(t *testing.T) {
	b := newBench(t, Config{})
	m := b.mira.SendFile("a.txt", []byte("content"), "")
	big := b.mira.Say(Say{File: &File{Name: "film.mkv", Size: 89_704_028}})
	b.refused(400, "Bad Request: file is too big", "getFile", obj{"file_id": big.File.ID})
	r := b.must("getFile", obj{"file_id": m.File.ID})
	if got := b.download("http://api/file/bot" + b.Token() + "/" + m.File.Path); got != "content" {
		t.Errorf("%q %s", got, r.Result)
	}
	if resp, err := b.http.Get("http://api/file/bot" + b.Token() + "/nothing"); err != nil || resp.StatusCode != 404 {
		t.Errorf("%v %v", resp, err)
	}
}

// Every other send of the specification leaves a message of its kind.
func TestSendObjects(t *testing.T) {
	b := newBench(t, Config{})
	for method, params := range map[string]obj{
		"sendLocation": {"latitude": 1.5, "longitude": 2.5},
		"sendVenue":    {"latitude": 1.5, "longitude": 2.5, "title": "Mill", "address": "Brook 1"},
		"sendContact":  {"phone_number": "+100", "first_name": "Ann"},
		"sendDice":     {},
		"sendPoll":     {"question": "Tea?", "options": []any{obj{"text": "Yes"}, obj{"text": "No"}}},
	} {
		m := b.must(method, with(params, obj{"chat_id": miraID})).message(t)
		if kind := b.message(miraID, m.ID).Kind; "send"+kind != "send"+snake(method[4:]) {
			t.Errorf("%s: %s", method, kind)
		}
	}
	b.noViolations()
}
