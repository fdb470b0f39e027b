// Package schema builds the JSON schemas of a tool's arguments and answers, and checks arguments.
// The schemas are short, because every agent reads all of them when it connects.
package schema

import (
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"
)

// Property is one argument of a tool.
type Property struct {
	Name     string
	Required bool
	Schema   *jsonschema.Schema
}

// Require makes an argument required.
func (p Property) Require() Property {
	p.Required = true
	return p
}

// Default sets the default of an argument. It panics if value cannot be encoded as JSON.
func (p Property) Default(value any) Property {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // a bug: defaults are constants
	}
	p.Schema.Default = text
	return p
}

// Pattern sets the regular expression that a text must match.
func (p Property) Pattern(pattern string) Property {
	p.Schema.Pattern = pattern
	return p
}

// MinLength sets the minimum length of a text or a list.
func (p Property) MinLength(length int) Property {
	if p.Schema.Type == "array" {
		p.Schema.MinItems = &length
	} else {
		p.Schema.MinLength = &length
	}
	return p
}

// Text returns a text argument of at most limit characters.
func Text(name string, limit int, description string) Property {
	return Property{name, false, &jsonschema.Schema{Type: "string", MaxLength: &limit,
		Description: description}}
}

// ID returns an argument that is an id. The pattern covers most of signalbox.CheckID; the rules
// check the rest.
func ID(name, description string) Property {
	return Text(name, 64, description).Pattern(`^[A-Za-z0-9][\w.-]*$`)
}

// Work returns an argument that names a work item: its id, or PLAN/TASK. The rules check which it
// is.
func Work(name, description string) Property {
	return Text(name, 129, description).Pattern(`^[\w/][\w./-]*$`)
}

// Day returns an argument that is a date.
func Day(name, description string) Property {
	return Text(name, 10, description).Pattern(`^\d{4}-\d{2}-\d{2}$`)
}

// Integer returns an integer argument.
func Integer(name string, minimum, maximum float64, description string) Property {
	return Property{name, false, &jsonschema.Schema{Type: "integer", Minimum: &minimum,
		Maximum: &maximum, Description: description}}
}

// maxSequence is the largest integer that every JSON implementation represents exactly.
const maxSequence = 1<<53 - 1

// Sequence returns an argument that is the sequence number of an event.
func Sequence(name, description string) Property { return Integer(name, 1, maxSequence, description) }

// Amount returns an argument that is an amount of money or a quantity.
func Amount(name, description string) Property {
	minimum, maximum := 0.0, 1e15
	return Property{name, false, &jsonschema.Schema{Type: "number", Minimum: &minimum,
		Maximum: &maximum, Description: description}}
}

// Bool returns a boolean argument.
func Bool(name, description string) Property {
	return Property{name, false, &jsonschema.Schema{Type: "boolean", Description: description}}
}

// Choice returns an argument that is one of the given values.
func Choice[T ~string](name string, values []T, description string) Property {
	return Property{name, false, &jsonschema.Schema{Type: "string", Enum: anySlice(values),
		Description: description}}
}

func anySlice[T any](values []T) []any {
	all := make([]any, len(values))
	for i, v := range values {
		all[i] = v
	}
	return all
}

// TextList returns an argument that is a list of at most maxItems texts of at most limit characters
// each.
func TextList(name string, maxItems, limit int, description string) Property {
	item := &jsonschema.Schema{Type: "string", MaxLength: &limit}
	return Property{name, false, &jsonschema.Schema{Type: "array", Items: item, MaxItems: &maxItems,
		Description: description}}
}

// ObjectList returns an argument that is a list of at most maxItems objects.
func ObjectList(name string, maxItems int, item *jsonschema.Schema, description string) Property {
	return Property{name, false, &jsonschema.Schema{Type: "array", MaxItems: &maxItems, Items: item,
		Description: description}}
}

// Labels returns an argument that is an object of at most maxLabels texts, with names of at most
// nameLimit characters.
func Labels(name string, maxLabels, nameLimit, limit int, description string) Property {
	return Property{name, false,
		&jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{Type: "string",
			MaxLength: &limit},
			PropertyNames: &jsonschema.Schema{MaxLength: &nameLimit}, MaxProperties: &maxLabels,
			Description: description}}
}

// Object returns the schema of an object that has only the given properties.
func Object(properties ...Property) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{},
		AdditionalProperties: never()}
	for _, p := range properties {
		s.Properties[p.Name] = p.Schema
		s.PropertyOrder = append(s.PropertyOrder, p.Name)
		if p.Required {
			s.Required = append(s.Required, p.Name)
		}
	}
	return s
}

// never returns the schema that no value matches, which is false in JSON.
func never() *jsonschema.Schema { return &jsonschema.Schema{Not: &jsonschema.Schema{}} }
