package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"

	"signalbox/internal/text"
)

// MisfitError means that the arguments of a call do not fit the tool's input schema.
type MisfitError struct{ Why string }

func (e *MisfitError) Error() string { return "invalid arguments: " + e.Why }

func misfit(format string, args ...any) error { return &MisfitError{fmt.Sprintf(format, args...)} }

// Arguments checks those of one tool.
type Arguments struct {
	fits    *jsonschema.Resolved
	names   []string
	aliases map[string]string
}

// NewArguments makes the check. An alias is another name of an argument, which is taken as well.
func NewArguments(input *jsonschema.Schema, aliases map[string]string) (*Arguments, error) {
	fits, err := input.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		return nil, err
	}
	return &Arguments{fits, slices.Sorted(maps.Keys(input.Properties)), aliases}, nil
}

// Check returns the arguments with the defaults of the schema. The error is a *[MisfitError].
func (a *Arguments) Check(arguments json.RawMessage) (json.RawMessage, error) {
	given, exact := map[string]any{}, map[string]json.RawMessage{}
	if text := bytes.TrimSpace(arguments); len(text) > 0 && string(text) != "null" {
		if err := errors.Join(json.Unmarshal(text, &given), json.Unmarshal(text, &exact)); err != nil {
			return nil, misfit("the arguments are no JSON object")
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
	if err := a.fits.ApplyDefaults(&given); err != nil {
		return nil, misfit("%v", err)
	}
	if err := a.fits.Validate(given); err != nil {
		return nil, misfit("%v", err)
	}
	// Numbers stay as they were written: an amount of money does not become a float on its way.
	for name, value := range given {
		if _, written := exact[name]; !written {
			text, err := json.Marshal(value)
			if err != nil {
				return nil, misfit("%v", err)
			}
			exact[name] = text
		}
	}
	checked, err := json.Marshal(exact)
	if err != nil {
		return nil, misfit("%v", err)
	}
	return checked, nil
}

// unknown says that there is no argument of a name, and which one was perhaps meant.
func (a *Arguments) unknown(name string) error {
	shown := name
	if runes := []rune(name); len(runes) > 40 {
		shown = string(runes[:40]) + "…"
	}
	known, renamed := a.aliases[name]
	if renamed {
		return misfit("%q and %q are one argument: give one of them", shown, known)
	}
	if len(a.names) == 0 {
		return misfit("there is no argument %q: the tool takes none", shown)
	}
	nearest, least := "", 3
	for _, known := range a.names {
		distance := text.EditDistance(strings.ToLower(name), known)
		if begins(name, known) || begins(known, name) {
			distance = min(distance, 1)
		}
		if distance < least {
			nearest, least = known, distance
		}
	}
	if nearest != "" {
		return misfit("there is no argument %q: did you mean %q?", shown, nearest)
	}
	return misfit("there is no argument %q: there are %s", shown, strings.Join(a.names, ", "))
}

// begins tells whether a name begins with another as a word, as account_id does with account.
func begins(name, with string) bool {
	rest, found := strings.CutPrefix(name, with)
	return found && with != "" && rest != "" && !unicode.IsLetter(rune(rest[0]))
}

// Decode reads checked arguments. The error is a *[MisfitError].
func Decode[In any](checked json.RawMessage) (in In, err error) {
	decoder := json.NewDecoder(bytes.NewReader(checked))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&in); err != nil {
		return in, misfit("%v", err)
	}
	return in, nil
}
