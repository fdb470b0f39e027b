package schema

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

func arguments(t *testing.T) *Arguments {
	t.Helper()
	a, err := NewArguments(Object(
		ID("work", "w").Require(), Amount("min_loss", "m"), Text("account_id", 8, "a"),
		Day("as_of", "d"), Choice("format", []string{"agent", "full"}, "f").Default("agent"),
		Bool("check", "c").Default(true), TextList("issues", 2, 3, "i").MinLength(1),
		Labels("details", 1, 3, 3, "d"), Sequence("epoch", "e"),
		ObjectList("tasks", 1, Object(ID("id", "i").Require()), "t"),
	), map[string]string{"account": "account_id"})
	must.Succeed(t, err)
	return a
}

func TestCheck(t *testing.T) {
	a := arguments(t)
	for in, want := range map[string]string{
		`{"work":"w"}`: `{"check":true,"format":"agent","work":"w"}`,
		// An amount keeps its spelling.
		`{"work":"w","min_loss":123456789012.345678900,"check":false,"format":"full"}`: `{"check":false,"format":"full","min_loss":123456789012.345678900,"work":"w"}`,
		`{"work":"w","account":"brk"}`: `{"account_id":"brk","check":true,"format":"agent","work":"w"}`,
		`{"work":"w","issues":["a"],"details":{"x":"y"},"epoch":1,"tasks":[{"id":"t"}]}`: `{"check":true,"details":{"x":"y"},"epoch":1,"format":"agent","issues":["a"],"tasks":[{"id":"t"}],"work":"w"}`,
		` {"work":"a.b_c-D9","as_of":"2026-01-31"} `:                                     `{"as_of":"2026-01-31","check":true,"format":"agent","work":"a.b_c-D9"}`,
	} {
		got, err := a.Check(json.RawMessage(in))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
		}
	}
}

func TestCheckErrors(t *testing.T) {
	a := arguments(t)
	long := strings.Repeat("x", 5000)
	for in, want := range map[string]string{
		``:                                    "work",
		`null`:                                "work",
		`[]`:                                  "must be a JSON object",
		`{`:                                   "must be a JSON object",
		`{"work":7}`:                          "work",
		`{"work":"../x"}`:                     "work",
		`{"work":"-x"}`:                       "work",
		`{"work":"w","min_loss":"3"}`:         "min_loss",
		`{"work":"w","as_of":"2026-1-31"}`:    "as_of",
		`{"work":"w","issues":[]}`:            "issues",
		`{"work":"w","details":{"long":"x"}}`: "details",
		`{"work":"w","epoch":0}`:              "epoch",
		`{"work":"w","tasks":[{"id":"t","x":1}]}`: "tasks",
		`{"Work":"w"}`:                                `unknown argument "Work": did you mean "work"?`,
		`{"work":"w","minloss":1}`:                    `did you mean "min_loss"?`,
		`{"work":"w","epoch_id":1}`:                   `did you mean "epoch"?`,
		`{"work":"w","as":"x"}`:                       `did you mean "as_of"?`,
		`{"work":"w","colour":"red"}`:                 "the tool takes account_id, as_of,",
		`{"work":"w","account":"a","account_id":"b"}`: "are the same argument",
		`{"work":"w","` + long + `":1}`:               `unknown argument "xxx`,
	} {
		_, err := a.Check(json.RawMessage(in))
		if misfit := (*ArgumentError)(nil); !errors.As(err, &misfit) ||
			!strings.Contains(err.Error(), want) || len(err.Error()) > 500 {
			t.Errorf("%.80s: %v; want %q", in, err, want)
		}
	}
	none, err := NewArguments(Object(), nil)
	must.Succeed(t, err)
	if _, err := none.Check(json.RawMessage(`{"x":1}`)); err == nil ||
		!strings.Contains(err.Error(), "takes no arguments") {
		t.Errorf("an argument for a tool without arguments: %v", err)
	}
	if _, err := Decode[struct{ Work int }](json.RawMessage(`{"work":"w"}`)); err == nil {
		t.Error("a text was decoded as a number")
	}
}

type part struct {
	Name string `json:"name"`
	Size uint64 `json:"size"`
}

type whole struct {
	Status string             `json:"status"`
	First  part               `json:"first" jsonschema:"which comes first"`
	Parts  List[part]         `json:"parts"`
	Counts struct{ A, B int } `json:"counts"`
	Note   *string            `json:"note"`
}

func TestBrief(t *testing.T) {
	text, err := json.Marshal(Brief[whole]())
	must.Succeed(t, err)
	var got, want any
	must.Succeed(t, json.Unmarshal(text, &got))
	must.Succeed(t, json.Unmarshal([]byte(`{"type":"object","required":["status","format","snapshot","flags","file_path"],"properties":{
		"status":{"enum":["success","error"]},"format":{"enum":["agent"]},"file_path":{"type":["null","string"]},
		"flags":{"type":"array","items":{"required":["flag","severity","message"]}},
		"snapshot":{"type":"object","additionalProperties":false,"minProperties":5,"properties":{
			"status":{"type":"string"},"note":{"type":["null","string"]},"counts":{"type":"object","additionalProperties":{"type":"integer"}},
			"first":{"type":"object","description":"which comes first","properties":{"name":{"type":"string"},"size":{"type":"integer"}}},
			"parts":{"type":"array","items":{"$ref":"#/properties/snapshot/properties/first"}}}}}}`), &want))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnyFormat(t *testing.T) {
	s, err := AnyFormat().Resolve(nil)
	must.Succeed(t, err)
	for text, fits := range map[string]bool{
		`{"status":"success","format":"agent","snapshot":{"status":"success","verdict":"v","error_kind":""},"flags":[],"file_path":null}`: true,
		`{"status":"error","format":"agent","snapshot":{"status":"error"},"flags":[],"file_path":null}`:                                   false,
		`{"status":"success","format":"agent","snapshot":{"status":"success","verdict":"v","error_kind":""},"file_path":null}`:            false,
		`{"status":"success","format":"report","report":"# R","file_path":"/x"}`:                                                          true,
		`{"status":"success","format":"report","file_path":"/x"}`:                                                                         false,
		`{"status":"success","anything":1}`:               true,
		`{"status":"success","anything":1,"file_path":7}`: false,
		`{"anything":1}`:    false,
		`{"status":"fine"}`: false,
	} {
		var value any
		must.Succeed(t, json.Unmarshal([]byte(text), &value))
		if err := s.Validate(value); (err == nil) != fits {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestListIsNeverNull(t *testing.T) {
	for want, list := range map[string]List[int]{"[]": nil, "[1,2]": {1, 2}} {
		if got, err := json.Marshal(list); err != nil || string(got) != want {
			t.Errorf("%v: %s, %v", list, got, err)
		}
	}
}
