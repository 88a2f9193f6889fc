// Package ollama is agent.Model over an Ollama server, and what else a person
// wants to know of one: which models are installed and running, and a pull.
//
// It uses Ollama's own package for its types but reads the answers itself:
// the client of v0.17.4 takes a cut stream for a complete answer, allocates
// 8 MiB a call, turns the numbers of tool arguments into floats and drops parts
// of tool schemas.
package ollama

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"
)

// Config shapes a Client; its zero value asks the Ollama of this machine for
// its only chat model.
type Config struct {
	Host  string // by the convention of OLLAMA_HOST; "" is 127.0.0.1:11434
	Model string // the model for requests that name none; "" asks Choose

	// Choose returns the model that was chosen at run time, "" for none. With
	// nothing chosen the only installed chat model is used. nil: never chosen.
	Choose func(context.Context) (string, error)

	NumCtx      int             // tokens; 0: the smaller of the model's own and 16,384
	KeepAlive   *time.Duration  // how long the model stays loaded, negative for ever; nil: 30 minutes
	LoadTimeout time.Duration   // until the first token: queue, loading, prompt; 0: 10 minutes
	IdleTimeout time.Duration   // between tokens; 0: 2 minutes
	Parallel    int             // requests to the model at a time; 0: 1
	Options     json.RawMessage // Ollama's options as a JSON object; a num_ctx in it is overridden

	// Dial makes the connections; nil: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Container says whether we run inside one, where 127.0.0.1 is not the host;
	// nil looks for the marks that Docker and Podman leave.
	Container func() bool
	Log       *slog.Logger // nil: none
}

const (
	defaultNumCtx  = 16384            // the most that we take unasked: memory grows with it
	controlTimeout = 30 * time.Second // for requests that no model works on
	modelTTL       = 5 * time.Minute  // how long we believe what the server said of a model
	idlePerHost    = 64               // the default transport keeps 2, and opens hundreds
)

// Client talks to one Ollama server. It is safe for concurrent use.
type Client struct {
	config  Config
	base    *url.URL
	http    *http.Client
	options map[string]json.RawMessage
	log     *slog.Logger
	slots   chan struct{} // a request holds one; the runtime serves those who wait in their order

	conversations conversations

	mu      sync.Mutex
	models  map[string]known // by the name that was asked for
	only    string           // the only chat model, believed until onlyTil
	onlyTil time.Time
}

// New returns a client. The server need not be there yet. Errors are of the
// configuration, and never hold the address, which may carry a password.
func New(config Config) (*Client, error) {
	base, err := parseHost(config.Host)
	if err != nil {
		return nil, err
	}
	options := map[string]json.RawMessage{}
	if len(config.Options) > 0 {
		if err := json.Unmarshal(config.Options, &options); err != nil || options == nil {
			return nil, errors.New("options of Ollama: a JSON object expected")
		}
	}
	if config.NumCtx < 0 || config.Parallel < 0 || config.LoadTimeout < 0 || config.IdleTimeout < 0 {
		return nil, errors.New("ollama: context, parallel requests and time-outs cannot be negative")
	}
	config.KeepAlive = cmp.Or(config.KeepAlive, new(30*time.Minute))
	config.LoadTimeout = cmp.Or(config.LoadTimeout, 10*time.Minute)
	config.IdleTimeout = cmp.Or(config.IdleTimeout, 2*time.Minute)
	config.Parallel = cmp.Or(config.Parallel, 1)
	if config.Dial == nil {
		config.Dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	if config.Container == nil {
		config.Container = inContainer
	}
	return &Client{
		config:  config,
		base:    base,
		http:    newHTTP(config, base),
		options: options,
		log:     cmp.Or(config.Log, slog.New(slog.DiscardHandler)),
		slots:   make(chan struct{}, config.Parallel),
		models:  map[string]known{},
	}, nil
}

// newHTTP returns an HTTP client without an overall time-out: tokens may flow
// for an hour. A proxy of the environment is not for servers nearby.
func newHTTP(config Config, base *url.URL) *http.Client {
	transport := &http.Transport{
		DialContext:         config.Dial,
		MaxIdleConns:        idlePerHost,
		MaxIdleConnsPerHost: idlePerHost,
		IdleConnTimeout:     90 * time.Second,
		WriteBufferSize:     64 << 10, // most requests go out in one write, through no other buffer
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		DisableCompression:  true, // compressed tokens come in lumps
	}
	if !local(base.Hostname()) {
		transport.Proxy = http.ProxyFromEnvironment
	}
	return &http.Client{
		Transport: transport,
		// A POST that follows a 301 becomes a GET; tell where the server moved instead.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Close drops the idle connections. Requests that run are not touched.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Address is the server's host and port, for people.
func (c *Client) Address() string { return c.base.Host }

func inContainer() bool {
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(mark); err == nil {
			return true
		}
	}
	return false
}

// send makes one HTTP request and returns a response of status 200, whose body
// the caller closes. model is for the errors, which are what fault makes of them.
func (c *Client) send(ctx context.Context, method, path, model string, body []byte) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base.JoinPath(path).String(), reader)
	if err != nil {
		return nil, fmt.Errorf("ollama: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "agentd")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer func() { _ = resp.Body.Close() }()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		return nil, c.fault(ctx, model, resp, text)
	}
	return resp, nil
}

// call is send for small requests: it decodes the answer into out. in may be nil.
func (c *Client) call(ctx context.Context, method, path, model string, in, out any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, controlTimeout, errSilent)
	defer cancel()
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("ollama: %w", err)
		}
	}
	resp, err := c.send(ctx, method, path, model, body)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	// /api/show of a large model is a few MB of tensors and licence.
	if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<20)).Decode(out); err != nil {
		return c.broken(ctx, fmt.Errorf("answer to %s: %w", path, err))
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4<<10)) // the rest, so that the connection is kept
	return nil
}
