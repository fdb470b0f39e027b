package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"signalbox/brief"
)

// List is a slice that is encoded as [] when it is nil, so that failed answers have lists too.
type List[T any] []T

// MarshalJSON implements [json.Marshaler].
func (l List[T]) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}

// Brief returns the schema of an agent brief whose snapshot is an S. It is derived from the fields
// of S and their jsonschema tags.
func Brief[S any]() *jsonschema.Schema {
	snapshot, err := jsonschema.For[S](nil)
	if err != nil {
		panic(fmt.Sprintf("no schema of %T: %v", *new(S), err)) // a bug: S is a type of the program
	}
	shorten(snapshot)
	useRefs(snapshot)
	// Together these two require exactly the listed keys. Listing them again as required would
	// double the length.
	keys := len(snapshot.Properties)
	snapshot.MinProperties, snapshot.AdditionalProperties = &keys, never()
	return briefOf(snapshot)
}

// AnyFormat returns the schema of a tool that answers in all formats. Only the formats agent and
// report have a fixed form; the documentation of the tool describes the others (summary, full).
func AnyFormat() *jsonschema.Schema {
	agent := briefOf(&jsonschema.Schema{Required: []string{"status", "verdict", "error_kind"}})
	report := object(map[string]*jsonschema.Schema{"format": constant(brief.FormatReport)},
		"format", "report", "file_path")
	// Not {"format": false}: some clients refuse a boolean as the schema of a property.
	result := &jsonschema.Schema{Not: &jsonschema.Schema{Required: []string{"format"}}}
	s := object(map[string]*jsonschema.Schema{"status": agent.Properties["status"],
		"file_path": agent.Properties["file_path"]}, "status")
	// The common part is stated once.
	delete(agent.Properties, "status")
	delete(agent.Properties, "file_path")
	agent.Type, report.Type = "", ""
	s.AnyOf = []*jsonschema.Schema{agent, report, result}
	return s
}

// useRefs replaces the item schema of a list by a reference if it equals the schema of another
// property.
func useRefs(snapshot *jsonschema.Schema) {
	for _, p := range snapshot.Properties {
		for name, other := range snapshot.Properties {
			if p.Items != nil && p.Items.Properties != nil &&
				maps.EqualFunc(p.Items.Properties, other.Properties, sameType) {
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
	// the server's instructions explain them
	flag := &jsonschema.Schema{Required: []string{"flag", "severity", "message"}}
	return object(map[string]*jsonschema.Schema{
		"status": statuses(), "format": constant(brief.FormatAgent), "snapshot": snapshot,
		"flags": {Type: "array", Items: flag}, "file_path": path(),
	}, "status", "format", "snapshot", "flags", "file_path")
}

func object(properties map[string]*jsonschema.Schema, required ...string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Properties: properties, Required: required}
}

func statuses() *jsonschema.Schema {
	return &jsonschema.Schema{Enum: anySlice([]brief.Status{brief.StatusSuccess,
		brief.StatusError})}
}

func constant(format brief.Format) *jsonschema.Schema {
	return &jsonschema.Schema{Enum: anySlice([]brief.Format{format})}
}

func path() *jsonschema.Schema { return &jsonschema.Schema{Types: []string{"null", "string"}} }

// shorten shortens an inferred schema. Lists are never null, because of [List]. An object that has
// only counts, such as one per phase, need not list its properties. Required properties are stated
// only for the snapshot itself.
func shorten(s *jsonschema.Schema) {
	if slices.Equal(s.Types, []string{"null", "array"}) {
		s.Type, s.Types = "array", nil
	}
	s.AdditionalProperties, s.Minimum, s.Required = nil, nil, nil
	if s.Items != nil {
		shorten(s.Items)
	}
	onlyCounts := len(s.Properties) > 0
	for _, p := range s.Properties {
		shorten(p)
		onlyCounts = onlyCounts && p.Type == "integer" && p.Description == ""
	}
	if onlyCounts {
		s.Properties, s.PropertyOrder, s.AdditionalProperties = nil, nil,
			&jsonschema.Schema{Type: "integer"}
	}
}
