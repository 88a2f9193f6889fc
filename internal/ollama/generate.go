package ollama

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"agentd/internal/agent"
)

var _ agent.Model = (*Client)(nil)

// Generate asks the model and streams its answer to watch, which may be nil.
// The reply is complete: a stream that ends before the server said so is an
// error that wraps agent.ErrTransient; one that goes on beyond what the context
// could hold is cut. A thought goes to watch only. A tool
// call has the id that the server gave it, if any, and arguments that are no JSON
// object as a JSON string.
//
// Errors: *agent.Fault for what a person can mend; context.Cause when ctx ends.
func (c *Client) Generate(ctx context.Context, req agent.Request, watch func(agent.Delta)) (agent.Reply, error) {
	model := req.Model
	if model == "" {
		var err error
		if model, err = c.Resolve(ctx); err != nil {
			return agent.Reply{}, err
		}
	}
	info, err := c.known(ctx, model)
	if err != nil {
		return agent.Reply{}, err
	}
	if !info.chat {
		return agent.Reply{}, &agent.Fault{Code: agent.FaultNoChat, Args: map[string]string{"model": model}}
	}
	release, err := c.slot(ctx)
	if err != nil {
		return agent.Reply{}, err
	}
	defer release()

	reply, err := c.generate(ctx, model, info, req, watch)
	if errors.Is(err, errNoTools) && info.tools && len(req.Tools) > 0 {
		c.log.Info("the model takes no tools; asking without them", "model", model)
		info.tools = false
		c.remember(model, info)
		reply, err = c.generate(ctx, model, info, req, watch)
	}
	return reply, err
}

// slot waits for one of the Parallel slots.
func (c *Client) slot(ctx context.Context) (release func(), err error) {
	select {
	case c.slots <- struct{}{}:
		return func() { <-c.slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// generate makes one chat request.
func (c *Client) generate(ctx context.Context, model string, info known, req agent.Request, watch func(agent.Delta)) (agent.Reply, error) {
	body, err := c.encode(model, info, req)
	if err != nil {
		return agent.Reply{}, err
	}
	begun := time.Now()
	ctx, guard := c.guard(ctx)
	defer guard.stop()
	resp, err := c.send(ctx, http.MethodPost, "/api/chat", model, body)
	if err != nil {
		return agent.Reply{}, c.explain(err, info)
	}
	defer func() { _ = resp.Body.Close() }()

	lines := newLines(resp.Body)
	var r reply
	for {
		line, err := lines.next()
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return agent.Reply{}, c.broken(ctx, fmt.Errorf("the stream ended before it was done: %w", err))
		}
		guard.token()
		var part chunk
		if err := json.Unmarshal(line, &part); err != nil {
			return agent.Reply{}, c.broken(ctx, fmt.Errorf("a line of the stream: %w", err))
		}
		if part.failed() {
			return agent.Reply{}, c.broken(ctx, fmt.Errorf("the server broke off: %s", oneLine(errorText(line), 500)))
		}
		r.add(&part)
		if watch != nil && (part.Message.Content != "" || part.Message.Thinking != "") {
			watch(agent.Delta{Text: part.Message.Content, Thought: part.Message.Thinking})
		}
		if endless := r.bytes > tokenBytes*c.numCtx(info); endless && !part.Done {
			c.log.Warn("the model's answer has no end; it is cut off", "model", model, "bytes", r.bytes)
			return r.finish(&part), nil
		}
		if part.Done {
			c.log.Debug("model answered", "model", model, "took", time.Since(begun), "request_bytes", len(body),
				"prompt_tokens", part.PromptEvalCount, "output_tokens", part.EvalCount, "reason", part.DoneReason)
			guard.drain(resp.Body)
			return r.finish(&part), nil
		}
	}
}

// explain adds to a fault what only the caller knows.
func (c *Client) explain(err error, info known) error {
	var f *agent.Fault
	if errors.As(err, &f) && f.Code == agent.FaultTooLong {
		f.Args["limit"] = fmt.Sprint(c.numCtx(info))
	}
	return err
}

// guard cancels a request whose tokens do not come. Its cause is the Fault.
type guard struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
	idle   time.Duration
	begun  bool
}

// guard starts with the time for the first token, which includes the server's
// queue and the loading of the model (C087).
func (c *Client) guard(ctx context.Context) (context.Context, *guard) {
	ctx, cancel := context.WithCancelCause(ctx)
	g := &guard{cancel: cancel, idle: c.config.IdleTimeout}
	g.timer = g.after(c.config.LoadTimeout, agent.FaultLoadTimeout)
	return ctx, g
}

func (g *guard) after(d time.Duration, code agent.FaultCode) *time.Timer {
	return time.AfterFunc(d, func() {
		g.cancel(&agent.Fault{Code: code, Args: map[string]string{"limit": limit(d)}})
	})
}

// token gives the time for the next one.
func (g *guard) token() {
	if g.begun {
		g.timer.Reset(g.idle)
		return
	}
	g.begun = true
	g.timer.Stop()
	g.timer = g.after(g.idle, agent.FaultIdleTimeout)
}

// drain reads the end of a response, without which its connection is lost for
// the next request. It is there already, but for a server that holds it back.
func (g *guard) drain(r io.Reader) {
	g.timer.Reset(time.Second)
	_, _ = io.Copy(io.Discard, io.LimitReader(r, 64<<10))
}

func (g *guard) stop() {
	g.timer.Stop()
	g.cancel(nil)
}

// WarmUp loads the model, so that the first question need not wait for it.
func (c *Client) WarmUp(ctx context.Context) error {
	model, err := c.Resolve(ctx)
	if err != nil {
		return err
	}
	info, err := c.known(ctx, model)
	if err != nil {
		return err
	}
	body, err := marshal(c.request(model, info))
	if err != nil {
		return fmt.Errorf("ollama: request: %w", err)
	}
	release, err := c.slot(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, guard := c.guard(ctx)
	defer guard.stop()
	resp, err := c.send(ctx, http.MethodPost, "/api/chat", model, body)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)); err != nil {
		return c.broken(ctx, err)
	}
	return nil
}

