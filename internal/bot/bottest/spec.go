package bottest

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Bot API 10.1 reduced to names, types and required (see spec_gen_test.go).
//
//go:embed api-10.1.json.gz
var specGz []byte

// spec is the reduced specification. Types are joined by "|" as in
// "Integer|String".
type spec struct {
	Version string                `json:"v"`
	Methods map[string]*specEntry `json:"m"`
	Types   map[string]*specEntry `json:"t"`
}

type specEntry struct {
	Returns string      `json:"r,omitempty"` // methods
	Union   string      `json:"u,omitempty"` // types: the members
	Fields  []specField `json:"f,omitempty"`
}

type specField struct {
	Name     string `json:"n"`
	Types    string `json:"t"`
	Required bool   `json:"q,omitempty"`
	Fixed    string `json:"x,omitempty"` // the only value, for type tags
}

// loadSpec unpacks the specification once a process; it is never written to.
var loadSpec = sync.OnceValues(func() (*spec, error) {
	zr, err := gzip.NewReader(bytes.NewReader(specGz))
	if err != nil {
		return nil, fmt.Errorf("bottest: specification: %w", err)
	}
	var sp spec
	if err := json.NewDecoder(zr).Decode(&sp); err != nil {
		return nil, fmt.Errorf("bottest: specification: %w", err)
	}
	return &sp, nil
})

