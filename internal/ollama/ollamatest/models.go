package ollamatest

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// fill sets what a Model leaves out.
func (m *Model) fill() {
	m.Name = tagged(m.Name)
	m.Size = cmp.Or(m.Size, 1_000_000_000)
	m.ContextLength = cmp.Or(m.ContextLength, 32768)
	m.Family = cmp.Or(m.Family, "llama")
	if m.Capabilities == nil {
		m.Capabilities = []string{"completion", "tools"}
	}
}

func (m Model) can(capability string) bool { return slices.Contains(m.Capabilities, capability) }

func (m Model) digest() string { return fmt.Sprintf("%x", sha256.Sum256([]byte(m.Name))) }

func (m Model) details() map[string]any {
	return map[string]any{
		"parent_model": "", "format": "gguf", "family": m.Family, "families": []string{m.Family},
		"parameter_size": "1B", "quantization_level": "Q4_K_M",
	}
}

// tagged is a model's full name.
func tagged(name string) string {
	if name != "" && !strings.Contains(name[strings.LastIndexByte(name, '/')+1:], ":") {
		name += ":latest"
	}
	return name
}

func sameModel(a, b string) bool { return strings.EqualFold(tagged(a), tagged(b)) }

// model finds an installed model.
func (s *Server) model(name string) (Model, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.models, func(m Model) bool { return sameModel(m.Name, name) })
	if i < 0 {
		return Model{}, false
	}
	return s.models[i], true
}

// Install adds a model, as "ollama pull" in a terminal would.
func (s *Server) Install(m Model) {
	m.fill()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models = slices.DeleteFunc(s.models, func(old Model) bool { return old.Name == m.Name })
	s.models = append(s.models, m)
}

// Remove deletes a model, as "ollama rm" would.
func (s *Server) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models = slices.DeleteFunc(s.models, func(m Model) bool { return sameModel(m.Name, name) })
	delete(s.loaded, tagged(name))
}

// load puts a model into memory and says whether that takes time: it was not
// there, or with another num_ctx.
func (s *Server) load(name string, numCtx int, keep time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	old, ok := s.loaded[name]
	expires := now.Add(keep)
	if keep == math.MaxInt64 {
		expires = now.AddDate(292, 0, 0)
	}
	s.loaded[name] = loaded{numCtx: numCtx, expires: expires}
	return !ok || old.numCtx != numCtx || now.After(old.expires)
}

func (s *Server) unload(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.loaded, name)
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"version": s.config.Version})
}

// tags lists the installed models, the newest first.
func (s *Server) tags(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	models := slices.Clone(s.models)
	s.mu.Unlock()
	slices.SortStableFunc(models, func(a, b Model) int { return b.Modified.Compare(a.Modified) })
	list := make([]map[string]any, 0, len(models))
	for _, m := range models {
		list = append(list, map[string]any{
			"name": m.Name, "model": m.Name, "modified_at": m.Modified, "size": m.Size,
			"digest": m.digest(), "details": m.details(),
		})
	}
	writeJSON(w, http.StatusOK, map[string]any{"models": list})
}

// ps lists the models in memory.
func (s *Server) ps(w http.ResponseWriter, _ *http.Request) {
	now := time.Now()
	s.mu.Lock()
	list := make([]map[string]any, 0, len(s.loaded))
	for _, m := range s.models {
		if l, ok := s.loaded[m.Name]; ok && now.Before(l.expires) {
			list = append(list, map[string]any{
				"name": m.Name, "model": m.Name, "size": m.Size, "size_vram": m.Size / 2, "digest": m.digest(),
				"details": m.details(), "expires_at": l.expires, "context_length": l.numCtx,
			})
		}
	}
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, map[string]any{"models": list})
}

func (s *Server) show(w http.ResponseWriter, r *http.Request) {
	var req struct{ Model, Name string }
	if !readJSON(w, r, &req) {
		return
	}
	name := cmp.Or(req.Model, req.Name)
	m, ok := s.model(name)
	switch {
	case name == "":
		writeError(w, http.StatusBadRequest, "model is required")
	case !ok:
		writeError(w, http.StatusNotFound, fmt.Sprintf("model '%s' not found", name))
	default:
		writeJSON(w, http.StatusOK, map[string]any{
			"modelfile": "FROM " + m.Name, "template": "{{ .Prompt }}", "details": m.details(), "modified_at": m.Modified,
			"capabilities": m.Capabilities,
			"model_info": map[string]any{
				"general.architecture":         m.Family,
				m.Family + ".context_length":   m.ContextLength,
				m.Family + ".embedding_length": dimensions,
			},
		})
	}
}

