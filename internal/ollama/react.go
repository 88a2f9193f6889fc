package ollama

import (
	"encoding/json"
	"strings"

	"agentd/internal/agent"
	"agentd/internal/agent/textcall"
)

// stops are the strings that end an answer before the model invents a tool's result (C085).
func stops() json.RawMessage {
	b, _ := json.Marshal(textcall.Stops()) // strings always encode
	return b
}

// inProtocol writes a history for a model without tool calls (C018): the tools
// stand in the system text, calls and results are ReAct's text protocol. The
// loop reads the model's side of it, as it reads calls that leak.
func inProtocol(history []agent.Message, specs []agent.Spec) []agent.Message {
	tools := make([]textcall.Tool, len(specs))
	for i, s := range specs {
		tools[i] = textcall.Tool{Name: s.Name, Description: s.Description, Schema: s.Schema}
	}
	out := make([]agent.Message, 0, len(history)+1)
	if len(history) == 0 || history[0].Role != agent.System {
		out = append(out, agent.TextMessage(agent.System, textcall.Prompt(tools)))
	}
	for i, m := range history {
		switch {
		case i == 0 && m.Role == agent.System:
			out = append(out, agent.TextMessage(agent.System, m.Text()+"\n\n"+textcall.Prompt(tools)))
		case m.Role == agent.ToolRole:
			out = append(out, observations(m))
		case len(m.Calls()) > 0:
			var calls []textcall.Call
			for _, c := range m.Calls() {
				calls = append(calls, textcall.Call{Name: c.Name, Args: c.Args})
			}
			out = append(out, agent.TextMessage(agent.Assistant, textcall.Action(m.Text(), calls)))
		default:
			out = append(out, m)
		}
	}
	return out
}

func observations(m agent.Message) agent.Message {
	var lines []string
	for _, p := range m.Parts {
		if p.Result != nil {
			lines = append(lines, textcall.Observation(resultMessage(p.Result, false).Content))
		}
	}
	return agent.TextMessage(agent.User, strings.Join(lines, "\n"))
}
