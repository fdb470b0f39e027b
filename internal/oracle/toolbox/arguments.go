package toolbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"signalbox/internal/text"
)

// form is as much of a JSON schema as is checked here. What it does not know, or is written in another way, allows
// everything: the tool itself has the last word.
type form struct {
	types      []string
	properties map[string]form
	required   []string
	// closed means that no other properties may be given.
	closed             bool
	enum               []json.RawMessage
	minimum, maximum   *float64
	minLength, maxSize *int
	items              *form
}

// UnmarshalJSON reads what can be read of a schema, which may also be true or false.
func (f *form) UnmarshalJSON(text []byte) error {
	var keys map[string]json.RawMessage
	if json.Unmarshal(text, &keys) != nil {
		return nil
	}
	read := func(key string, into any) bool {
		value, there := keys[key]
		return there && string(value) != "null" && json.Unmarshal(value, into) == nil
	}
	var one string
	if read("type", &one) {
		f.types = []string{one}
	} else {
		read("type", &f.types)
	}
	read("properties", &f.properties)
	read("required", &f.required)
	read("enum", &f.enum)
	read("minimum", &f.minimum)
	read("maximum", &f.maximum)
	read("minLength", &f.minLength)
	read("maxLength", &f.maxSize)
	var items form
	if read("items", &items) {
		f.items = &items
	}
	open := true
	if read("additionalProperties", &open) {
		f.closed = !open
		return nil
	}
	// A schema that lists properties and says nothing of others means that there are none, if it is this simple. A name
	// with a mistake would otherwise be an argument that nobody misses.
	f.closed = len(f.properties) > 0
	for _, key := range []string{"additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames", "$ref", "$dynamicRef",
		"allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas"} {
		if _, there := keys[key]; there {
			f.closed = false
		}
	}
	return nil
}

