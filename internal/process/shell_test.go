//go:build linux || darwin

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

func TestShell(t *testing.T) {
	var stderr bytes.Buffer
	got, err := Shell{Line: `read -r line; echo "$line in $(basename "$PWD") as $A"; echo oh >&2; exit 3`, Dir: "/usr", Env: append(Environ(), "A=me"),
		Input: []byte("input\n"), Limit: 100, Grace: ample, Stderr: &stderr}.Run(t.Context())
	if err != nil || got.Output != "input in usr as me\n" || got.Truncated ||
		stderr.String() != "oh\n" {
		t.Errorf("%+v, stderr %q: %v", got, &stderr, err)
	}
	wantExit(t, got.Exit, 3, "")
}

// A program runs without a shell, which would take its arguments apart.
func TestShellProgram(t *testing.T) {
	got, err := Shell{Line: "exit 3", Argv: []string{"printf", "%s|", "a  b", "$HOME"}, Limit: 100,
		Grace: ample}.Run(t.Context())
	if err != nil || got.Output != "a  b|$HOME|" {
		t.Errorf("%+v, %v", got, err)
	}
	wantExit(t, got.Exit, 0, "")
}

// A command that prints more than the limit is ended.
func TestShellLimit(t *testing.T) {
	for line, truncated := range map[string]bool{"printf 12345": false, "printf 123456": true,
		"while :; do echo 12345; done": true} {
		got, err := Shell{Line: line, Limit: 5, Grace: soon}.Run(t.Context())
		if err != nil || got.Output != "12345" || got.Truncated != truncated {
			t.Errorf("%s: %+v, %v", line, got, err)
		}
	}
}

func TestShellCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	notify := writerFunc(func([]byte) { cancel() })
	got, err := Shell{Line: "echo ready >&2; sleep 1000", Stderr: notify, Grace: ample}.Run(ctx)
	if !errors.Is(err, context.Canceled) || got.Exit.Signal != "SIGTERM" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := (Shell{Line: "echo ran", Limit: 10}).Run(ctx); !errors.Is(err,
		context.Canceled) || got.Output != "" {
		t.Errorf("after the end of the context: %+v, %v", got, err)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// Processes that an earlier run left in the session are ended before the command starts.
func TestShellEndsItsSessionFirst(t *testing.T) {
	onLinux(t)
	session := testSession("shell")
	// Start would end the session itself as soon as the program ends.
	old := exec.Command("sleep", "1000")
	old.Env = append(Environ(), SessionVariable+"="+session)
	must.Succeed(t, old.Start())
	t.Cleanup(func() {
		old.Process.Kill()
		old.Wait()
	})
	// The state of the old process while the command runs: gone, or a zombie that is not yet
	// reaped.
	line := fmt.Sprintf(
		`echo "$SIGNALBOX_SESSION$(sed 's/.*) \(.\).*/\1/; s/Z//' /proc/%d/stat 2>/dev/null)"`,
		old.Process.Pid)
	got, err := Shell{Line: line, Session: session, Limit: 100, Grace: ample}.Run(t.Context())
	if err != nil || strings.TrimSpace(got.Output) != session {
		t.Errorf("%+v, %v", got, err)
	}
}
