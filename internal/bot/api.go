package bot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"agentd/internal/agent"
)

const (
	publicServer = "https://api.telegram.org"
	callTimeout  = 30 * time.Second // one call, but for getUpdates
	maxConns     = 64               // to the server, besides the poll's
	maxUpdates   = 64 << 20         // bytes of a getUpdates answer
	maxAnswer    = 4 << 20          // bytes of any other

	longestPenalty = 24 * 60 * 60 // seconds that we wait because we are told to
)

// api speaks the Bot API: a POST of JSON for each call. The library is used for
// its types only: its requests cannot tell a call that surely failed from one that
// may have been done, put whole answers into errors, and lack the newer methods.
//
// The token is a part of every URL, so no error leaves api with a URL in it.
type api struct {
	scheme, host, path string // path ends before the method's name
	token              string
	poll               *http.Client // getUpdates alone: a stuck poll never holds up an answer
	send               *http.Client
}

func newAPI(cfg Config) (*api, error) {
	server := cfg.URL
	if server == "" {
		server = publicServer
	}
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, errors.New("bot: the Bot API server's URL must look like https://host[:port]")
	}
	var proxy func(*http.Request) (*url.URL, error)
	if cfg.Proxy != "" {
		p, err := url.Parse(cfg.Proxy)
		if err != nil || p.Host == "" { // err holds the URL, which may hold a password
			return nil, errors.New("bot: the proxy's URL must look like socks5://host:port or http://host:port")
		}
		proxy = http.ProxyURL(p)
	}
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{ // races the address families by itself
			Timeout:         10 * time.Second,
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
		}).DialContext
	}
	client := func(conns int) *http.Client {
		// HTTP/1.1 alone: over one shared HTTP/2 connection, a half-open one would
		// stall every chat at once.
		var rt http.RoundTripper = &http.Transport{
			Proxy:               proxy,
			DialContext:         dial,
			TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConns:        conns,
			MaxIdleConnsPerHost: conns,
			MaxConnsPerHost:     conns,
			// Shorter than servers keep them: a POST that meets a closing
			// connection has an unknown outcome.
			IdleConnTimeout: 45 * time.Second,
		}
		if cfg.Wrap != nil {
			rt = cfg.Wrap(rt)
		}
		return &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the body and the token go nowhere else
		}}
	}
	return &api{
		scheme: u.Scheme, host: u.Host, path: strings.TrimRight(u.Path, "/") + "/bot" + cfg.Token + "/",
		token: cfg.Token, poll: client(2), send: client(maxConns),
	}, nil
}

// APIError is an answer {"ok":false,…}: what was asked for was surely not done.
type APIError struct {
	Method      string
	Code        int    // error_code, as HTTP's
	Description string // Telegram's, in English
	RetryAfter  time.Duration
	MigrateTo   int64 // the supergroup that the group became
}

func (e *APIError) Error() string {
	return fmt.Sprintf("%s: %d %s", e.Method, e.Code, e.Description)
}

// callError is a call without a Bot API answer.
type callError struct {
	method  string
	status  int  // of an answer that is not the Bot API's, as a proxy's page; 0 no answer
	reached bool // the request got a connection, so the server may have seen it
	err     error
}

func (e *callError) Error() string {
	if e.status != 0 {
		return fmt.Sprintf("%s: HTTP %d and not a Bot API answer: %v", e.method, e.status, e.err)
	}
	return fmt.Sprintf("%s: %v", e.method, e.err)
}

func (e *callError) Unwrap() error { return e.err }

// surelyFailed says that the call changed nothing: it was refused, or nothing of
// it was written. Otherwise (a time-out, a cut, a gateway's 5xx page) nobody knows.
func surelyFailed(err error) bool {
	if refused := (*APIError)(nil); errors.As(err, &refused) {
		return true
	}
	if call := (*callError)(nil); errors.As(err, &call) {
		return !call.reached || call.status/100 == 4
	}
	return false
}

// call posts params (nil, something for json.Marshal, or JSON as json.RawMessage)
// and decodes the result into out unless it is nil. It takes 30 s at most. Its
// errors are *APIError and *callError.
func (a *api) call(ctx context.Context, method string, params, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := a.exchange(ctx, a.send, maxAnswer, method, params, out)
	if errors.Is(err, context.DeadlineExceeded) {
		a.send.CloseIdleConnections() // the others may be half-open as well
	}
	return err
}