// checkArguments returns the arguments of a call if they fit the schema of the tool, and else what is wrong, for the
// model. None at all are an empty object. Models like to give null for what they do not want to give: it is left out.
func checkArguments(schema, arguments json.RawMessage) (json.RawMessage, error) {
	var f form
	if len(schema) > 0 {
		if err := json.Unmarshal(schema, &f); err != nil {
			return nil, fmt.Errorf("the tool's own schema is no JSON: %v", err)
		}
	}
	text := bytes.TrimSpace(arguments)
	if len(text) == 0 || string(text) == "null" {
		text = []byte("{}")
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil {
		if json.Valid(text) {
			return nil, fmt.Errorf("they must be a JSON object, not %s; %s", kindOf(text), f.describe())
		}
		return nil, fmt.Errorf("they are no valid JSON (%v); %s", err, f.describe())
	}
	dropped := false
	for _, name := range slices.Sorted(maps.Keys(given)) {
		property, known := f.properties[name]
		if !known {
			if f.closed {
				return nil, fmt.Errorf("there is no %.60q%s; %s", name, f.near(name), f.describe())
			}
			continue
		}
		if string(given[name]) == "null" && !property.takes("null") {
			delete(given, name)
			dropped = true
			continue
		}
		if why := property.misfit(given[name]); why != "" {
			return nil, fmt.Errorf("%q must be %s; %s", name, why, f.describe())
		}
	}
	for _, name := range f.required {
		if _, there := given[name]; !there {
			return nil, fmt.Errorf("%q is missing; %s", name, f.describe())
		}
	}
	if !dropped {
		return text, nil
	}
	return json.Marshal(given)
}

func (f form) takes(kind string) bool {
	return len(f.types) == 0 && len(f.enum) == 0 || slices.Contains(f.types, kind)
}

// misfit says what a value should be, "" if it is.
func (f form) misfit(value json.RawMessage) string {
	kind := kindOf(value)
	fits := len(f.types) == 0 || slices.Contains(f.types, kind) || kind == "integer" && slices.Contains(f.types, "number")
	if !fits {
		return fmt.Sprintf("of type %s, not %s", strings.Join(f.types, " or "), kind)
	}
	if len(f.enum) > 0 && !slices.ContainsFunc(f.enum, func(e json.RawMessage) bool { return sameJSON(e, value) }) {
		return "one of " + f.choices()
	}
	switch kind {
	case "integer", "number":
		n := number(value)
		if f.minimum != nil && n < *f.minimum {
			return fmt.Sprintf("at least %v", *f.minimum)
		}
		if f.maximum != nil && n > *f.maximum {
			return fmt.Sprintf("at most %v", *f.maximum)
		}
	case "string":
		var text string
		if json.Unmarshal(value, &text) == nil {
			if n := utf8.RuneCountInString(text); f.maxSize != nil && n > *f.maxSize {
				return fmt.Sprintf("at most %d characters long, it has %d", *f.maxSize, n)
			} else if f.minLength != nil && n < *f.minLength {
				return fmt.Sprintf("at least %d characters long", *f.minLength)
			}
		}
	case "array":
		var list []json.RawMessage
		if f.items != nil && json.Unmarshal(value, &list) == nil {
			for _, item := range list {
				if why := f.items.misfit(item); why != "" {
					return "a list of which each is " + why
				}
			}
		}
	}
	return ""
}

// kindOf is the type of a JSON value as schemas call it.
func kindOf(value json.RawMessage) string {
	value = bytes.TrimSpace(value)
	if len(value) == 0 {
		return "null"
	}
	switch value[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	if n := number(value); n == math.Trunc(n) && !math.IsInf(n, 0) {
		return "integer"
	}
	return "number"
}

func number(value json.RawMessage) float64 {
	var n float64
	if json.Unmarshal(value, &n) != nil {
		return math.Inf(1) // too large for a number
	}
	return n
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return fmt.Sprintf("%T%v", x, x) == fmt.Sprintf("%T%v", y, y)
}

func (f form) choices() string {
	words := make([]string, len(f.enum))
	for i, e := range f.enum {
		words[i] = string(e)
	}
	return strings.Join(words, ", ")
}

// near is a question after the property that may have been meant.
func (f form) near(name string) string {
	best, least := "", 1+len(name)/3
	for _, known := range slices.Sorted(maps.Keys(f.properties)) {
		d := text.EditDistance(strings.ToLower(name), strings.ToLower(known))
		if strings.HasPrefix(name, known) || strings.HasPrefix(known, name) {
			d = min(d, 1)
		}
		if d <= least && (best == "" || d < least) {
			best, least = known, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", best)
}

// describe lists what there is, what has to be given first.
func (f form) describe() string {
	if len(f.properties) == 0 {
		if f.closed {
			return "it takes no arguments"
		}
		return "give an object such as {}"
	}
	names := slices.SortedFunc(maps.Keys(f.properties), func(a, b string) int {
		if x, y := slices.Contains(f.required, a), slices.Contains(f.required, b); x != y {
			if x {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	for i, name := range names {
		kind := strings.Join(f.properties[name].types, " or ")
		if slices.Contains(f.required, name) {
			kind = strings.TrimPrefix(kind+", required", ", ")
		}
		if kind != "" {
			names[i] += " (" + kind + ")"
		}
	}
	return "it takes " + strings.Join(names, ", ")
}

// decode reads the arguments of a built-in tool. Those that came through Run fit.
func decode[In any](arguments json.RawMessage) (in In, err error) {
	if len(bytes.TrimSpace(arguments)) == 0 {
		return in, nil
	}
	if err := json.Unmarshal(arguments, &in); err != nil {
		return in, fmt.Errorf("bad arguments: %v", err)
	}
	return in, nil
}

// whole is a whole number, also one that is written as 3.0 or 3e1. What is out of all proportion is the largest there is.
type whole int

// UnmarshalJSON reads it.
func (w *whole) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	if kindOf(text) != "integer" {
		return fmt.Errorf("%.20s is no whole number", text)
	}
	n := number(text)
	*w = whole(max(min(n, math.MaxInt32), math.MinInt32))
	return nil
}
