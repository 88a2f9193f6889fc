package bottest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What one sendMessage costs the server, without a network: tests and
// benchmarks of the bot share the machine with it.
func BenchmarkSendMessage(b *testing.B) {
	s, err := New(Config{Keep: 1000})
	if err != nil {
		b.Fatal(err)
	}
	s.User(miraID, "Mira", "")
	body := `{"chat_id":100200300,"text":"hello","entities":[{"type":"bold","offset":0,"length":5}]}`
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, "/bot"+s.Token()+"/sendMessage", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != 200 {
			b.Fatal(w.Body)
		}
	}
}