// pull installs a model of the library, with the progress lines of a download.
func (s *Server) pull(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Model, Name string
		Stream      *bool
	}
	if !readJSON(w, r, &req) {
		return
	}
	name := cmp.Or(req.Model, req.Name)
	if name == "" {
		writeError(w, http.StatusBadRequest, "invalid model name")
		return
	}
	p := &reply{
		server: s, ctx: r.Context(), w: w, perToken: s.config.PerToken,
		request: Request{Stream: orTrue(req.Stream)},
	}
	last := map[string]any{}
	progress := func(line map[string]any) error {
		last = line
		if !p.request.Stream {
			return p.pause()
		}
		b, _ := json.Marshal(line)
		if err := p.pause(); err != nil {
			return err
		}
		return p.write(append(b, '\n'))
	}
	if s.download(name, progress) == nil && !p.request.Stream {
		status := http.StatusOK
		if last["error"] != nil {
			status = http.StatusInternalServerError
		}
		writeJSON(w, status, last)
	}
}

// download reports the steps of a pull; its error is progress's.
func (s *Server) download(name string, progress func(map[string]any) error) error {
	if err := progress(map[string]any{"status": "pulling manifest"}); err != nil {
		return err
	}
	i := slices.IndexFunc(s.config.Library, func(m Model) bool { return sameModel(m.Name, name) })
	if i < 0 {
		return progress(map[string]any{"error": "pull model manifest: file does not exist"})
	}
	m := s.config.Library[i]
	m.fill()
	const pieces = 5
	for n := range int64(pieces + 1) {
		line := map[string]any{"status": "pulling " + m.digest()[:12], "digest": "sha256:" + m.digest(), "total": m.Size}
		if n > 0 { // a real server leaves out a zero
			line["completed"] = m.Size * n / pieces
		}
		if err := progress(line); err != nil {
			return err
		}
	}
	for _, status := range []string{"verifying sha256 digest", "writing manifest"} {
		if err := progress(map[string]any{"status": status}); err != nil {
			return err
		}
	}
	s.Install(m)
	return progress(map[string]any{"status": "success"})
}

// dimensions is the length of an embedding.
const dimensions = 64

// embed answers with vectors made from the texts' hashes: the same text always
// has the same vector, of length 1; meaning has no part in it.
func (s *Server) embed(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Model      string
		Input      any
		Dimensions int
	}
	if !readJSON(w, r, &req) {
		return
	}
	var texts []string
	switch in := req.Input.(type) {
	case nil:
	case string:
		if in != "" {
			texts = []string{in}
		}
	case []any:
		for _, v := range in {
			t, ok := v.(string)
			if !ok {
				writeError(w, http.StatusBadRequest, "invalid input type")
				return
			}
			texts = append(texts, t)
		}
	default:
		writeError(w, http.StatusBadRequest, "invalid input type")
		return
	}
	m, ok := s.model(req.Model)
	switch {
	case !ok:
		writeError(w, http.StatusNotFound, fmt.Sprintf("model '%s' not found", req.Model))
		return
	case !m.can("embedding") && len(texts) > 0:
		writeError(w, http.StatusNotImplemented, "this model does not support embeddings")
		return
	}
	vectors, tokens := make([][]float32, 0, len(texts)), 0
	for _, t := range texts {
		tokens += (len(t) + 3) / 4
		vectors = append(vectors, vector(t, min(orElse(req.Dimensions, dimensions), dimensions)))
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"model": req.Model, "embeddings": vectors, "prompt_eval_count": tokens,
		"total_duration": warmLoad, "load_duration": warmLoad,
	})
}

// vector is the embedding of a text.
func vector(text string, length int) []float32 {
	h := fnv.New128a()
	_, _ = h.Write([]byte(text))
	sum := h.Sum(nil)
	random := rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum), binary.BigEndian.Uint64(sum[8:])))
	v, norm := make([]float32, length), 0.0
	for i := range v {
		x := random.NormFloat64()
		v[i] = float32(x)
		norm += x * x
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(norm))
	}
	return v
}