func (e *specEntry) field(name string) *specField {
	i := slices.IndexFunc(e.Fields, func(f specField) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return &e.Fields[i]
}

// check compares a request with the specification. It returns the parameters
// in their own types (int64, float64, string, bool, []any, map[string]any,
// *Upload) and what is wrong with them, in a fixed order.
func (sp *spec) check(method *specEntry, in map[string]any) (map[string]any, []string) {
	out := make(map[string]any, len(in))
	var faults []string
	for i := range method.Fields {
		f := &method.Fields[i]
		v, present := in[f.Name]
		if !present || v == nil {
			if f.Required {
				faults = append(faults, f.Name+" is required")
			}
			continue
		}
		got, bad := sp.value(f.Name, f.Types, v, true)
		faults = append(faults, bad...)
		if len(bad) == 0 {
			out[f.Name] = got
		}
	}
	var unknown []string
	for name, v := range in {
		if _, isFile := v.(*Upload); !isFile && method.field(name) == nil {
			unknown = append(unknown, "unknown field "+name)
		}
	}
	slices.Sort(unknown)
	return out, append(faults, unknown...)
}

// value checks one value against alternatives. Loose values are what forms
// carry, and what the top level of a JSON body may carry too: numbers,
// booleans and JSON texts inside strings.
func (sp *spec) value(path, types string, v any, loose bool) (any, []string) {
	var fewest []string
	for typ := range strings.SplitSeq(types, "|") {
		got, bad := sp.one(path, typ, v, loose)
		if len(bad) == 0 {
			return got, nil
		}
		if fewest == nil || len(bad) < len(fewest) {
			fewest = bad
		}
	}
	return nil, fewest
}

func (sp *spec) one(path, typ string, v any, loose bool) (any, []string) {
	wrong := func() (any, []string) { return nil, []string{path + " must be of type " + typ} }
	switch typ {
	case "Integer":
		if n, ok := integer(v, loose); ok {
			return n, nil
		}
		return wrong()
	case "Float":
		if n, ok := float(v, loose); ok {
			return n, nil
		}
		return wrong()
	case "Boolean":
		if b, ok := boolean(v, loose); ok {
			return b, nil
		}
		return wrong()
	case "String":
		switch s := v.(type) {
		case string:
			return s, nil
		case formValue:
			return string(s), nil
		case json.Number:
			if loose {
				return s.String(), nil
			}
		}
		return wrong()
	case "InputFile":
		if up, ok := v.(*Upload); ok {
			return up, nil
		}
		return wrong()
	}
	if loose {
		v = embedded(v)
	}
	if elem, ok := strings.CutPrefix(typ, "Array of "); ok {
		return sp.array(path, elem, v)
	}
	return sp.object(path, typ, v)
}

func (sp *spec) array(path, elem string, v any) (any, []string) {
	list, ok := v.([]any)
	if !ok {
		return nil, []string{path + " must be an Array"}
	}
	out := make([]any, 0, len(list))
	var faults []string
	for i, x := range list {
		got, bad := sp.one(fmt.Sprintf("%s[%d]", path, i), elem, x, false)
		faults = append(faults, bad...)
		out = append(out, got)
	}
	return out, faults
}

func (sp *spec) object(path, typ string, v any) (any, []string) {
	e := sp.Types[typ]
	if e == nil {
		return nil, []string{path + " has the unknown type " + typ}
	}
	obj, isObject := v.(map[string]any)
	if e.Union != "" {
		return sp.value(path, sp.members(e, obj), v, false)
	}
	if !isObject {
		return nil, []string{path + " must be an object of type " + typ}
	}
	out := make(map[string]any, len(obj))
	var faults []string
	for i := range e.Fields {
		f := &e.Fields[i]
		x, present := obj[f.Name]
		if !present || x == nil {
			if f.Required {
				faults = append(faults, path+"."+f.Name+" is required")
			}
			continue
		}
		got, bad := sp.value(path+"."+f.Name, f.Types, x, false)
		if len(bad) == 0 && f.Fixed != "" && got != f.Fixed {
			bad = []string{fmt.Sprintf("%s.%s must be %q", path, f.Name, f.Fixed)}
		}
		faults = append(faults, bad...)
		out[f.Name] = got
	}
	var unknown []string
	for name := range obj {
		if e.field(name) == nil {
			unknown = append(unknown, "unknown field "+path+"."+name)
		}
	}
	slices.Sort(unknown)
	return out, append(faults, unknown...)
}

// members narrows a union to the members whose type tag fits the object, so
// that the complaint is about the member that was meant.
func (sp *spec) members(union *specEntry, obj map[string]any) string {
	var fit []string
	for name := range strings.SplitSeq(union.Union, "|") {
		e := sp.Types[name]
		if e == nil {
			continue
		}
		fits := !slices.ContainsFunc(e.Fields, func(f specField) bool { return f.Fixed != "" && obj[f.Name] != f.Fixed })
		if fits {
			fit = append(fit, name)
		}
	}
	if len(fit) == 0 {
		return union.Union
	}
	return strings.Join(fit, "|")
}

// minimal makes the smallest value of a type: required fields only.
func (sp *spec) minimal(types string) any {
	typ, _, _ := strings.Cut(types, "|")
	switch typ {
	case "Integer":
		return 0
	case "Float":
		return 0.0
	case "String":
		return ""
	case "Boolean":
		return true
	}
	if strings.HasPrefix(typ, "Array of ") {
		return []any{}
	}
	e := sp.Types[typ]
	if e == nil {
		return map[string]any{}
	}
	if e.Union != "" {
		return sp.minimal(e.Union)
	}
	obj := map[string]any{}
	for _, f := range e.Fields {
		if !f.Required {
			continue
		}
		if f.Fixed != "" {
			obj[f.Name] = f.Fixed
			continue
		}
		obj[f.Name] = sp.minimal(f.Types)
	}
	return obj
}

// formValue is a value that came as form or query text.
type formValue string

func integer(v any, loose bool) (int64, bool) {
	text, ok := numeral(v, loose)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

func float(v any, loose bool) (float64, bool) {
	text, ok := numeral(v, loose)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}

func numeral(v any, loose bool) (string, bool) {
	switch x := v.(type) {
	case json.Number:
		return x.String(), true
	case formValue:
		return strings.TrimSpace(string(x)), true
	case string:
		return strings.TrimSpace(x), loose
	}
	return "", false
}

func boolean(v any, loose bool) (value, ok bool) {
	var text string
	switch x := v.(type) {
	case bool:
		return x, true
	case formValue:
		text = string(x)
	case string:
		if !loose {
			return false, false
		}
		text = x
	default:
		return false, false
	}
	switch strings.ToLower(text) {
	case "true", "yes", "1":
		return true, true
	case "false", "no", "0", "":
		return false, true
	}
	return false, false
}

// embedded decodes a JSON text that stands inside a string, as forms send
// objects and arrays.
func embedded(v any) any {
	var text string
	switch x := v.(type) {
	case formValue:
		text = string(x)
	case string:
		text = x
	default:
		return v
	}
	out, err := decodeJSON([]byte(text))
	if err != nil {
		return v
	}
	return out
}

// decodeJSON decodes one value and nothing after it, keeping numbers exact.
func decodeJSON(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if dec.More() {
		return nil, fmt.Errorf("trailing data")
	}
	return v, nil
}
