package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"signalbox/brief"
)

// List is a list that is [] in JSON when it is empty, also in an answer that says that something went wrong.
type List[T any] []T

// MarshalJSON writes the list.
func (l List[T]) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}

// Brief is the schema of answers in the form for agents whose snapshot is an S, made from its fields and what their jsonschema tags say.
func Brief[S any]() *jsonschema.Schema {
	snapshot, err := jsonschema.For[S](nil)
	if err != nil {
		panic(fmt.Sprintf("no schema of %T: %v", *new(S), err)) // the types are of the program
	}
	tidy(snapshot)
	share(snapshot)
	// Together these two say that every key is always there, and no other. A list of all keys would say it too, at twice the length.
	keys := len(snapshot.Properties)
	snapshot.MinProperties, snapshot.AdditionalProperties = &keys, nothing()
	return briefOf(snapshot)
}

// AnyFormat is the schema of a tool that answers in every format. Only the agent's form and that of reports are fixed, and say which they
// are; what a result (summary, full) has beside its status is documented with the tool.
func AnyFormat() *jsonschema.Schema {
	agent := briefOf(&jsonschema.Schema{Required: []string{"status", "verdict", "error_kind"}})
	report := object(map[string]*jsonschema.Schema{"format": just(brief.FormatReport)}, "format", "report", "file_path")
	result := &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"format": nothing()}}
	s := object(map[string]*jsonschema.Schema{"status": agent.Properties["status"], "file_path": agent.Properties["file_path"]}, "status")
	// The common part is told once.
	delete(agent.Properties, "status")
	delete(agent.Properties, "file_path")
	agent.Type, report.Type = "", ""
	s.AnyOf = []*jsonschema.Schema{agent, report, result}
	return s
}

// share has a list whose items are like another property refer to that.
func share(snapshot *jsonschema.Schema) {
	for _, p := range snapshot.Properties {
		for name, like := range snapshot.Properties {
			if p.Items != nil && p.Items.Properties != nil && maps.EqualFunc(p.Items.Properties, like.Properties, sameType) {
				p.Items = &jsonschema.Schema{Ref: "#/properties/snapshot/properties/" + name}
				break
			}
		}
	}
}

func sameType(a, b *jsonschema.Schema) bool {
	return a.Type == b.Type && slices.Equal(a.Types, b.Types) && a.Description == b.Description
}

func briefOf(snapshot *jsonschema.Schema) *jsonschema.Schema {
	flag := &jsonschema.Schema{Required: []string{"flag", "severity", "message"}} // which the server's instructions explain
	return object(map[string]*jsonschema.Schema{
		"status": statuses(), "format": just(brief.FormatAgent), "snapshot": snapshot, "flags": {Type: "array", Items: flag}, "file_path": path(),
	}, "status", "format", "snapshot", "flags", "file_path")
}

func object(properties map[string]*jsonschema.Schema, required ...string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Properties: properties, Required: required}
}

func statuses() *jsonschema.Schema {
	return &jsonschema.Schema{Enum: anyOf([]brief.Status{brief.StatusSuccess, brief.StatusError})}
}

func just(format brief.Format) *jsonschema.Schema {
	return &jsonschema.Schema{Enum: anyOf([]brief.Format{format})}
}

func path() *jsonschema.Schema { return &jsonschema.Schema{Types: []string{"null", "string"}} }

// tidy makes an inferred schema short. Lists are never null, which [List] sees to; an object of nothing but numbers, such as one by phase,
// need not say so of each; and what of an object has to be there is told for the whole snapshot only.
func tidy(s *jsonschema.Schema) {
	if slices.Equal(s.Types, []string{"null", "array"}) {
		s.Type, s.Types = "array", nil
	}
	s.AdditionalProperties, s.Minimum, s.Required = nil, nil, nil
	if s.Items != nil {
		tidy(s.Items)
	}
	counts := len(s.Properties) > 0
	for _, p := range s.Properties {
		tidy(p)
		counts = counts && p.Type == "integer" && p.Description == ""
	}
	if counts {
		s.Properties, s.PropertyOrder, s.AdditionalProperties = nil, nil, &jsonschema.Schema{Type: "integer"}
	}
}
