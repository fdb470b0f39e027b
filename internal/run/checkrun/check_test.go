//go:build linux || darwin

package checkrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/process"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

var anyDuration = cmpopts.IgnoreFields(Result{}, "Duration")

func TestChecksInOrder(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SIGNALBOX_KEY", "secret")
	checks := []Check{
		{Name: "test", Command: `echo "$A $B ${SIGNALBOX_KEY-no key}"; echo oh >&2`},
		{Name: "lint", Command: `pwd -P; exit 3`, Environments: []string{"two"}},
		{Name: "gone", Command: `no-such-command 2>/dev/null`, Environments: []string{"one"}},
		{Name: "shot", Command: `kill -9 $$`, Environments: []string{"one"}},
	}
	environments := []Environment{
		{Name: "one", Env: map[string]string{"A": "a", "B": "b"}},
		{Name: "two", Run: []string{"env", "A={workspace}"}},
	}
	var seen []Result
	results, err := Run(context.Background(), dir, checks,
		Options{Environments: environments, Env: []string{"B=extra"},
			Each: func(r Result) { seen = append(seen, r) }})
	must.Succeed(t, err)
	here, err := filepath.EvalSymlinks(dir)
	must.Succeed(t, err)
	want := []Result{
		{Check: "test", Environment: "one", Passed: true, Output: []byte("a extra no key\noh\n")},
		{Check: "test", Environment: "two", Passed: true,
			Output: []byte(dir + " extra no key\noh\n")},
		{Check: "lint", Environment: "two", Exit: 3, Output: []byte(here + "\n")},
		{Check: "gone", Environment: "one", Exit: 127, Output: []byte{}},
		{Check: "shot", Environment: "one", Exit: 137, Output: []byte{}},
	}
	if diff := cmp.Diff(want, results, anyDuration); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(results, seen); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
	for _, r := range results {
		if r.Duration <= 0 {
			t.Errorf("%s took %v", r.Check, r.Duration)
		}
	}
}

func TestChecksWithoutEnvironments(t *testing.T) {
	results, err := Run(context.Background(), t.TempDir(),
		[]Check{{Name: "a", Command: "cat; exit 1"}}, Options{})
	if err != nil || len(results) != 1 || results[0].Exit != 1 || results[0].Environment != "" {
		t.Errorf("%+v, %v", results, err)
	}
}

func TestHangingCheck(t *testing.T) {
	var child process.ID
	noted := func(_ string, id process.ID) (func(), error) { child = id; return nil, nil }
	checks := []Check{{Name: "hangs", Command: `echo before; sleep 1000; echo after`, Timeout: 100 * time.Millisecond}}
	results, err := Run(context.Background(), t.TempDir(), checks,
		Options{Register: noted})
	must.Succeed(t, err)
	r := results[0]
	if !r.TimedOut || r.Passed || r.Exit != 143 || strings.Contains(string(r.Output), "after") {
		t.Errorf("%+v: %q", r, r.Output)
	}
	if child.Alive() {
		t.Error("a process of the check is still running")
	}
}

// A check that exits with status 0 when it is ended has still timed out.
func TestCheckThatPassesTooLate(t *testing.T) {
	dir := t.TempDir()
	// On a slow machine it may be ended before it has set its trap.
	checks := []Check{{Name: "late", Command: `trap 'exit 0' TERM; while :; do sleep 0.01; done`,
		Timeout: 100 * time.Millisecond}}
	results, err := Run(context.Background(), dir, checks, Options{})
	if err != nil || !results[0].TimedOut || results[0].Exit != 0 && results[0].Exit != 143 ||
		results[0].Passed {
		t.Errorf("%+v, %v", results, err)
	}
}

func TestChecksInterrupted(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var last process.ID
	var over int
	noted := func(_ string, id process.ID) (func(), error) {
		last = id
		if _, err := os.Stat(filepath.Join(dir, "first")); err == nil {
			cancel()
		}
		return func() { over++ }, nil
	}
	checks := []Check{{Name: "first", Command: `echo > first`},
		{Name: "second", Command: `sleep 1000`}, {Name: "third", Command: `echo > third`}}
	results, err := Run(ctx, dir, checks, Options{Register: noted})
	if !errors.Is(err, context.Canceled) || len(results) != 1 || results[0].Check != "first" {
		t.Errorf("%+v, %v", results, err)
	}
	if last.Alive() || over != 2 {
		t.Errorf("the second check is still running, or %d of 2 are reported as ended", over)
	}
	if _, err := os.Stat(filepath.Join(dir, "third")); err == nil {
		t.Error("the third check ran")
	}
}

