package textcall

import "bytes"

// harmony judges a header of gpt-oss: <|start|>assistant<|channel|>final<|message|>.
func (f *Filter) harmony() (verdict, int) {
	n, open := oneOf(f.in, []string{"<|start|>", "<|channel|>"})
	switch {
	case open:
		return unclear, 0
	case n == 0 || !f.placed(true):
		return isPlain, 0
	}
	head, _, ended := bytes.Cut(f.in[:min(len(f.in), undecided)], []byte("<|message|>"))
	switch {
	case bytes.Contains(head, []byte("to=")):
		return isCall, 0
	case !ended && len(f.in) < undecided:
		return unclear, 0
	case !ended:
		return isPlain, 0
	}
	n = len(head) + len("<|message|>")
	if bytes.Contains(head, []byte("analysis")) {
		f.kind = harmonyThought
		return isOpening, n
	}
	return isNoise, n
}

// bareAnalysis judges what is left of harmony's thoughts when a server drops its
// tokens: "analysisWe need … assistantfinalfour" (C084).
func bareAnalysis(in []byte) verdict {
	const name = "analysis"
	m := min(len(in), len(name))
	switch {
	case string(in[:m]) != name[:m]:
		return isPlain
	case len(in) == m:
		return unclear
	case in[m] >= 'A' && in[m] <= 'Z':
		return isOpening
	}
	return isPlain
}

// header gives the length of the header of harmony that in begins with.
func header(in []byte) int {
	if n, _ := oneOf(in, []string{"<|start|>", "<|channel|>"}); n == 0 {
		return 0
	}
	head, _, ok := bytes.Cut(in[:min(len(in), undecided)], []byte("<|message|>"))
	if !ok {
		return 0
	}
	return len(head) + len("<|message|>")
}

// harmony reads the calls of gpt-oss, also with its tokens dropped (C084):
// <|channel|>commentary to=functions.name <|constrain|>json<|message|>{…}<|call|>.
func (r *reader) harmony(in []byte) ([]Call, int) {
	var calls []Call
	end := 0
	for {
		head := header(in[end:])
		i := bytes.Index(in[end:min(len(in), end+max(head, undecided))], []byte("to="))
		if i < 0 || head > 0 && i > head || head == 0 && end > 0 {
			return calls, end
		}
		at := end + i + len("to=")
		name := toolName(in[at:])
		if name == "assistant" { // an invented result
			return calls, end
		}
		if at += len(name); head > 0 {
			at = end + head
		} else if at = skip(in, at); bytes.HasPrefix(in[at:], []byte("json")) {
			at += len("json")
		}
		found, n := r.arguments(in, separator(in, at), name)
		if n == 0 {
			return calls, end
		}
		calls = append(calls, found...)
		end = trailer(in, n)
	}
}