// post sends a stored payload to an address and gives the id of the message
// that resulted, 0 for calls that make none.
func (a *api) post(ctx context.Context, to agent.Address, out outgoing) (int64, error) {
	var result json.RawMessage
	if err := a.call(ctx, out.Method, out.addressed(to), &result); err != nil {
		return 0, err
	}
	var m struct {
		ID int64 `json:"message_id"`
	}
	_ = json.Unmarshal(result, &m) // true instead of a message: no id
	return m.ID, nil
}

// updates asks for what came since offset and waits for it up to wait.
func (a *api) updates(ctx context.Context, offset int64, wait time.Duration) ([]json.RawMessage, error) {
	// The poll's hard end: a connection that is half-open never answers.
	ctx, cancel := context.WithTimeout(ctx, wait+15*time.Second)
	defer cancel()
	params := fmt.Appendf(nil, `{"offset":%d,"timeout":%d,"allowed_updates":%s}`, offset, int(wait/time.Second), allowedUpdates)
	var out []json.RawMessage
	err := a.exchange(ctx, a.poll, maxUpdates, "getUpdates", json.RawMessage(params), &out)
	if err != nil {
		a.poll.CloseIdleConnections() // the next poll takes a new connection
	}
	return out, err
}

func (a *api) exchange(ctx context.Context, client *http.Client, limit int64, method string, params, out any) error {
	body, err := encodeParams(params)
	if err != nil {
		return &callError{method: method, err: err}
	}
	// net/http repeats a POST by itself only when nothing of it was written, so
	// each GetConn begins with a clean slate. GotConn counts, not WroteHeaders: a
	// cancelled call may still be written after Do has returned.
	var reached atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { reached.Store(false) },
		GotConn: func(httptrace.GotConnInfo) { reached.Store(true) },
	})
	req := (&http.Request{
		Method: http.MethodPost,
		URL:    &url.URL{Scheme: a.scheme, Host: a.host, Path: a.path + method},
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}).WithContext(ctx)
	resp, err := client.Do(req)
	if err != nil {
		return &callError{method: method, reached: reached.Load(), err: a.clean(err)}
	}
	data, err := readAll(resp, limit)
	if err != nil {
		return &callError{method: method, reached: true, err: a.clean(err)}
	}
	return a.decode(method, resp, data, out)
}

func (a *api) decode(method string, resp *http.Response, data []byte, out any) error {
	var r struct {
		OK          bool            `json:"ok"`
		Result      json.RawMessage `json:"result"`
		Code        int             `json:"error_code"`
		Description string          `json:"description"`
		Parameters  struct {
			RetryAfter int64 `json:"retry_after"`
			MigrateTo  int64 `json:"migrate_to_chat_id"`
		} `json:"parameters"`
	}
	if err := json.Unmarshal(data, &r); err != nil || !r.OK && r.Code == 0 {
		err := errors.New(http.StatusText(resp.StatusCode)) // never the page: it may repeat the URL
		return &callError{method: method, status: resp.StatusCode, reached: true, err: err}
	}
	if !r.OK {
		return &APIError{
			Method: method, Code: r.Code, Description: a.redact(r.Description),
			RetryAfter: time.Duration(min(max(r.Parameters.RetryAfter, 0), longestPenalty)) * time.Second, MigrateTo: r.Parameters.MigrateTo,
		}
	}
	if out == nil {
		return nil
	}
	if raw, ok := out.(*json.RawMessage); ok {
		*raw = r.Result
		return nil
	}
	if err := json.Unmarshal(r.Result, out); err != nil {
		return &callError{method: method, reached: true, err: a.clean(err)}
	}
	return nil
}

// clean frees an error of the URL, and with it of the token.
func (a *api) clean(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	if text := err.Error(); a.redact(text) != text {
		return errors.New(a.redact(text))
	}
	return err
}

// redact takes the token and its secret half out of a text.
func (a *api) redact(text string) string {
	_, secret, found := strings.Cut(a.token, ":")
	if !found || secret == "" {
		secret = a.token
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, a.token, "[redacted]"), secret, "[redacted]")
}

func encodeParams(params any) ([]byte, error) {
	switch p := params.(type) {
	case nil:
		return []byte("{}"), nil
	case json.RawMessage:
		return p, nil
	default:
		return json.Marshal(p)
	}
}

func readAll(resp *http.Response, limit int64) ([]byte, error) {
	defer func() { _ = resp.Body.Close() }()
	var b bytes.Buffer
	if n := resp.ContentLength; n > 0 && n <= limit {
		b.Grow(int(n) + bytes.MinRead)
	}
	n, err := b.ReadFrom(io.LimitReader(resp.Body, limit+1))
	if err == nil && n > limit {
		err = errors.New("the answer is over " + strconv.FormatInt(limit>>20, 10) + " MiB")
	}
	return b.Bytes(), err
}
