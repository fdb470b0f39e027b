package mcpserver

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"signalbox/brief"
)

// property is one argument of a tool.
type property struct {
	name     string
	required bool
	schema   *jsonschema.Schema
}

// must makes an argument one that has to be given.
func (p property) must() property {
	p.required = true
	return p
}

// or gives an argument a default.
func (p property) or(value any) property {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // a default is written in this package
	}
	p.schema.Default = text
	return p
}

func text(name string, limit int, description string) property {
	return property{name, false, &jsonschema.Schema{Type: "string", MaxLength: &limit, Description: description}}
}

// id is an argument that names something. The pattern is that of signalbox.CheckID as far as one can say it; the rules check the rest.
func id(name, description string) property {
	p := text(name, 64, description)
	p.schema.Pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$"
	return p
}

func number(name string, least, most float64, description string) property {
	return property{name, false, &jsonschema.Schema{Type: "integer", Minimum: &least, Maximum: &most, Description: description}}
}

// maxSequence is the largest number of an event that JSON carries exactly everywhere.
const maxSequence = 1<<53 - 1

func sequence(name, description string) property { return number(name, 1, maxSequence, description) }

func truth(name, description string) property {
	return property{name, false, &jsonschema.Schema{Type: "boolean", Description: description}}
}

func choice[T ~string](name string, of []T, description string) property {
	return property{name, false, &jsonschema.Schema{Type: "string", Enum: anyOf(of), Description: description}}
}

func anyOf[T any](values []T) []any {
	all := make([]any, len(values))
	for i, v := range values {
		all[i] = v
	}
	return all
}

func texts(name string, most, limit int, description string) property {
	item := &jsonschema.Schema{Type: "string", MaxLength: &limit}
	return property{name, false, &jsonschema.Schema{Type: "array", Items: item, MaxItems: &most, Description: description}}
}

// object is the schema of arguments: nothing but what is listed.
func object(properties ...property) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}, AdditionalProperties: nothing()}
	for _, p := range properties {
		s.Properties[p.name] = p.schema
		s.PropertyOrder = append(s.PropertyOrder, p.name)
		if p.required {
			s.Required = append(s.Required, p.name)
		}
	}
	return s
}

// nothing is the schema that no value fits, which is false in JSON.
func nothing() *jsonschema.Schema { return &jsonschema.Schema{Not: &jsonschema.Schema{}} }

// shape is the output schema of answers with a snapshot.
type shape[S any] struct {
	Status   brief.Status `json:"status" jsonschema:"whether the tool did its job: success or error"`
	Format   brief.Format `json:"format" jsonschema:"always agent"`
	Snapshot S            `json:"snapshot" jsonschema:"what a decision needs; the same keys on success and error"`
	Flags    []brief.Flag `json:"flags" jsonschema:"what to look at, the gravest first"`
	FilePath *string      `json:"file_path" jsonschema:"the file with all of the result, null if there is none"`
}

// outputOf infers the schema of a tool's answers.
func outputOf[S any]() *jsonschema.Schema {
	s, err := jsonschema.For[shape[S]](nil)
	if err != nil {
		panic(fmt.Sprintf("no schema of %T: %v", *new(S), err)) // the types are of this package
	}
	tidy(s)
	s.Properties["status"].Enum = anyOf([]brief.Status{brief.StatusSuccess, brief.StatusError})
	s.Properties["format"].Enum = anyOf([]brief.Format{brief.FormatAgent})
	s.Properties["flags"].Items.Properties["severity"].Enum = severities()
	s.Properties["snapshot"].Properties["status"].Enum = s.Properties["status"].Enum
	return s
}

func severities() []any {
	return anyOf([]brief.Severity{brief.Error, brief.Warning, brief.Info, brief.Success})
}

// tidy says of lists that they are never null, which [list] sees to.
func tidy(s *jsonschema.Schema) {
	if slices.Equal(s.Types, []string{"null", "array"}) {
		s.Type, s.Types = "array", nil
	}
	if s.Items != nil {
		tidy(s.Items)
	}
	for _, p := range s.Properties {
		tidy(p)
	}
}

// list is a list that is [] in JSON when it is empty, also in an answer that says that something went wrong.
type list[T any] []T

// MarshalJSON writes the list.
func (l list[T]) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}