func TestCheckCannotStart(t *testing.T) {
	results, err := Run(context.Background(), t.TempDir(),
		[]Check{{Name: "a", Command: "true"}, {Name: "b", Command: "true"}},
		Options{Environments: []Environment{{Name: "here"},
			{Name: "box", Run: []string{"no-such-program"}}}})
	if e, ok := errors.AsType[*signalbox.Error](err); !ok || e.Hint == "" ||
		!strings.Contains(err.Error(), "check a: program no-such-program") {
		t.Errorf("error %v", err)
	}
	if len(results) != 1 || !results[0].Passed {
		t.Errorf("%+v", results)
	}
	full := errors.New("the disk is full")
	_, err = Run(context.Background(), t.TempDir(), []Check{{Name: "a", Command: "true"}},
		Options{Register: func(string, process.ID) (func(), error) { return nil, full }})
	if !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
}

func TestCheckWithTooMuchOutput(t *testing.T) {
	const lines = 2_000_000
	checks := []Check{{Name: "flood", Command: fmt.Sprintf(`echo first; seq 1 %d; echo last`,
		lines)}}
	results, err := Run(context.Background(), t.TempDir(), checks, Options{})
	must.Succeed(t, err)
	output := results[0].Output
	if len(output) > outputLimit || !bytes.HasPrefix(output, []byte("first\n1\n2\n")) ||
		!bytes.HasSuffix(output, []byte(fmt.Sprintf("\n%d\nlast\n", lines))) {
		t.Errorf("%d bytes, %.20q … %q", len(output), output, output[len(output)-20:])
	}
	if !bytes.Contains(output, []byte("bytes omitted …]\n")) {
		t.Error("there is no mark")
	}
}

// The buffer keeps the right bytes for any sizes of writes.
func TestClipped(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(3*clipRoom, 6*clipRoom).Draw(t, "limit")
		c := newClippedBuffer(limit)
		var whole bytes.Buffer
		for range rapid.IntRange(0, 12).Draw(t, "pieces") {
			piece := make([]byte, rapid.IntRange(0, 3*limit/2).Draw(t, "size"))
			for i := range piece {
				piece[i] = byte('a' + (whole.Len()+i)%23)
			}
			whole.Write(piece)
			if n, err := io.MultiWriter(c).Write(piece); n != len(piece) || err != nil {
				t.Fatalf("wrote %d, %v", n, err)
			}
		}
		got, all := c.bytes(), whole.Bytes()
		if len(got) > limit || cap(c.head)+cap(c.tail) > 4*limit {
			t.Fatalf("%d bytes, limit %d; keeps %d", len(got), limit, cap(c.head)+cap(c.tail))
		}
		if len(all) <= limit {
			if !bytes.Equal(got, all) {
				t.Fatalf("%q became %q", all, got)
			}
			return
		}
		head, rest, _ := bytes.Cut(got, []byte("\n[… "))
		number, tail, found := bytes.Cut(rest, []byte(" bytes omitted …]\n"))
		if !found || !bytes.HasPrefix(all, head) || !bytes.HasSuffix(all, tail) || len(head) == 0 ||
			len(tail) == 0 ||
			string(number) != fmt.Sprint(len(all)-len(head)-len(tail)) {
			t.Fatalf("%d bytes became %q", len(all), got)
		}
	})
}

// What a check writes is limited together with its temporary files, and its output names the limit.
func TestCheckExceedsItsLimits(t *testing.T) {
	dir := t.TempDir()
	c, err := config.Parse([]byte("sandbox: warn\nlimits: {tree: 1MB, processes: 20}\n"))
	must.Succeed(t, err)
	site := contain.Site{Host: contain.ThisHost(), Config: c, Box: filepath.Join(dir, "box"),
		Project: dir}
	tree := filepath.Join(dir, "tree")
	must.Succeed(t, os.Mkdir(tree, 0o700))
	for want, command := range map[string]string{
		"tree":      `head -c 2000000 /dev/zero >"$TMPDIR/large"; while :; do sleep 1000; done`,
		"processes": `for i in $(seq 100); do sleep 1000 & done; wait`,
	} {
		results, err := Run(t.Context(), tree, []Check{{Name: want, Command: command}},
			Options{SizePause: time.Millisecond,
				Contain: func(_ Check, _ Environment, session string) *contain.Program {
					return site.Check(contain.Check{Work: "T1", Session: session, Dir: tree})
				}})
		if err != nil || len(results) != 1 || results[0].Passed ||
			!strings.HasSuffix(string(results[0].Output), "\nsignalbox: it exceeded limits."+want+
				"\n") {
			t.Errorf("%s: %+v, %v", want, results, err)
		}
	}
}

// A check can be ended from outside, however long it was to run.
func TestStartedCheckCanBeEnded(t *testing.T) {
	var ended atomic.Bool
	results, err := Run(t.Context(), t.TempDir(),
		[]Check{{Name: "deaf", Command: `trap "" TERM; while :; do sleep 1; done`}}, Options{
			Started: func(stop func(time.Duration)) func() bool {
				stop(0)
				return func() bool { return ended.Swap(true) }
			}})
	if err != nil || len(results) != 1 || results[0].Passed {
		t.Errorf("results %+v, %v", results, err)
	}
	if !ended.Load() {
		t.Error("its end was not told")
	}
}
