package ollama

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"
	"github.com/ollama/ollama/api"

	"agentd/internal/agent"
)

var (
	errNoTools = errors.New("the model takes no tools")                  // a refusal because of the tools (C018)
	errSilent  = errors.New("no answer within " + limit(controlTimeout)) // of a request that no model works on
)

// unreachable is the error of a request that got no response. What never reached
// a server is a Fault, so that the loop does not spin on a closed port; a
// connection that broke later may hold at the next try.
func (c *Client) unreachable(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause != nil && cause != errSilent {
		return cause
	}
	c.forget("")
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // without the URL, which may carry a password
	}
	var op *net.OpError
	dialing := errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect")
	if !dialing && cause == nil && !isTLS(err) {
		return transient(err)
	}
	f := &agent.Fault{Code: agent.FaultUnreachable, Args: map[string]string{"address": c.base.Host, "hint": ""}, Err: err}
	if c.config.Container() {
		f.Args["hint"] = "container"
	}
	return f
}

// isTLS says whether the other side did not speak TLS as expected: trying again
// does not help.
func isTLS(err error) bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &certificate) || errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch)
}

// broken is the error of a response that ended or turned to garbage midway.
func (c *Client) broken(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && cause != errSilent {
		return cause
	}
	return transient(err)
}

func transient(err error) error { return fmt.Errorf("ollama: %w: %w", agent.ErrTransient, err) }

var memoryText = regexp.MustCompile(`requires more system memory \(([^)]+)\) than is available \(([^)]+)\)`)

// passing are texts of a 500 that a second try may not meet: the runner died, and
// the server starts another.
var passing = []string{"server busy", "unexpectedly stopped", "unexpected EOF", "runner process"}

// fault turns an answer with an error status into the error that the loop and
// the person need. The texts are those of Ollama 0.17.4 (server/routes.go,
// server/sched.go, llm/server.go); the cause is an api.StatusError.
func (c *Client) fault(ctx context.Context, model string, resp *http.Response, body []byte) error {
	text := errorText(body)
	if location := resp.Header.Get("Location"); location != "" {
		text = "the server redirects to " + location
	}
	cause := api.StatusError{StatusCode: resp.StatusCode, ErrorMessage: oneLine(text, 500)}
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
	fault := func(code agent.FaultCode, args map[string]string) error {
		return &agent.Fault{Code: code, Args: args, Err: cause}
	}
	switch status := resp.StatusCode; {
	case status == http.StatusNotFound && has("model") && has("not found"):
		c.forget(model)
		return fault(agent.FaultModelAbsent, map[string]string{
			"model": model, "nearest": strings.Join(c.nearest(ctx, model), ", "), "pull": "ollama pull " + model,
		})
	case has("does not support chat", "does not support generate"):
		return fault(agent.FaultNoChat, map[string]string{"model": model})
	case status == http.StatusBadRequest && has("does not support tools"):
		return fmt.Errorf("%w: %w", errNoTools, fault(agent.FaultModelRefused, refusal(cause)))
	case has("more system memory", "out of memory"):
		args := map[string]string{"model": model, "needed": "", "available": ""}
		if m := memoryText.FindStringSubmatch(text); m != nil {
			args["needed"], args["available"] = m[1], m[2]
		}
		return fault(agent.FaultMemory, args)
	case status == http.StatusBadRequest && has("exceeds the context length", "exceeds the available context size"):
		return &agent.Fault{
			Code: agent.FaultTooLong, Args: map[string]string{"tokens": "", "limit": ""},
			Err: fmt.Errorf("%w: %w", agent.ErrTooLong, cause),
		}
	case status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout,
		status == http.StatusTooManyRequests, status == http.StatusInternalServerError && has(passing...):
		return transient(cause)
	}
	return fault(agent.FaultModelRefused, refusal(cause))
}

func refusal(cause api.StatusError) map[string]string {
	return map[string]string{"status": strconv.Itoa(cause.StatusCode), "text": oneLine(cause.ErrorMessage, 200)}
}

// errorText takes the text out of {"error":"…"}, of {"error":{"message":"…"}}
// as other servers write it, or takes the body as it is.
func errorText(body []byte) string {
	var e struct{ Error json.RawMessage }
	if json.Unmarshal(body, &e) != nil || len(e.Error) == 0 {
		return string(body)
	}
	var text string
	if json.Unmarshal(e.Error, &text) == nil {
		return text
	}
	var inner struct{ Message string }
	if json.Unmarshal(e.Error, &inner) == nil && inner.Message != "" {
		return inner.Message
	}
	return string(e.Error)
}

// oneLine shortens a text to at most n bytes of one line.
func oneLine(s string, n int) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " ")
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}

// limit writes a time-out as people do: "10m", not "10m0s".
func limit(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// nearest returns up to three installed models whose names are like the one asked for.
func (c *Client) nearest(ctx context.Context, model string) []string {
	var list api.ListResponse
	if err := c.call(ctx, http.MethodGet, "/api/tags", "", nil, &list); err != nil {
		return nil // the person is told about the model; that tags failed too adds nothing
	}
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	for _, m := range list.Models {
		if d, ok := distance(model, m.Name); ok {
			near = append(near, candidate{m.Name, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	names := make([]string, 0, 3)
	for _, n := range near[:min(len(near), 3)] {
		names = append(names, n.name)
	}
	return names
}

// distance says how far an installed name is from the one wanted, and whether it
// is near at all: the same model with another tag, one name within the other, or
// a few letters apart.
func distance(wanted, installed string) (int, bool) {
	w, i := strings.ToLower(wanted), strings.ToLower(installed)
	wBase, _, _ := strings.Cut(w, ":")
	iBase, _, _ := strings.Cut(i, ":")
	d := levenshtein.ComputeDistance(wBase, iBase)
	switch {
	case d == 0:
		return levenshtein.ComputeDistance(w, i), true
	case strings.HasPrefix(iBase, wBase), strings.HasPrefix(wBase, iBase):
		return 50 + d, true
	default:
		return 100 + d, d <= max(2, len(wBase)/4)
	}
}
