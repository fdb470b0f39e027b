package running

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"testing"

	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/run/progress"
	"signalbox/internal/testkit/must"
)

func openTestBox(t *testing.T) *box.Box {
	t.Helper()
	dir, o := filepath.Join(t.TempDir(), box.FolderName),
		&box.Options{KeyFile: filepath.Join(t.TempDir(), "box.key")}
	_, err := box.Init(t.Context(), dir, "ann", o)
	must.Succeed(t, err)
	b, err := box.Open(t.Context(), dir, o)
	must.Succeed(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// newTestProgram returns a program, and its two outputs.
func newTestProgram() (p *cli.Program, stdout, stderr *bytes.Buffer) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	return &cli.Program{Stdout: stdout, Stderr: stderr, Getenv: func(string) string { return "" }},
		stdout, stderr
}

// device claims to be a terminal.
type device struct{ io.Writer }

func (device) Stat() (fs.FileInfo, error) { return deviceMode{}, nil }

type deviceMode struct{ fs.FileInfo }

func (deviceMode) Mode() fs.FileMode { return fs.ModeDevice | fs.ModeCharDevice }

type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestDisplayEndsWhenTheReaderCloses(t *testing.T) {
	b := openTestBox(t)
	for _, o := range []progress.Options{{JSON: true}, {Plain: true}} {
		p, _, _ := newTestProgram()
		p.Stdout = closedPipe{}
		if err := newDisplay(p, b, o).Show(t.Context()); !errors.Is(err, cli.ErrReaderClosed) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestScreenNeedsATerminal(t *testing.T) {
	p, _, _ := newTestProgram()
	if got := fmt.Sprintf("%T",
		newDisplay(p, nil, progress.Options{})); got != "*progress.plainDisplay" {
		t.Errorf("%s for a buffer", got)
	}
	p.Stdout = device{io.Discard}
	if got := fmt.Sprintf("%T", newDisplay(p, nil, progress.Options{})); got != "*progress.screen" {
		t.Errorf("%s for a terminal", got)
	}
}

func TestNotesLeaveJSONAlone(t *testing.T) {
	for _, o := range []progress.Options{{JSON: true}, {}} {
		p, stdout, stderr := newTestProgram()
		p.Out = bufio.NewWriter(stdout)
		newDisplay(p, nil, o)
		if _, shared := p.Stderr.(*progress.DeferredWriter); !shared {
			t.Error("a warning would be written over the screen")
		}
		p.Notef("that was all")
		if stderr.String() != "note: that was all\n" || stdout.String() != "" {
			t.Errorf("JSON %t: stdout %q, stderr %q", o.JSON, stdout, stderr)
		}
	}
}
