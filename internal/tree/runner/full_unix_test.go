//go:build unix

package runner

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
)

// fullVariable makes the test binary run with a limit on the size of files.
const fullVariable = "RUNNER_TEST_FULL"

// A line that cannot be written stops the run before the effects of its tick, and the run can be
// resumed when there is room again. The test runs in another process, because the limit applies to
// all files of a process.
func TestFullDisk(t *testing.T) {
	if os.Getenv(fullVariable) != "" {
		runOutOfRoom(t)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), fullVariable+"=1", "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !bytes.Contains(out, []byte("limits were tried")) {
		t.Fatalf("the other process did nothing:\n%s", out)
	}
}

func runOutOfRoom(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	var usual syscall.Rlimit
	must.Succeed(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &usual))
	limit := func(n uint64) {
		must.Succeed(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE,
			&syscall.Rlimit{Cur: n, Max: usual.Max}))
	}
	tried := 0
	for _, c := range stopCases()[:2] { // the first runs one job at a time, the second several
		tried += c.runOutOfRoom(t, limit, usual.Cur)
	}
	t.Logf("%d limits were tried", tried)
}

func (c *stopCase) runOutOfRoom(t *testing.T, limit func(uint64), usual uint64) (tried int) {
	dir := t.TempDir()
	reference := c.run(t, filepath.Join(dir, "reference"), newWorld(), time.Time{})
	for size := 0; size < len(reference.journal); size += 13 {
		name := filepath.Join(dir, fmt.Sprint(size))
		w := newWorld()
		// There may be room again as soon as the run stops. The incomplete line must still be the
		// last one.
		w.cancelled = func() { limit(usual) }
		var err error
		inBubble(t, func(t *testing.T) {
			compiled := compile(t, c.def(), w.functions())
			limit(uint64(size))
			_, err = Do(t.Context(), compiled,
				&Options{Journal: name, Run: tree.RunOptions{ID: "r1"}, Emitted: w.emitted})
			limit(usual)
		})
		if !errors.Is(err, syscall.EFBIG) {
			t.Fatalf("room for %d bytes: error %v, want %v", size, err, syscall.EFBIG)
		}
		if got := readFile(t, name); !bytes.Equal(got, reference.journal[:size]) {
			t.Fatalf("room for %d bytes: the journal is\n%s", size, got)
		}
		whole := lines(reference.journal[:size])
		if len(whole) > 0 && !bytes.HasSuffix(whole[len(whole)-1], []byte("\n")) {
			whole = whole[:len(whole)-1]
		}
		ticks, at := position(t, whole)
		var starts []tree.Request
		var emits []tree.Emit
		for tick := range ticks + 1 {
			starts = append(starts, reference.begun[tick]...)
			emits = append(emits, reference.emits[tick]...)
		}
		if diff := cmp.Diff(seen(starts), seen(w.started)); diff != "" {
			t.Errorf("room for %d bytes: jobs that were started (-want +got):\n%s", size, diff)
		}
		if diff := cmp.Diff(emits, w.emits); diff != "" {
			t.Errorf("room for %d bytes: emitted (-want +got):\n%s", size, diff)
		}
		got := c.run(t, name, w, at)
		if !slices.Equal(got.journal, reference.journal) {
			t.Errorf("room for %d bytes: it was resumed to\n%s", size, got.journal)
		}
		tried++
	}
	return tried
}
