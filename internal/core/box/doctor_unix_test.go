//go:build unix

package box

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"signalbox/internal/testkit/must"
)

// An agent that hangs is given up, and its children end with it.
func TestDoctorDoesNotWaitForAnAgent(t *testing.T) {
	p := newPatient(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	must.Succeed(t, unix.Mkfifo(fifo, 0o600))
	ended, err := os.OpenFile(fifo, os.O_RDONLY|unix.O_NONBLOCK, 0)
	must.Succeed(t, err)
	defer ended.Close()
	p.opts.system.versionTimeout = 100 * time.Millisecond
	p.opts.Agents[0].Argv[0] = program(t, "hangs", "sleep 600 >"+fifo+" & wait")
	// A program that is slow is waited for, and the user is told.
	var waits []string
	p.opts.Progress = func(what string) { waits = append(waits, what) }
	p.opts.system.afterFunc = func(_ time.Duration, f func()) func() bool {
		f()
		return func() bool { return false }
	}
	checks := Doctor(t.Context(), p.opts)
	if len(waits) != 1 || !strings.HasSuffix(waits[0], "hangs --version, at most 100ms") {
		t.Errorf("waits: %q", waits)
	}
	if last := checks[len(checks)-1]; last.Health != Healthy ||
		!strings.Contains(last.Detail, "does not print its version") {
		t.Errorf("%+v", last)
	}
	ended.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.ReadAll(ended); err != nil { // ends when no process has it open for writing
		t.Errorf("its child still runs: %v", err)
	}
}
