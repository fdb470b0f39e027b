package chat

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"signalbox/internal/testkit/must"
)

// While the terminal is held nothing reaches it, whichever method writes.
func TestOutputHold(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "screen"))
	must.Succeed(t, err)
	defer file.Close()
	o := &output{file: file}
	check := func(when, want string) {
		t.Helper()
		if got, err := os.ReadFile(file.Name()); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", when, got, err)
		}
	}
	io.WriteString(o, "a")
	check("not held", "a")
	o.Hold()
	io.WriteString(o, "b")
	o.Write([]byte("c"))
	o.Flush()
	check("held", "a")
	o.Release()
	check("released", "a")
	o.Write([]byte("d"))
	check("the next write", "abcd")
	o.Hold()
	io.WriteString(o, "e")
	o.Release()
	o.Flush()
	check("flushed", "abcde")
	o.Up(3)
	io.WriteString(o, "f")
	check("moved up", "abcde\x1b[3Af")
	o.Hold()
	io.WriteString(o, "g")
	if err := o.end(); err != nil {
		t.Error(err)
	}
	check("at the end", "abcde\x1b[3Afg")
	if n := o.Writes(); n != 7 {
		t.Errorf("%d writes", n)
	}
	file.Close()
	if _, err := o.Write([]byte("h")); err == nil || o.end() == nil {
		t.Error("the error is lost")
	}
}
