package blackboard

import (
	"reflect"
	"testing"
)

// FuzzParse checks that a parsed value is unchanged after formatting and parsing it again.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"null", "1", "1.0", "-0.0", "1e20", "1e21", `"ä\u2028\ud800"`,
		`{"b":[1,2.5,{}],"a":null}`, "9223372036854775808", `[[[]]]`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := Parse(text)
		if err != nil {
			return
		}
		kept, _, err := normal(v, 0)
		if err != nil {
			return // nested too deeply, or too large
		}
		again, err := Parse(Format(kept))
		if err != nil || !reflect.DeepEqual(kept, again) {
			t.Fatalf("%s is %#v, written %s, read %#v (%v)", text, kept, Format(kept), again, err)
		}
	})
}
