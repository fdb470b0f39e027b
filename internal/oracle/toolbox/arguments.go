package toolbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"signalbox/internal/text"
)

// maxNesting bounds the nesting of a tool's schema. Decoding one costs its size times its depth.
const maxNesting = 64

// maxShownSchema is how many bytes of an argument's schema an error shows.
const maxShownSchema = 300

// inputSchema is the JSON schema of a tool's arguments. The names of the arguments are checked
// here, to give hints; their values are checked by package jsonschema.
type inputSchema struct {
	properties map[string]json.RawMessage
	required   []string
	closed     bool // only the listed properties are allowed
}

// openKeywords are the keywords by which a schema can allow properties that it does not list.
var openKeywords = []string{"unevaluatedProperties", "patternProperties", "propertyNames", "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf",
	"not", "if", "dependentSchemas"}

func parseInputSchema(schema json.RawMessage) (*inputSchema, error) {
	s := &inputSchema{}
	if len(schema) == 0 {
		return s, nil
	}
	var keywords map[string]json.RawMessage
	if err := json.Unmarshal(schema, &keywords); err != nil {
		return nil, err
	}
	if nesting(schema) > maxNesting {
		return nil, fmt.Errorf("it is nested more than %d levels deep", maxNesting)
	}
	for keyword, value := range map[string]any{"properties": &s.properties,
		"required": &s.required} {
		if given, ok := keywords[keyword]; ok {
			if err := json.Unmarshal(given, value); err != nil {
				return nil, fmt.Errorf("%s: %w", keyword, err)
			}
		}
	}
	if additional, ok := keywords["additionalProperties"]; ok {
		s.closed = string(additional) == "false"
		return s, nil
	}
	// JSON Schema would allow other properties here. A simple schema rarely means that, and a
	// misspelt argument would be ignored without a word.
	s.closed = len(s.properties) > 0 &&
		!slices.ContainsFunc(openKeywords,
			func(keyword string) bool { _, ok := keywords[keyword]; return ok })
	return s, nil
}

// nesting returns how deeply the objects and arrays of a valid JSON text are nested.
func nesting(doc []byte) (deepest int) {
	depth, inString := 0, false
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case c == '\\': // only in strings
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// validator returns what checks the values of an argument, or nil if the tool must check them
// itself. That is the case for a schema with references, which may be remote, recursive or
// exponential (without them the cost is bounded by the size of the schema times that of the value),
// and for one that package jsonschema rejects, for instance because it has a regular expression
// that Go does not support.
func (s *inputSchema) validator(name string) *jsonschema.Resolved {
	var schema *jsonschema.Schema
	if json.Unmarshal(s.properties[name], &schema) != nil || schema == nil {
		return nil
	}
	normalized, err := json.Marshal(schema) // without escapes that could hide a keyword
	if err != nil || bytes.Contains(normalized, []byte(`"$ref":`)) ||
		bytes.Contains(normalized, []byte(`"$dynamicRef":`)) {
		return nil
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return nil
	}
	return resolved
}

// checkArguments returns the arguments of a call if they match the tool's schema. The error tells
// the model which argument is wrong and what to write. Missing arguments mean an empty object.
// Models often pass null for an optional argument: it is removed, unless the schema allows it.
func checkArguments(schema, arguments json.RawMessage) (json.RawMessage, error) {
	s, err := parseInputSchema(schema)
	if err != nil {
		return nil, fmt.Errorf(
			"the tool's own schema is not usable (%w); continue without this tool", err)
	}
	arguments = bytes.TrimSpace(arguments)
	if len(arguments) == 0 || string(arguments) == "null" {
		arguments = []byte("{}")
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(arguments, &given); err != nil {
		if json.Valid(arguments) {
			return nil, fmt.Errorf("the arguments must be a JSON object; %s", s.usage())
		}
		return nil, fmt.Errorf("the arguments are not valid JSON (%w); %s", err, s.usage())
	}
	removed := false
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, known := s.properties[name]; !known {
			if s.closed {
				return nil, s.unknownArgument(name)
			}
			continue
		}
		validator := s.validator(name)
		if validator == nil {
			continue
		}
		var value any
		err := json.Unmarshal(given[name], &value)
		if err == nil {
			err = validator.Validate(value)
		}
		if err != nil && value == nil && string(given[name]) == "null" {
			delete(given, name)
			removed = true
		} else if err != nil {
			why := text.Shorten(strings.TrimPrefix(err.Error(), "validating root: "),
				maxShownSchema)
			return nil, fmt.Errorf("argument %q is not valid: %s; its schema is %s", name, why,
				s.shown(name))
		}
	}
	for _, name := range s.required {
		if _, ok := given[name]; !ok {
			return nil, fmt.Errorf("argument %q is required; its schema is %s", name, s.shown(name))
		}
	}
	if !removed {
		return arguments, nil
	}
	return json.Marshal(given)
}

func (s *inputSchema) unknownArgument(name string) error {
	if closest := text.Closest(name, slices.Sorted(maps.Keys(s.properties))); closest != "" {
		return fmt.Errorf("unknown argument %.60q, did you mean %q? %s", name, closest, s.usage())
	}
	return fmt.Errorf("unknown argument %.60q; %s", name, s.usage())
}

// usage lists the arguments, required ones first.
func (s *inputSchema) usage() string {
	if len(s.properties) == 0 {
		if s.closed {
			return "the tool takes no arguments"
		}
		return "an empty object is {}"
	}
	var required, optional []string
	for _, name := range slices.Sorted(maps.Keys(s.properties)) {
		if slices.Contains(s.required, name) {
			required = append(required, name+" (required)")
		} else {
			optional = append(optional, name)
		}
	}
	return "the tool takes " + strings.Join(append(required, optional...), ", ")
}

// shown returns the schema of an argument for an error message.
func (s *inputSchema) shown(name string) string {
	schema, ok := s.properties[name]
	if !ok {
		return "not given"
	}
	return text.Shorten(string(schema), maxShownSchema)
}

// decode decodes the arguments of a built-in tool, which checkArguments has checked.
func decode[In any](arguments json.RawMessage) (in In, err error) {
	if len(bytes.TrimSpace(arguments)) == 0 {
		return in, nil
	}
	if err := json.Unmarshal(arguments, &in); err != nil {
		return in, fmt.Errorf("bad arguments: %w", err)
	}
	return in, nil
}

// integer is an int that may also be written as 3.0 or 3e1 in JSON. Values outside the range of an
// int32 are clamped.
type integer int

// UnmarshalJSON implements [json.Unmarshaler].
func (n *integer) UnmarshalJSON(doc []byte) error {
	var value float64
	if err := json.Unmarshal(doc, &value); err != nil {
		return err
	}
	if value != math.Trunc(value) {
		return errors.New("not an integer")
	}
	*n = integer(max(min(value, math.MaxInt32), math.MinInt32))
	return nil
}
