package ollamatest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// chat handles POST /api/chat in the order of checks of the real server.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	req, err := decodeChat(body)
	if err != nil {
		s.update(func(st *State) { st.Received++; st.Served++ })
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	req.Header = r.Header
	s.receive(req)

	err = s.answerChat(w, r, req, begun)
	s.update(func(st *State) {
		st.Active--
		if err != nil {
			st.Gone++
		} else {
			st.Served++
		}
	})
}

// receive keeps a request, and counts it.
func (s *Server) receive(req Request) {
	if !s.config.Forget {
		s.mu.Lock()
		s.requests = append(s.requests, req)
		s.mu.Unlock()
	}
	s.update(func(st *State) { st.Received++; st.Active++ })
}

// answerChat returns an error when the client left.
func (s *Server) answerChat(w http.ResponseWriter, r *http.Request, req Request, begun time.Time) error {
	model, ok := s.model(req.Model)
	switch {
	case req.Model == "":
		writeError(w, http.StatusBadRequest, "model is required")
		return nil
	case !ok:
		writeError(w, http.StatusNotFound, fmt.Sprintf("model '%s' not found", req.Model))
		return nil
	}
	keep, _ := parseKeepAlive(req.KeepAlive)
	if len(req.Messages) == 0 && keep == 0 {
		s.unload(model.Name)
		s.finished(w, req, "unload")
		return nil
	}
	if status, text := model.refuses(req); status != 0 {
		writeError(w, status, text)
		return nil
	}

	p := &reply{
		server: s, ctx: r.Context(), w: w, request: req, begun: begun,
		perToken: s.config.PerToken, limit: req.number("num_predict"),
	}
	numCtx := min(orElse(req.number("num_ctx"), s.config.NumCtx), model.ContextLength)
	if s.load(model.Name, numCtx, keep) {
		if err := p.sleep(s.config.Load); err != nil {
			s.unload(model.Name) // the client's leaving cancels the load
			return err
		}
	}
	p.loaded = time.Now()
	if len(req.Messages) == 0 {
		s.finished(w, req, "load")
		return nil
	}
	if req.Tokens > numCtx && !req.Truncate {
		writeError(w, http.StatusBadRequest, "the input length exceeds the context length")
		return nil
	}
	p.request = req.fit(numCtx)
	if room := max(numCtx-p.request.Tokens, 1); !req.Shift && (p.limit <= 0 || p.limit > room) {
		p.limit = room // a full context ends the answer
	}
	err := p.run(s.answer(p.request))
	if keep == 0 {
		s.unload(model.Name)
	}
	return err
}

// refuses returns the status and text for what the model cannot do.
func (m Model) refuses(r Request) (int, string) {
	var level string
	isLevel := json.Unmarshal(r.Think, &level) == nil && level != ""
	switch {
	case isLevel && level != "low" && level != "medium" && level != "high":
		return http.StatusBadRequest, fmt.Sprintf(`invalid think value: %q (must be "high", "medium", "low", true, or false)`, level)
	case (isLevel || string(r.Think) == "true") && !m.can("thinking"):
		return http.StatusBadRequest, fmt.Sprintf("%q does not support thinking", r.Model)
	case isLevel && m.Family != "gptoss":
		return http.StatusBadRequest, fmt.Sprintf("think value %q is not supported for this model", level)
	case !m.can("completion"):
		return http.StatusBadRequest, fmt.Sprintf("%q does not support chat", r.Model)
	case len(r.Tools) > 0 && !m.can("tools"):
		return http.StatusBadRequest, fmt.Sprintf("registry.ollama.ai/library/%s does not support tools", tagged(r.Model))
	}
	if err := r.checkOptions(); err != nil {
		return http.StatusInternalServerError, err.Error()
	}
	return 0, ""
}

// finished answers a request without messages.
func (s *Server) finished(w http.ResponseWriter, req Request, reason string) {
	writeJSON(w, http.StatusOK, chatLine{
		Model: req.Model, CreatedAt: time.Now().UTC(), Message: Message{Role: "assistant"}, Done: true, DoneReason: reason,
	})
}

// nextCallID numbers tool calls; the real server's ids are random.
func (s *Server) nextCallID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callID++
	return fmt.Sprintf("call_%08x", s.callID)
}

func orElse(n, otherwise int) int {
	if n > 0 {
		return n
	}
	return otherwise
}

func writeError(w http.ResponseWriter, status int, text string) {
	writeJSON(w, status, map[string]string{"error": text})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// readJSON decodes a request's body, or answers 400.
func readJSON(w http.ResponseWriter, r *http.Request, v any) bool {
	err := json.NewDecoder(r.Body).Decode(v)
	switch {
	case errors.Is(err, io.EOF):
		writeError(w, http.StatusBadRequest, "missing request body")
	case err != nil:
		writeError(w, http.StatusBadRequest, err.Error())
	}
	return err == nil
}
