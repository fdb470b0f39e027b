package process

import (
	"bytes"
	"strings"
	"testing"
)

// A child that does not inherit the standard output of a program that speaks cannot open it, nor
// the standard error, nor the input of an interactive program. The program itself cannot either, so
// /dev/stdout does not work in it.
func TestSpeaksOutputCannotBeOpened(t *testing.T) {
	// The child runs in the background, because some shells redirect their own output while they
	// wait for a child in the foreground.
	for _, speaks := range []bool{true, false} {
		var out bytes.Buffer
		spec := shell(`sh -c 'for n in 0 1 2; do (echo forged >/proc/$PPID/fd/$n) 2>/dev/null && echo "opened $n" >&3; done' 3>&1 >/dev/null 2>&1 & wait $!; (echo x >/dev/stdout) 2>/dev/null || echo no /dev/stdout`)
		spec.Stdout, spec.Stderr, spec.Speaks, spec.Interactive = &out, new(bytes.Buffer), speaks,
			true
		wantExit(t, start(t, spec).Wait(), 0, "")
		opened := strings.Count(out.String(), "opened")
		switch got := out.String(); {
		case speaks && got != "no /dev/stdout\n":
			t.Errorf("output %q", got)
		case !speaks && opened != 3: // the attack works with pipes, so the test above proves something
			t.Errorf("without sockets: %q", got)
		}
	}
}
