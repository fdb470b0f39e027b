package toolbox

import (
	"encoding/json"
	"testing"
)

const testSchema = `{"type":"object","properties":{
	"query":{"type":"string","minLength":1,"maxLength":5},"limit":{"type":"integer","minimum":1,"maximum":9},"ratio":{"type":"number"},
	"deep":{"type":"boolean"},"sort":{"type":"string","enum":["name","size"]},"tags":{"type":"array","items":{"type":"string"}},
	"maybe":{"type":["string","null"]},"any":true,"more":{"type":"object"}},"required":["query"],"additionalProperties":false}`

const takes = "; it takes query (string, required), any, deep (boolean), limit (integer), maybe (string or null), more (object), ratio (number), sort (string), tags (array)"

func TestArguments(t *testing.T) {
	for in, c := range map[string]struct{ want, err string }{
		`{"query":"a"}`:   {`{"query":"a"}`, ""},
		` {"query":"ä"} `: {`{"query":"ä"}`, ""},
		`{"query":"a","limit":3.0,"ratio":1,"deep":true,"sort":"size","tags":["a"],"any":[1],"more":{}}`: {
			`{"query":"a","limit":3.0,"ratio":1,"deep":true,"sort":"size","tags":["a"],"any":[1],"more":{}}`, ""},
		`{"query":"ääääö"}`: {`{"query":"ääääö"}`, ""},
		// What is not wanted may be null.
		`{"query":"a","limit":null,"sort":null}`: {`{"query":"a"}`, ""},
		`{"query":"a","maybe":null,"any":null}`:  {`{"query":"a","maybe":null,"any":null}`, ""},

		``:                              {"", `"query" is missing` + takes},
		`null`:                          {"", `"query" is missing` + takes},
		`{}`:                            {"", `"query" is missing` + takes},
		`{"query":null}`:                {"", `"query" is missing` + takes},
		`[]`:                            {"", `they must be a JSON object, not array` + takes},
		`"{}"`:                          {"", `they must be a JSON object, not string` + takes},
		`{"query":`:                     {"", `they are no valid JSON (unexpected end of JSON input)` + takes},
		`{"query":3}`:                   {"", `"query" must be of type string, not integer` + takes},
		`{"query":""}`:                  {"", `"query" must be at least 1 characters long` + takes},
		`{"query":"abcdef"}`:            {"", `"query" must be at most 5 characters long, it has 6` + takes},
		`{"query":"a","limit":"3"}`:     {"", `"limit" must be of type integer, not string` + takes},
		`{"query":"a","limit":2.5}`:     {"", `"limit" must be of type integer, not number` + takes},
		`{"query":"a","limit":0}`:       {"", `"limit" must be at least 1` + takes},
		`{"query":"a","limit":10}`:      {"", `"limit" must be at most 9` + takes},
		`{"query":"a","limit":1e999}`:   {"", `"limit" must be of type integer, not number` + takes},
		`{"query":"a","deep":"true"}`:   {"", `"deep" must be of type boolean, not string` + takes},
		`{"query":"a","sort":"date"}`:   {"", `"sort" must be one of "name", "size"` + takes},
		`{"query":"a","tags":"a"}`:      {"", `"tags" must be of type array, not string` + takes},
		`{"query":"a","tags":["a",1]}`:  {"", `"tags" must be a list of which each is of type string, not integer` + takes},
		`{"query":"a","qury":"b"}`:      {"", `there is no "qury", did you mean "query"?` + takes},
		`{"query":"a","limits":1}`:      {"", `there is no "limits", did you mean "limit"?` + takes},
		`{"query":"a","somewhere":"b"}`: {"", `there is no "somewhere"` + takes},
	} {
		got, err := checkArguments(json.RawMessage(testSchema), json.RawMessage(in))
		text := ""
		if err != nil {
			text = err.Error()
		}
		if string(got) != c.want || text != c.err {
			t.Errorf("%s: %s %s\nwant %s %s", in, got, text, c.want, c.err)
		}
	}
}

// TestUnknownNames has schemas that say in different ways whether other names may be given.
func TestUnknownNames(t *testing.T) {
	for schema, allowed := range map[string]bool{
		`{"type":"object"}`:                                                           true,
		`{"type":"object","properties":{}}`:                                           true,
		`{"type":"object","properties":{"a":{}}}`:                                     false,
		`{"type":"object","properties":{"a":{}},"additionalProperties":true}`:         true,
		`{"type":"object","properties":{"a":{}},"additionalProperties":{}}`:           true,
		`{"type":"object","properties":{},"additionalProperties":false}`:              false,
		`{"type":"object","properties":{"a":{}},"patternProperties":{"^b":{}}}`:       true,
		`{"type":"object","properties":{"a":{}},"anyOf":[{"properties":{"b":{}}}]}`:   true,
		`{"type":"object","properties":{"a":{}},"$ref":"#/$defs/x"}`:                  true,
		`{"type":"object","properties":{"a":{"type":7,"items":[{}]}},"required":"a"}`: false, // of what cannot be read the rest still counts
	} {
		_, err := checkArguments(json.RawMessage(schema), json.RawMessage(`{"b":1}`))
		if (err == nil) != allowed {
			t.Errorf("%s: %v", schema, err)
		}
	}
	if _, err := checkArguments(nil, json.RawMessage(`{"b":1}`)); err != nil {
		t.Error(err)
	}
}

func FuzzArguments(f *testing.F) {
	f.Add(testSchema, `{"query":"a","limit":3}`)
	f.Add(`{"properties":{"a":{"enum":[1,null]}}}`, `{"a":null}`)
	f.Fuzz(func(t *testing.T, schema, arguments string) {
		got, err := checkArguments(json.RawMessage(schema), json.RawMessage(arguments))
		if err != nil {
			return
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(got, &object) != nil || object == nil {
			t.Errorf("a tool would get %q", got)
		}
		if again, err := checkArguments(json.RawMessage(schema), got); err != nil || string(again) != string(got) {
			t.Errorf("%q is not taken again: %q, %v", got, again, err)
		}
	})
}
