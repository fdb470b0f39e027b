// Package schema is the form of a tool: properties from which the JSON schemas of its arguments are made, the schema of its answers, and
// the check that arguments fit. Schemas are short, because every agent that connects reads all of them before it does anything.
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

// Must makes an argument one that has to be given.
func (p Property) Must() Property {
	p.Required = true
	return p
}

// Or gives an argument a default, which must be one that JSON can say.
func (p Property) Or(value any) Property {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // a default is written in the program
	}
	p.Schema.Default = text
	return p
}

// Like gives a text a pattern.
func (p Property) Like(pattern string) Property {
	p.Schema.Pattern = pattern
	return p
}

// AtLeast gives a text or a list a smallest length.
func (p Property) AtLeast(length int) Property {
	if p.Schema.Type == "array" {
		p.Schema.MinItems = &length
	} else {
		p.Schema.MinLength = &length
	}
	return p
}

// Text is an argument of at most limit characters.
func Text(name string, limit int, description string) Property {
	return Property{name, false, &jsonschema.Schema{Type: "string", MaxLength: &limit, Description: description}}
}

// ID is an argument that names something. The pattern is that of signalbox.CheckID as far as one can say it; the rules check the rest.
func ID(name, description string) Property {
	return Text(name, 64, description).Like(`^[A-Za-z0-9][\w.-]*$`)
}

// Day is a date.
func Day(name, description string) Property {
	return Text(name, 10, description).Like(`^\d{4}-\d{2}-\d{2}$`)
}

// Number is a whole number.
func Number(name string, least, most float64, description string) Property {
	return Property{name, false, &jsonschema.Schema{Type: "integer", Minimum: &least, Maximum: &most, Description: description}}
}

// maxSequence is the largest number of an event that JSON carries exactly everywhere.
const maxSequence = 1<<53 - 1

// Sequence is the number of an event.
func Sequence(name, description string) Property { return Number(name, 1, maxSequence, description) }

// Amount is an argument that is money or a quantity.
func Amount(name, description string) Property {
	least, most := 0.0, 1e15
	return Property{name, false, &jsonschema.Schema{Type: "number", Minimum: &least, Maximum: &most, Description: description}}
}

// Truth is an argument that is true or false.
func Truth(name, description string) Property {
	return Property{name, false, &jsonschema.Schema{Type: "boolean", Description: description}}
}

// Choice is an argument that is one of some words.
func Choice[T ~string](name string, of []T, description string) Property {
	return Property{name, false, &jsonschema.Schema{Type: "string", Enum: anyOf(of), Description: description}}
}

func anyOf[T any](values []T) []any {
	all := make([]any, len(values))
	for i, v := range values {
		all[i] = v
	}
	return all
}

// Texts is a list of at most most texts of at most limit characters.
func Texts(name string, most, limit int, description string) Property {
	item := &jsonschema.Schema{Type: "string", MaxLength: &limit}
	return Property{name, false, &jsonschema.Schema{Type: "array", Items: item, MaxItems: &most, Description: description}}
}

// Objects is a list of at most most objects.
func Objects(name string, most int, item *jsonschema.Schema, description string) Property {
	return Property{name, false, &jsonschema.Schema{Type: "array", MaxItems: &most, Items: item, Description: description}}
}

// Labels is an object of at most most texts under names of at most nameLimit characters.
func Labels(name string, most, nameLimit, limit int, description string) Property {
	return Property{name, false, &jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{Type: "string", MaxLength: &limit},
		PropertyNames: &jsonschema.Schema{MaxLength: &nameLimit}, MaxProperties: &most, Description: description}}
}

// Object is the schema of arguments: nothing but what is listed.
func Object(properties ...Property) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}, AdditionalProperties: nothing()}
	for _, p := range properties {
		s.Properties[p.Name] = p.Schema
		s.PropertyOrder = append(s.PropertyOrder, p.Name)
		if p.Required {
			s.Required = append(s.Required, p.Name)
		}
	}
	return s
}

// nothing is the schema that no value fits, which is false in JSON.
func nothing() *jsonschema.Schema { return &jsonschema.Schema{Not: &jsonschema.Schema{}} }
