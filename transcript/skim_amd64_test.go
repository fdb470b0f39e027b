package transcript

import (
	"testing"

	"signalbox/internal/testkit/property"
)

func TestSkimmerWithoutAVX2(t *testing.T) {
	defer func(has bool) { hasAVX2 = has }(hasAVX2)
	hasAVX2 = false
	property.Check(t, checkSkimmer)
}

// Every byte must be met by the tables as it is by the classes.
func TestKindTables(t *testing.T) {
	if !hasAVX2 {
		t.Skip("this processor has no AVX2, so the tables are not used")
	}
	for c := range 256 {
		var p [block]byte
		for i := range p {
			p[i] = 'x'
		}
		p[7] = byte(c)
		var m planes
		planesOf(&m, &p[0], 1, kinds)
		for name, plane := range map[string]struct{ got, want bool }{
			"end":   {m.end>>7&1 == 1, c == '\n'},
			"space": {m.space>>7&1 == 1, c == ' '},
			"angle": {m.angle>>7&1 == 1, c == '<'},
			"lead":  {m.notLead>>7&1 == 0, classes[c] == mark},
		} {
			if plane.got != plane.want {
				t.Errorf("%q is of kind %s: %v, want %v", byte(c), name, plane.got, plane.want)
			}
		}
		if (classes[c] == initial || classes[c] == digit) && m.notFirst>>7&1 == 1 {
			t.Errorf("%q may begin a name and is not met", byte(c))
		}
		if (c == '{' || c == '`' || c == '~') && m.notSpecial>>7&1 == 1 {
			t.Errorf("%q is special and is not met", byte(c))
		}
	}
}
