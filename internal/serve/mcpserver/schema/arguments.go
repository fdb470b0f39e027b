package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"signalbox/internal/text"
)

// ArgumentError means that the arguments of a call do not match the tool's input schema.
type ArgumentError struct{ Reason string }

func (e *ArgumentError) Error() string { return "invalid arguments: " + e.Reason }

func invalid(format string,
	args ...any) error {
	return &ArgumentError{fmt.Sprintf(format, args...)}
}

// Arguments checks the arguments of a tool.
type Arguments struct {
	schema  *jsonschema.Resolved
	names   []string
	aliases map[string]string
}

// NewArguments returns the Arguments of a tool. aliases maps alternative names to argument names.
func NewArguments(input *jsonschema.Schema, aliases map[string]string) (*Arguments, error) {
	resolved, err := input.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		return nil, err
	}
	return &Arguments{resolved, slices.Sorted(maps.Keys(input.Properties)), aliases}, nil
}

// Check validates arguments and returns them with defaults filled in. The error is a
// *[ArgumentError].
func (a *Arguments) Check(arguments json.RawMessage) (json.RawMessage, error) {
	given, exact := map[string]any{}, map[string]json.RawMessage{}
	if text := bytes.TrimSpace(arguments); len(text) > 0 && string(text) != "null" {
		if err := errors.Join(json.Unmarshal(text, &given),
			json.Unmarshal(text, &exact)); err != nil {
			return nil, invalid("the arguments must be a JSON object")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(a.names, name) {
			continue
		}
		known, renamed := a.aliases[name]
		if _, both := given[known]; !renamed || both {
			return nil, a.unknown(name)
		}
		given[known], exact[known] = given[name], exact[name]
		delete(given, name)
		delete(exact, name)
	}
	for name, value := range given {
		// null is the same as absent: many clients send it for arguments that they do not set
		if value == nil {
			delete(given, name)
			delete(exact, name)
		}
	}
	if err := a.schema.ApplyDefaults(&given); err != nil {
		return nil, invalid("%v", err)
	}
	if err := a.schema.Validate(given); err != nil {
		return nil, invalid("%v", err)
	}
	// Numbers keep their spelling: an amount of money must not be rounded to a float.
	for name, value := range given {
		if _, written := exact[name]; !written {
			text, err := json.Marshal(value)
			if err != nil {
				return nil, invalid("%v", err)
			}
			exact[name] = text
		}
	}
	checked, err := json.Marshal(exact)
	if err != nil {
		return nil, invalid("%v", err)
	}
	return checked, nil
}

// unknown returns the error for an unknown argument, with a suggestion.
func (a *Arguments) unknown(name string) error {
	shown := text.Shorten(name, 40)
	if known, ok := a.aliases[name]; ok {
		return invalid("%q and %q are the same argument: use one of them", shown, known)
	}
	if len(a.names) == 0 {
		return invalid("unknown argument %q: the tool takes no arguments", shown)
	}
	if closest := text.Closest(name, a.names); closest != "" {
		return invalid("unknown argument %q: did you mean %q?", shown, closest)
	}
	return invalid("unknown argument %q: the tool takes %s", shown, strings.Join(a.names, ", "))
}

// Decode decodes checked arguments. The error is a *[ArgumentError].
func Decode[In any](checked json.RawMessage) (in In, err error) {
	decoder := json.NewDecoder(bytes.NewReader(checked))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&in); err != nil {
		return in, invalid("%v", err)
	}
	return in, nil
}
