package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// simplify takes from an inferred schema what costs the model tokens and says
// nothing to it, and refuses what repair does not know.
func simplify(s *jsonschema.Schema) error {
	if len(s.Types) == 2 && s.Types[0] == "null" { // null is absent to repair, everywhere
		s.Type, s.Types = s.Types[1], nil
	}
	if !slices.Contains([]string{"string", "boolean", "integer", "number", "array", "object"}, s.Type) || s.MinItems != nil {
		return errors.New("a parameter has a type without a plain schema (any, or an array of fixed length)")
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Not != nil { // a struct: "no others" only costs bytes
		s.AdditionalProperties = nil
	}
	for _, child := range children(s) {
		if err := simplify(child); err != nil {
			return err
		}
	}
	return nil
}

func children(s *jsonschema.Schema) []*jsonschema.Schema {
	all := slices.Collect(maps.Values(s.Properties))
	for _, child := range []*jsonschema.Schema{s.Items, s.AdditionalProperties} {
		if child != nil {
			all = append(all, child)
		}
	}
	return all
}

// repair returns the arguments in raw as an object that fits the schema. It
// drops what the schema does not know and changes a value only where its meaning
// is plain (case C079); every other fault is named in the error, all at once.
func repair(schema *jsonschema.Schema, raw json.RawMessage) (map[string]any, error) {
	value, err := decode(raw)
	if err != nil {
		return nil, fmt.Errorf("the arguments are not valid JSON; expected %s", expected(schema))
	}
	if value == nil {
		value = map[string]any{} // as some models call a tool without parameters
	}
	var m mender
	object, _ := m.mend("", schema, value).(map[string]any)
	if len(m.faults) > 0 {
		return nil, errors.New(strings.Join(m.faults, "; "))
	}
	return object, nil
}

// decode reads one JSON value; numbers keep their digits.
func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	err := d.Decode(&value)
	if errors.Is(err, io.EOF) {
		return nil, nil // nothing at all
	}
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return value, nil
}

// mender walks a value along a schema and collects what does not fit.
type mender struct{ faults []string }

func (m *mender) fault(path string, s *jsonschema.Schema, got any) {
	if path == "" {
		path = "arguments"
	}
	m.faults = append(m.faults, fmt.Sprintf("%s: expected %s, got %s", path, expected(s), describe(got)))
}

func (m *mender) mend(path string, s *jsonschema.Schema, value any) any {
	if text, ok := value.(string); ok && (s.Type == "object" || s.Type == "array") {
		if inner, err := decode([]byte(text)); err == nil && inner != nil { // JSON inside a string
			value = inner
		}
	}
	ok := false
	switch s.Type {
	case "object":
		if object, is := value.(map[string]any); is {
			return m.mendObject(path, s, object)
		}
	case "array":
		if list, is := value.([]any); is {
			for i := range list {
				list[i] = m.mend(fmt.Sprintf("%s[%d]", path, i), s.Items, list[i])
			}
			return list
		}
	case "string":
		value, ok = mendString(value)
	case "boolean":
		value, ok = mendBool(value)
	case "integer", "number":
		value, ok = mendNumber(s, value)
	}
	if !ok {
		m.fault(path, s, value)
	}
	return value
}

func (m *mender) mendObject(path string, s *jsonschema.Schema, object map[string]any) any {
	if s.AdditionalProperties != nil { // a map
		for _, name := range slices.Sorted(maps.Keys(object)) {
			object[name] = m.mend(join(path, name), s.AdditionalProperties, object[name])
		}
		return object
	}
	known := make(map[string]any, len(s.Properties))
	for _, name := range s.PropertyOrder {
		value := object[name]
		switch {
		case value != nil:
			known[name] = m.mend(join(path, name), s.Properties[name], value)
		case slices.Contains(s.Required, name):
			m.faults = append(m.faults, fmt.Sprintf("%s: missing, expected %s", join(path, name), expected(s.Properties[name])))
		}
	}
	return known
}

func mendString(value any) (any, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return value, false
}

func mendBool(value any) (any, bool) {
	switch v := value.(type) {
	case bool:
		return v, true
	case string:
		switch strings.ToLower(strings.TrimSpace(v)) {
		case "true":
			return true, true
		case "false":
			return false, true
		}
	}
	return value, false
}

// mendNumber also brings whole numbers such as 5.0 and 1e3 into the form that Go
// integers are read from, and checks the bounds of the Go type.
func mendNumber(s *jsonschema.Schema, value any) (any, bool) {
	text := ""
	switch v := value.(type) {
	case json.Number:
		text = v.String()
	case string:
		number, err := decode([]byte(strings.TrimPrefix(strings.TrimSpace(v), "+")))
		n, ok := number.(json.Number)
		if err != nil || !ok {
			return value, false
		}
		text = n.String()
	default:
		return value, false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || s.Minimum != nil && f < *s.Minimum || s.Maximum != nil && f > *s.Maximum {
		return value, false
	}
	if s.Type == "integer" {
		const exact = 1 << 53 // beyond it a float has lost digits
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			text = strconv.FormatInt(n, 10)
		} else if _, err := strconv.ParseUint(text, 10, 64); err == nil {
			return json.Number(text), true
		} else if f == math.Trunc(f) && math.Abs(f) <= exact {
			text = strconv.FormatInt(int64(f), 10)
		} else {
			return value, false
		}
	}
	return json.Number(text), true
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// expected says what a value must be, in words.
func expected(s *jsonschema.Schema) string {
	switch s.Type {
	case "boolean":
		return "true or false"
	case "integer":
		switch {
		case s.Minimum != nil && s.Maximum != nil:
			return fmt.Sprintf("a whole number from %.0f to %.0f", *s.Minimum, *s.Maximum)
		case s.Minimum != nil:
			return fmt.Sprintf("a whole number, %.0f or more", *s.Minimum)
		}
		return "a whole number"
	case "number":
		return "a number"
	case "array":
		return "a JSON array, each item " + expected(s.Items)
	case "object":
		if len(s.PropertyOrder) == 0 {
			return "a JSON object"
		}
		return "a JSON object with " + strings.Join(s.PropertyOrder, ", ")
	}
	return "a string"
}

// describe says what a value is, briefly: it may be a page long.
func describe(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "a JSON object"
	case []any:
		return "a JSON array"
	case string:
		if runes := []rune(v); len(runes) > 40 {
			return fmt.Sprintf("a string of %d characters", len(runes))
		}
		return strconv.Quote(v)
	}
	return fmt.Sprint(value)
}

// cut shortens what a model wrote to what an error can show.
func cut(text string) string {
	if runes := []rune(text); len(runes) > 40 {
		return string(runes[:40]) + "…"
	}
	return text
}

// refuse words what only Go's decoder found: a whole number beyond the range of
// the parameter, or text that a type of its own does not read.
func refuse(schema *jsonschema.Schema, err error) error {
	var bad *json.UnmarshalTypeError
	if errors.As(err, &bad) && bad.Field != "" {
		return fmt.Errorf("%s: expected a whole number that is not that large", bad.Field)
	}
	return fmt.Errorf("arguments: expected %s; one of them cannot be read", expected(schema))
}
