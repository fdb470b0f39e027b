package mcpserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"signalbox/internal/testkit/must"
)

// TestNoBooleanSchemas checks that no schema of a tool is a bare true or false, which JSON Schema
// allows and several clients refuse. additionalProperties is the exception: clients read it as a
// flag.
func TestNoBooleanSchemas(t *testing.T) {
	c := newCaller(t, newServer(t, newBox(t), nil))
	checked := 0
	for _, name := range slices.Sorted(maps.Keys(c.tools)) {
		for what, schema := range map[string]any{"input": c.tools[name].InputSchema,
			"output": c.tools[name].OutputSchema} {
			text, err := json.Marshal(schema)
			must.Succeed(t, err)
			var value any
			must.Succeed(t, json.Unmarshal(text, &value))
			checkSchema(t, name+" "+what, value, &checked)
		}
	}
	if checked < 100 {
		t.Errorf("only %d schemas were checked", checked)
	}
}

// checkSchema checks a schema and all schemas in it.
func checkSchema(t *testing.T, path string, schema any, checked *int) {
	t.Helper()
	object, ok := schema.(map[string]any)
	if !ok {
		t.Errorf("%s is %v, expected an object", path, schema)
		return
	}
	*checked++
	for key, value := range object {
		at := path + "." + key
		switch key {
		case "properties", "patternProperties", "$defs":
			for name, sub := range value.(map[string]any) {
				checkSchema(t, at+"."+name, sub, checked)
			}
		case "anyOf", "allOf", "oneOf", "prefixItems":
			for i, sub := range value.([]any) {
				checkSchema(t, fmt.Sprint(at, i), sub, checked)
			}
		case "items", "not", "propertyNames", "if", "then", "else", "contains":
			checkSchema(t, at, value, checked)
		case "additionalProperties":
			if _, flag := value.(bool); !flag {
				checkSchema(t, at, value, checked)
			}
		}
	}
}
