package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// written returns a value as JSON, which is YAML, with every scalar in quotes. The library's own
// encoder drops spaces at the ends of lines.
func written(v reflect.Value) string {
	var parts []string
	if raw, ok := v.Interface().(json.RawMessage); ok {
		return orDefault(string(raw), "null")
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return "null"
		}
		return written(v.Elem())
	case reflect.Struct:
		for i, name := range fieldNames(v.Type()) {
			part := written(v.Field(i))
			if v.Type().Field(i).Tag.Get("unit") == "dollars" {
				part = fmt.Sprintf("%d.%06d", v.Field(i).Int()/1e6, v.Field(i).Int()%1e6)
			}
			parts = append(parts, quoted(name)+": "+part)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case reflect.Map:
		for each := v.MapRange(); each.Next(); {
			parts = append(parts, quoted(each.Key().String())+": "+written(each.Value()))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case reflect.Slice:
		for i := range v.Len() {
			parts = append(parts, written(v.Index(i)))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return quoted(fmt.Sprint(v.Interface()))
}

func quoted(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always encodes
	}
	return string(quoted)
}

// FuzzParse checks that errors have a position and one line, and that a valid configuration
// survives encoding and decoding.
func FuzzParse(f *testing.F) {
	f.Add(Template)
	for block := range strings.SplitSeq(Template, "\n\n") {
		f.Add(uncomment(block))
	}
	f.Add(uncomment(Template))
	f.Add("agents: &a {x: *a}\n<<: *a\n? [a]\n: |\n  x\n--- !!str\n'")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse([]byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "line ") ||
				strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("error without a position, or with several lines: %q", err)
			}
			return
		}
		again := written(reflect.ValueOf(*c))
		c2, err := Parse([]byte(again))
		if err != nil {
			t.Fatalf("%v in:\n%s", err, again)
		}
		if diff := cmp.Diff(c, c2, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-first +again):\n%s\n%s", diff, again)
		}
	})
}
