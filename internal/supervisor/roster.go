package supervisor

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed roster/*.md
var builtin embed.FS

// SubAgent is somebody the supervisor may delegate to.
type SubAgent struct {
	Name        string   // lower-case letters, digits, - and _
	Description string   // for the supervisor's model: when to ask it
	Tools       []string // names; none means no tools
	MaxSteps    int      // 0 means agent.DefaultMaxSteps
	Model       string   // "" means the configured one
	Prompt      string   // its system text
}

var agentName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// maxSubAgent bounds a sub-agent's file, in bytes: more would leave the model no room.
const maxSubAgent = 64 << 10

// mostSteps is the largest max_steps, as AGENT_MAX_STEPS has it.
const mostSteps = 1000

// Roster gives the built-in sub-agents and those of own (nil: none), a folder of
// Markdown files with a front matter of name, description, tools, max_steps and
// model. One of own takes the place of a built-in one with the same name. known
// are the tools that exist. All faults are reported at once.
func Roster(own fs.FS, known []string) ([]SubAgent, error) {
	byName := map[string]SubAgent{}
	var faults []error
	for _, dir := range []fs.FS{builtin, own} {
		if dir == nil {
			continue
		}
		pattern := "*.md"
		if dir == fs.FS(builtin) {
			pattern = "roster/*.md"
		}
		files, err := fs.Glob(dir, pattern)
		if err != nil {
			return nil, err
		}
		from := map[string]string{} // this folder's files by name
		for _, f := range files {
			a, err := readSubAgent(dir, f, known)
			if first := from[a.Name]; err == nil && first != "" {
				err = fmt.Errorf("its name %q is that of %s", a.Name, first)
			}
			if err != nil {
				faults = append(faults, fmt.Errorf("sub-agent %s: %w", path.Base(f), err))
				continue
			}
			from[a.Name], byName[a.Name] = path.Base(f), a
		}
	}
	out := make([]SubAgent, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[name])
	}
	return out, errors.Join(faults...)
}

func readSubAgent(dir fs.FS, file string, known []string) (SubAgent, error) {
	info, err := fs.Stat(dir, file)
	switch {
	case err != nil:
		return SubAgent{}, err
	case !info.Mode().IsRegular(): // a pipe or a device may have no end
		return SubAgent{}, errors.New("it must be a file")
	case info.Size() > maxSubAgent:
		return SubAgent{}, fmt.Errorf("it must be at most %d KiB, not %d bytes", maxSubAgent>>10, info.Size())
	}
	text, err := fs.ReadFile(dir, file)
	if err != nil {
		return SubAgent{}, err
	}
	return parseSubAgent(string(text), known)
}

func parseSubAgent(text string, known []string) (a SubAgent, err error) {
	rest, ok := strings.CutPrefix(strings.ReplaceAll(text, "\r\n", "\n"), "---\n")
	head, body, found := strings.Cut(rest, "\n---\n")
	if !ok || !found {
		return a, errors.New(`it must begin with a front matter between two lines "---"`)
	}
	for line := range strings.Lines(head) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			return a, fmt.Errorf("%q is not of the form key: value", line)
		}
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		switch strings.TrimSpace(key) {
		case "name":
			a.Name = value
		case "description":
			a.Description = value
		case "model":
			a.Model = value
		case "max_steps":
			if a.MaxSteps, err = strconv.Atoi(value); err != nil || a.MaxSteps < 1 || a.MaxSteps > mostSteps {
				return a, fmt.Errorf("max_steps must be a number from 1 to %d, not %q", mostSteps, value)
			}
		case "tools":
			for name := range strings.SplitSeq(strings.Trim(value, "[]"), ",") {
				if name = strings.Trim(strings.TrimSpace(name), `"'`); name != "" {
					a.Tools = append(a.Tools, name)
				}
			}
		default:
			return a, fmt.Errorf("unknown key %q; known are name, description, tools, max_steps, model", key)
		}
	}
	a.Prompt = strings.TrimSpace(body)
	switch {
	case !agentName.MatchString(a.Name):
		return a, fmt.Errorf("name must be lower-case letters, digits, - and _, not %q", a.Name)
	case a.Description == "":
		return a, errors.New("description is missing: the supervisor chooses by it")
	case a.Prompt == "":
		return a, errors.New("the text below the front matter is missing: it is the agent's prompt")
	}
	for _, name := range a.Tools {
		if !slices.Contains(known, name) {
			return a, fmt.Errorf("there is no tool %q; there are: %s", name, strings.Join(known, ", "))
		}
	}
	return a, nil
}
