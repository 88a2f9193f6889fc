package ollama

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ollama/ollama/api"
	"github.com/ollama/ollama/types/model"

	"agentd/internal/agent"
)

// known is what the server said of a model.
type known struct {
	chat    bool // it answers; false for models that only embed
	tools   bool
	vision  bool
	context int       // the longest prompt it was made for, tokens; 0 unknown
	until   time.Time // believed no longer
}

// Model is an installed model.
type Model struct {
	Name         string
	Size         int64 // bytes on disk
	Parameters   string
	Quantization string
	Context      int // tokens that it was made for; 0 unknown
	Chat         bool
	Tools        bool
	Vision       bool
}

// Loaded is a model in the server's memory.
type Loaded struct {
	Name    string
	Size    int64     // bytes in memory
	VRAM    float64   // share of Size on a graphics card, 0 to 1
	Context int       // tokens that it was loaded with
	Expires time.Time // when the server unloads it
}

// Resolve returns the model for requests that name none: the configured one,
// else the chosen one, else the only chat model that is installed. Else it is a
// Fault, FaultNoModel.
func (c *Client) Resolve(ctx context.Context) (string, error) {
	if c.config.Model != "" {
		return c.config.Model, nil
	}
	if c.config.Choose != nil {
		if name, err := c.config.Choose(ctx); err != nil || name != "" {
			return name, err
		}
	}
	c.mu.Lock()
	only, until := c.only, c.onlyTil
	c.mu.Unlock()
	if only != "" && time.Now().Before(until) {
		return only, nil
	}
	installed, err := c.Installed(ctx)
	if err != nil {
		return "", err
	}
	var chat []string
	for _, m := range installed {
		if m.Chat {
			chat = append(chat, m.Name)
		}
	}
	if len(chat) != 1 {
		return "", &agent.Fault{Code: agent.FaultNoModel, Args: map[string]string{"installed": strings.Join(chat, ", ")}}
	}
	c.mu.Lock()
	c.only, c.onlyTil = chat[0], time.Now().Add(modelTTL)
	c.mu.Unlock()
	return chat[0], nil
}

// Limits returns the context of requests to a model, in tokens: prompt and answer
// must fit into it. model "" is the one that Resolve gives.
func (c *Client) Limits(ctx context.Context, model string) (int, error) {
	if model == "" {
		var err error
		if model, err = c.Resolve(ctx); err != nil {
			return 0, err
		}
	}
	info, err := c.known(ctx, model)
	if err != nil {
		return 0, err
	}
	return c.numCtx(info), nil
}

// numCtx is the num_ctx of all requests to a model. More than the model was made
// for would be cut down by the server without a word.
func (c *Client) numCtx(info known) int {
	n := c.config.NumCtx
	if n == 0 {
		n = defaultNumCtx
	}
	if info.context > 0 {
		n = min(n, info.context)
	}
	return n
}

// known asks the server about a model, or remembers what it said.
func (c *Client) known(ctx context.Context, name string) (known, error) {
	c.mu.Lock()
	info, ok := c.models[name]
	c.mu.Unlock()
	if ok && time.Now().Before(info.until) {
		return info, nil
	}
	var show api.ShowResponse
	err := c.call(ctx, http.MethodPost, "/api/show", name, api.ShowRequest{Model: name}, &show)
	var f *agent.Fault
	switch {
	case err == nil:
		info = understand(name, &show)
	case errors.As(err, &f) && f.Code == agent.FaultModelRefused:
		info = known{chat: true, tools: true, vision: true} // a proxy that lets only /api/chat through
	default:
		return known{}, err
	}
	c.remember(name, info)
	return info, nil
}

// understand reads an answer of /api/show. Servers before 0.6.4 list no
// capabilities: then the family tells embedding models apart, and the rest is
// tried.
func understand(name string, show *api.ShowResponse) known {
	info := known{chat: true, tools: true, vision: true}
	if caps := show.Capabilities; len(caps) > 0 {
		info.chat = slices.Contains(caps, model.CapabilityCompletion)
		info.tools = slices.Contains(caps, model.CapabilityTools)
		info.vision = slices.Contains(caps, model.CapabilityVision)
	} else if strings.Contains(show.Details.Family, "bert") || strings.Contains(name, "embed") {
		info.chat = false
	}
	if arch, ok := show.ModelInfo["general.architecture"].(string); ok {
		if n, ok := show.ModelInfo[arch+".context_length"].(float64); ok {
			info.context = int(n)
		}
	}
	return info
}

func (c *Client) remember(name string, info known) {
	info.until = time.Now().Add(modelTTL)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.models[name] = info
}

// forget drops what is known of a model, or of all: the server may be another.
func (c *Client) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.only = ""
	if name == "" {
		clear(c.models)
	} else {
		delete(c.models, name)
	}
}

// Installed lists the installed models as the server does, the newest first.
func (c *Client) Installed(ctx context.Context) ([]Model, error) {
	var list api.ListResponse
	if err := c.call(ctx, http.MethodGet, "/api/tags", "", nil, &list); err != nil {
		return nil, err
	}
	models := make([]Model, 0, len(list.Models))
	for _, m := range list.Models {
		info, err := c.known(ctx, m.Name)
		if f := (*agent.Fault)(nil); errors.As(err, &f) && f.Code == agent.FaultModelAbsent {
			continue // removed just now
		} else if err != nil {
			return nil, err
		}
		models = append(models, Model{
			Name: m.Name, Size: m.Size, Parameters: m.Details.ParameterSize, Quantization: m.Details.QuantizationLevel,
			Context: info.context, Chat: info.chat, Tools: info.chat && info.tools, Vision: info.chat && info.vision,
		})
	}
	return models, nil
}

// Running lists the models in the server's memory.
func (c *Client) Running(ctx context.Context) ([]Loaded, error) {
	var list api.ProcessResponse
	if err := c.call(ctx, http.MethodGet, "/api/ps", "", nil, &list); err != nil {
		return nil, err
	}
	models := make([]Loaded, 0, len(list.Models))
	for _, m := range list.Models {
		l := Loaded{Name: m.Name, Size: m.Size, Context: m.ContextLength, Expires: m.ExpiresAt}
		if m.Size > 0 {
			l.VRAM = float64(m.SizeVRAM) / float64(m.Size)
		}
		models = append(models, l)
	}
	return models, nil
}

// Version returns the server's version; also a cheap way to learn whether it is
// there.
func (c *Client) Version(ctx context.Context) (string, error) {
	var v struct{ Version string }
	err := c.call(ctx, http.MethodGet, "/api/version", "", nil, &v)
	return v.Version, err
}
