package toolbox

import (
	"encoding/json"
	"strings"
	"testing"
)

const testSchema = `{"type":"object","properties":{
	"query":{"type":"string","minLength":1,"maxLength":5},"limit":{"type":"integer","minimum":1,"maximum":9},"ratio":{"type":"number"},
	"deep":{"type":"boolean"},"sort":{"type":"string","enum":["name","size"]},"tags":{"type":"array","items":{"type":"string"}},
	"maybe":{"type":["string","null"]},"any":true,"more":{"type":"object"}},"required":["query"],"additionalProperties":false}`

const usage = "the tool takes query (required), any, deep, limit, maybe, more, ratio, sort, tags"

func TestCheckArguments(t *testing.T) {
	for in, want := range map[string]string{
		`{"query":"a"}`:   `{"query":"a"}`,
		` {"query":"ä"} `: `{"query":"ä"}`,
		`{"query":"a","limit":3.0,"ratio":1,"deep":true,"sort":"size","tags":["a"],"any":[1],"more":{}}`: `{"query":"a","limit":3.0,"ratio":1,"deep":true,"sort":"size","tags":["a"],"any":[1],"more":{}}`,
		`{"query":"ääääö"}`: `{"query":"ääääö"}`,
		// A null that the schema does not allow means that the argument is not given.
		`{"query":"a","limit":null,"sort":null}`: `{"query":"a"}`,
		`{"query":"a","maybe":null,"any":null}`:  `{"query":"a","maybe":null,"any":null}`,
	} {
		if got, err := checkArguments(json.RawMessage(testSchema),
			json.RawMessage(in)); string(got) != want || err != nil {
			t.Errorf("%s: %s %v\nwant %s", in, got, err, want)
		}
	}
}

func TestCheckArgumentsErrors(t *testing.T) {
	const missing = `argument "query" is required; its schema is {"type":"string","minLength":1,"maxLength":5}`
	long := `{"query":"` + strings.Repeat("x", 1<<20) + `"}`
	for in, want := range map[string]string{
		``:                             missing,
		`null`:                         missing,
		`{}`:                           missing,
		`{"query":null}`:               missing,
		`[]`:                           `the arguments must be a JSON object; ` + usage,
		`"{}"`:                         `the arguments must be a JSON object; ` + usage,
		`{"query":`:                    `the arguments are not valid JSON (unexpected end of JSON input); ` + usage,
		`{"query":3}`:                  `argument "query" is not valid: type: 3 has type "integer", want "string"; its schema is {"type":"string","minLength":1,"maxLength":5}`,
		`{"query":""}`:                 `argument "query" is not valid: minLength`,
		`{"query":"abcdef"}`:           `argument "query" is not valid: maxLength`,
		long:                           `argument "query" is not valid: maxLength`,
		`{"query":"a","limit":"3"}`:    `argument "limit" is not valid: type: 3 has type "string", want "integer"`,
		`{"query":"a","limit":2.5}`:    `argument "limit" is not valid: type: 2.5 has type "number", want "integer"`,
		`{"query":"a","limit":0}`:      `argument "limit" is not valid: minimum`,
		`{"query":"a","limit":10}`:     `argument "limit" is not valid: maximum`,
		`{"query":"a","limit":1e999}`:  `argument "limit" is not valid`,
		`{"query":"a","deep":"true"}`:  `argument "deep" is not valid: type: true has type "string", want "boolean"`,
		`{"query":"a","sort":"date"}`:  `argument "sort" is not valid: enum: date does not equal any of: [name size]`,
		`{"query":"a","tags":"a"}`:     `argument "tags" is not valid: type: a has type "string", want "array"`,
		`{"query":"a","tags":["a",1]}`: `argument "tags" is not valid: validating /items: type: 1 has type "integer", want "string"`,
		`{"query":"a","qury":"b"}`:     `unknown argument "qury", did you mean "query"? ` + usage,
		`{"query":"a","limits":1}`: `unknown argument "limits", did you mean "limit"? ` +
			usage,
		`{"query":"a","somewhere":"b"}`: `unknown argument "somewhere"; ` + usage,
	} {
		_, err := checkArguments(json.RawMessage(testSchema), json.RawMessage(in))
		if err == nil || !strings.HasPrefix(err.Error(), want) || len(err.Error()) > 1000 {
			t.Errorf("%.100s: %.1000v\nwant %s", in, err, want)
		}
	}
}

// A schema that the validator cannot use leaves the check to the tool; one that is not a schema of
// an object at all is an error. Neither follows references, which may be remote or endless.
func TestCheckArgumentsUnusualSchemas(t *testing.T) {
	for schema, want := range map[string]string{
		`{"properties":{"a":{"type":"string","pattern":"^(?!x)"}}}`:                                    "",
		`{"properties":{"a":{"exclusiveMinimum":true}}}`:                                               "",
		`{"properties":{"a":null}}`:                                                                    "",
		`{"properties":{"a":{"$ref":"https://example.invalid/a.json"}}}`:                               "",
		`{"properties":{"a":{"$ref":"#"}}}`:                                                            "",
		`{"properties":{"a":{"\u0024ref":"#"}}}`:                                                       "",
		`{"properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`:                                   "",
		`{"properties":{"a":{"$dynamicAnchor":"m","anyOf":[{"$dynamicRef":"#m"},{"type":"object"}]}}}`: "",
		`{"properties":{"a":` + strings.Repeat(`{"not":`, 40) + `{"type":"string"}` +
			strings.Repeat("}", 41) + "}": `argument "a" is not valid`,
		`{"properties":{"a":false}}`: `argument "a" is not valid`,
		`{"properties":{"a":` + strings.Repeat(`{"items":`, 5000) + "{}" +
			strings.Repeat("}", 5001) + "}": "nested more than 64 levels",
		`{"properties":[]}`:           "not usable",
		`{"required":{"a":true}}`:     "not usable",
		`[]`:                          "not usable",
		`{`:                           "not usable",
		`{"type":"object"} {"a":"b"}`: "not usable",
	} {
		_, err := checkArguments(json.RawMessage(schema), json.RawMessage(`{"a":1}`))
		if want == "" && err != nil || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.100s: %.300v, want %q", schema, err, want)
		}
	}
}

// Schemas have several ways to allow properties that they do not list.
func TestUnlistedArguments(t *testing.T) {
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
		`{"type":"object","properties":{"a":{"type":7,"items":[{}]}},"required":"a"}`: false,
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

func FuzzCheckArguments(f *testing.F) {
	f.Add(testSchema, `{"query":"a","limit":3}`)
	f.Add(`{"properties":{"a":{"enum":[1,null]}}}`, `{"a":null}`)
	f.Fuzz(func(t *testing.T, schema, arguments string) {
		got, err := checkArguments(json.RawMessage(schema), json.RawMessage(arguments))
		if err != nil {
			return
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(got, &object) != nil || object == nil {
			t.Errorf("the tool would receive %q", got)
		}
		if again, err := checkArguments(json.RawMessage(schema), got); err != nil ||
			string(again) != string(got) {
			t.Errorf("%q is not accepted again: %q, %v", got, again, err)
		}
	})
}
