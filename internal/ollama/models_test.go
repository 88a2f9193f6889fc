package ollama_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/agent"
	"agentd/internal/ollama"
	"agentd/internal/ollama/ollamatest"
)

var embedder = ollamatest.Model{Name: "nomic-embed-text", Capabilities: []string{"embedding"}}

func TestResolve(t *testing.T) {
	chosen := func(name string, err error) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return name, err }
	}
	broken := errors.New("broken")
	qwen, llama := ollamatest.Model{Name: "qwen3:8b"}, ollamatest.Model{Name: "llama3.2"}
	for name, test := range map[string]struct {
		config    ollama.Config
		installed []ollamatest.Model
		want      string // the model, or what the fault lists
		err       error
	}{
		"configured":     {ollama.Config{Model: "m", Choose: chosen("c", nil)}, []ollamatest.Model{qwen}, "m", nil},
		"chosen":         {ollama.Config{Choose: chosen("c", nil)}, []ollamatest.Model{qwen}, "c", nil},
		"choice unread":  {ollama.Config{Choose: chosen("", broken)}, []ollamatest.Model{qwen}, "", broken},
		"the only one":   {ollama.Config{Choose: chosen("", nil)}, []ollamatest.Model{embedder, qwen}, "qwen3:8b", nil},
		"several":        {ollama.Config{}, []ollamatest.Model{qwen, embedder, llama}, "qwen3:8b, llama3.2:latest", &agent.Fault{}},
		"embedding only": {ollama.Config{}, []ollamatest.Model{embedder}, "", &agent.Fault{}},
		"none":           {ollama.Config{}, []ollamatest.Model{}, "", &agent.Fault{}},
	} {
		t.Run(name, func(t *testing.T) {
			srv := ollamatest.New(ollamatest.Config{Models: test.installed})
			c := connect(t, srv, test.config)
			got, err := c.Resolve(t.Context())
			var f *agent.Fault
			if errors.As(test.err, &f) {
				if f = asFault(t, err); f.Code != agent.FaultNoModel || f.Args["installed"] != test.want {
					t.Errorf("%v", err)
				}
			} else if got != test.want || !errors.Is(err, test.err) {
				t.Errorf("%q %v", got, err)
			}
		})
	}
}

// A request that names a model goes to it, whatever is configured.
func TestRequestNamesTheModel(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{Models: []ollamatest.Model{{Name: "a"}, {Name: "b"}}})
	c := connect(t, srv, ollama.Config{Model: "a"})
	req := question("x")
	req.Model = "b"
	if _, err := c.Generate(t.Context(), req, nil); err != nil || srv.Requests()[0].Model != "b" {
		t.Errorf("%+v %v", srv.Requests(), err)
	}
}

// What the server said of a model is believed for a while, and dropped when the
// model is gone.
func TestModelsAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := ollamatest.New(ollamatest.Config{})
		c := pipe(t, srv, ollama.Config{})
		ask := func() error { _, err := c.Generate(t.Context(), question("x"), nil); return err }
		count := func(tags, show int) {
			t.Helper()
			if srv.Calls("/api/tags") != tags || srv.Calls("/api/show") != show {
				t.Errorf("%d tags, %d shows; want %d, %d", srv.Calls("/api/tags"), srv.Calls("/api/show"), tags, show)
			}
		}
		for range 3 {
			if err := ask(); err != nil {
				t.Fatal(err)
			}
		}
		count(1, 1)
		<-time.After(10 * time.Minute) // the bubble's time
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		count(2, 2)
		srv.Remove("test-model")
		srv.Install(ollamatest.Model{Name: "test-model-2"})
		if f := asFault(t, ask()); f.Code != agent.FaultModelAbsent || f.Args["nearest"] != "test-model-2:latest" || f.Args["pull"] != "ollama pull test-model:latest" {
			t.Errorf("%v", f)
		}
		if err := ask(); err != nil || srv.Requests()[len(srv.Requests())-1].Model != "test-model-2:latest" {
			t.Errorf("the new only model: %v", err)
		}
	})
}

func TestNearestNames(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{Models: []ollamatest.Model{
		{Name: "llama3.2:1b"}, {Name: "llama3.2:3b"}, {Name: "llama3.1:8b"}, {Name: "qwen3:8b"}, {Name: "qwen3-coder:30b"}, {Name: "mistral"}, embedder,
	}})
	c := connect(t, srv, ollama.Config{})
	for wanted, nearest := range map[string]string{
		"llama3.2":    "llama3.2:1b, llama3.2:3b, llama3.1:8b",
		"llama3.2:2b": "llama3.2:1b, llama3.2:3b, llama3.1:8b",
		"qwen3":       "qwen3:8b, qwen3-coder:30b",
		"Mistrall":    "mistral:latest",
		"gpt-oss:20b": "",
	} {
		_, err := c.Generate(t.Context(), agent.Request{Model: wanted, Messages: question("x").Messages}, nil)
		if f := asFault(t, err); f.Code != agent.FaultModelAbsent || f.Args["nearest"] != nearest || f.Args["model"] != wanted || f.Args["pull"] != "ollama pull "+wanted {
			t.Errorf("%s: %v", wanted, err)
		}
	}
	if n := len(srv.Requests()); n != 0 {
		t.Errorf("%d chat requests to models that are not there", n)
	}
}