// Progress is a step of a Pull.
type Progress struct {
	Status    string // "pulling manifest", "pulling 6a0746a1ec1a", "verifying sha256 digest", "success"
	Completed int64  // bytes of the layer that is being fetched
	Total     int64  // 0 when the step has none
}

// Pull installs a model on the server and tells progress of it. It returns once
// the model is there. A name that the library does not have is a Fault with the
// server's text.
func (c *Client) Pull(ctx context.Context, model string, progress func(Progress)) error {
	body, err := marshal(map[string]any{"model": model, "stream": true})
	if err != nil {
		return fmt.Errorf("ollama: request: %w", err)
	}
	ctx, guard := c.guard(ctx)
	guard.idle = c.config.LoadTimeout // checking the sum of a large layer is silent for minutes
	defer guard.stop()
	resp, err := c.send(ctx, http.MethodPost, "/api/pull", model, body)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	lines := newLines(resp.Body)
	for {
		line, err := lines.next()
		if err != nil {
			return c.broken(ctx, fmt.Errorf("the pull ended early: %w", err))
		}
		guard.token()
		var p struct {
			Status           string
			Completed, Total int64
			Error            json.RawMessage
		}
		if err := json.Unmarshal(line, &p); err != nil {
			return c.broken(ctx, fmt.Errorf("a line of the pull: %w", err))
		}
		if isError(p.Error) {
			text := oneLine(errorText(line), 200)
			return &agent.Fault{Code: agent.FaultModelRefused, Args: map[string]string{"status": "pull", "text": text}}
		}
		if progress != nil {
			progress(Progress{Status: p.Status, Completed: p.Completed, Total: p.Total})
		}
		if strings.EqualFold(p.Status, "success") {
			c.forget("")
			guard.drain(resp.Body)
			return nil
		}
	}
}
