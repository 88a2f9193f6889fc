package ollama

import (
	"net/http"
	"strings"
	"testing"
)

func TestParseHost(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "http://127.0.0.1:11434",
		"host:11434":                    "http://host:11434",
		"host":                          "http://host:11434",
		"http://host:11434/":            "http://host:11434",
		"http://host:11434/v1":          "http://host:11434",
		"http://host:11434/v1/":         "http://host:11434",
		"http://host:11434/api":         "http://host:11434",
		"http://host":                   "http://host:80",
		"https://host":                  "https://host:443",
		"HTTPS://host/":                 "https://host:443",
		"https://example.org/ollama/v1": "https://example.org:443/ollama",
		"https://example.org//ollama//": "https://example.org:443/ollama",
		":1234":                         "http://127.0.0.1:1234",
		"0.0.0.0":                       "http://127.0.0.1:11434",
		"0.0.0.0:8080":                  "http://127.0.0.1:8080",
		"http://[::]:11434":             "http://127.0.0.1:11434",
		"::1":                           "http://[::1]:11434",
		"[::1]":                         "http://[::1]:11434",
		"[::1]:9":                       "http://[::1]:9",
		"http://[fe80::1]:9/v1":         "http://[fe80::1]:9",
		" \"host:11434\"\n":             "http://host:11434",
		"ollama.com":                    "https://ollama.com:443",
		"http://ann:s3cret@host/":       "http://ann:s3cret@host:80",
		"host:":                         "http://host:11434",
		"host.docker.internal":          "http://host.docker.internal:11434",
	} {
		u, err := parseHost(in)
		if err != nil || u.String() != want {
			t.Errorf("%q: %v %v, want %s", in, u, err, want)
		}
	}
	for _, in := range []string{"ftp://s3cret", "host:s3cret", "host:0", "host:70000", "http://s3cret?x=1", "host s3cret", "a:b:s3cret", "tcp://host:1"} {
		if u, err := parseHost(in); err == nil {
			t.Errorf("%q: %v, want an error", in, u)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: the error shows the value: %v", in, err)
		}
	}
}

// A proxy of the environment is never asked for a server nearby.
func TestNoProxyNearby(t *testing.T) {
	for host, near := range map[string]bool{
		"": true, "localhost": true, "127.0.0.1:1": true, "[::1]": true, "ollama": true, "192.168.1.5": true,
		"host.docker.internal": true, "https://example.org": false, "https://203.0.113.7": false,
	} {
		u, err := parseHost(host)
		if err != nil {
			t.Fatal(err)
		}
		if got := local(u.Hostname()); got != near {
			t.Errorf("%q: local is %v", host, got)
		}
		if got := newHTTP(Config{}, u).Transport.(*http.Transport).Proxy == nil; got != near {
			t.Errorf("%q: without a proxy: %v", host, got)
		}
	}
}