func TestEmbeddingModelIsNotAsked(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{Models: []ollamatest.Model{embedder}})
	c := connect(t, srv, ollama.Config{Model: "nomic-embed-text"})
	_, err := c.Generate(t.Context(), question("x"), nil)
	if f := asFault(t, err); f.Code != agent.FaultNoChat || f.Args["model"] != "nomic-embed-text" || len(srv.Requests()) != 0 {
		t.Errorf("%v", err)
	}
}

func TestInstalledAndVersion(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{Models: []ollamatest.Model{
		{Name: "old", Size: 1}, {Name: "eyes", Size: 2, ContextLength: 4096, Capabilities: []string{"completion", "vision"}, Modified: time.Now()}, embedder,
	}})
	c := connect(t, srv, ollama.Config{})
	got, err := c.Installed(t.Context())
	if err != nil || len(got) != 3 {
		t.Fatalf("%+v %v", got, err)
	}
	want := ollama.Model{Name: "eyes:latest", Size: 2, Parameters: "1B", Quantization: "Q4_K_M", Context: 4096, Chat: true, Vision: true}
	if got[0] != want {
		t.Errorf("%+v", got[0])
	}
	if i := slices.IndexFunc(got, func(m ollama.Model) bool { return !m.Chat }); i < 0 || got[i].Name != "nomic-embed-text:latest" || got[i].Tools {
		t.Errorf("%+v", got)
	}
	if v, err := c.Version(t.Context()); err != nil || v != "0.17.4" {
		t.Errorf("%q %v", v, err)
	}
}

// Pictures go to models that see, and to no others.
func TestPicturesOnlyForModelsThatSee(t *testing.T) {
	srv := ollamatest.New(ollamatest.Config{Models: []ollamatest.Model{{Name: "blind"}, {Name: "eyes", Capabilities: []string{"completion", "vision"}}}})
	c := connect(t, srv, ollama.Config{})
	for model, want := range map[string]int{"blind": 0, "eyes": 1} {
		_, err := c.Generate(t.Context(), agent.Request{Model: model, Messages: []agent.Message{{Role: agent.User, Parts: []agent.Part{{Text: "what is it?"}, {Image: &agent.Image{Data: []byte("png")}}}}}}, nil)
		requests := srv.Requests()
		if last := requests[len(requests)-1]; err != nil || len(last.Messages[0].Images) != want {
			t.Errorf("%s: %d images, %v", model, len(last.Messages[0].Images), err)
		}
	}
}

func TestPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := ollamatest.New(ollamatest.Config{Models: []ollamatest.Model{}, Library: []ollamatest.Model{{Name: "qwen3:8b", Size: 5000}}, PerToken: 9 * time.Minute})
		c := pipe(t, srv, ollama.Config{})
		if _, err := c.Resolve(t.Context()); asFault(t, err).Code != agent.FaultNoModel {
			t.Fatal(err)
		}
		var steps []ollama.Progress
		if err := c.Pull(t.Context(), "qwen3:8b", func(p ollama.Progress) { steps = append(steps, p) }); err != nil {
			t.Fatal(err)
		}
		if len(steps) != 10 || steps[4].Completed != 3000 || steps[4].Total != 5000 || steps[9].Status != "success" {
			t.Errorf("%+v", steps)
		}
		if got, err := c.Resolve(t.Context()); err != nil || got != "qwen3:8b" {
			t.Errorf("after the pull: %q %v", got, err)
		}
		err := c.Pull(t.Context(), "nothing", nil)
		if f := asFault(t, err); f.Code != agent.FaultModelRefused || !strings.Contains(f.Args["text"], "file does not exist") {
			t.Errorf("%v", err)
		}
	})
}

func TestWarmUpLoadsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := ollamatest.New(ollamatest.Config{Load: time.Minute})
		forever := -time.Second
		c := pipe(t, srv, ollama.Config{KeepAlive: &forever})
		if err := c.WarmUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if _, err := c.Generate(t.Context(), question("x"), nil); err != nil || time.Since(begun) != 0 {
			t.Errorf("%v after %v: the model was loaded again", err, time.Since(begun))
		}
		running, err := c.Running(t.Context())
		if err != nil || len(running) != 1 || running[0].Expires.Before(time.Now().AddDate(1, 0, 0)) || string(srv.Requests()[0].KeepAlive) != "-1" {
			t.Errorf("%+v %v", running, err)
		}
	})
}
