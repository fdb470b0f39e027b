package runner

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
)

// recordingOf returns a recording of a journal of a tree.
func recordingOf(name string, t *tree.Tree) *Recording {
	return NewRecording(name, func() (*os.File, error) { return os.Open(name) },
		func(context.Context, tree.Header) (*tree.Tree, error) { return t, nil })
}

func stepTo(t *testing.T, r *Recording, tick int) *Step {
	t.Helper()
	step, err := r.At(t.Context(), tick)
	if err != nil {
		t.Fatalf("tick %d: %v", tick, err)
	}
	return step
}

// sameAsReplay fails unless a step is what replaying the journal up to its tick gives.
func sameAsReplay(t *testing.T, name string, compiled *tree.Tree, tick int, step *Step) {
	t.Helper()
	load := func(tree.Header) (*tree.Tree, error) { return compiled, nil }
	before := map[string]any{}
	want, _, err := Replay(name, tick, load, func(r *tree.Run) error {
		if r.Ticks() == tick-1 {
			before = r.Board().Snapshot()
		}
		return nil
	})
	must.Succeed(t, err)
	got := step.Run
	if got.Ticks() != tick || got.Status() != want.Status() || !got.Now().Equal(want.Now()) {
		t.Errorf("tick %d: the run is at tick %d with %s at %s, want %s at %s", tick, got.Ticks(),
			got.Status(), got.Now(), want.Status(), want.Now())
	}
	for what, diff := range map[string]string{"views": cmp.Diff(want.Views(), got.Views()),
		"blackboard":  cmp.Diff(want.Board().Snapshot(), got.Board().Snapshot()),
		"emitted":     cmp.Diff(want.Emitted(), got.Emitted(), cmpopts.EquateEmpty()),
		"transitions": cmp.Diff(want.Transitions(), got.Transitions(), cmpopts.EquateEmpty())} {
		if diff != "" {
			t.Errorf("tick %d: %s (-want +got):\n%s", tick, what, diff)
		}
	}
	if diff := cmp.Diff(before, step.Before); tick > 1 && diff != "" {
		t.Errorf("tick %d: the blackboard before it (-want +got):\n%s", tick, diff)
	}
}

// TestRecordingSteps steps through the runs of all cases, backwards and forwards.
func TestRecordingSteps(t *testing.T) {
	for _, c := range stopCases() {
		t.Run(c.name, func(t *testing.T) {
			name := journalName(t)
			c.run(t, name, newWorld(), time.Time{})
			compiled := compile(t, c.def(), newWorld().functions())
			r := recordingOf(name, compiled)
			last := stepTo(t, r, -1)
			if last.Run.Ticks() != last.Ticks || last.Ending == nil ||
				last.Ending.End != c.ends.String() || last.Failed != nil {
				t.Fatalf("the last step is %+v", last)
			}
			for tick := last.Ticks; tick > 0; tick-- {
				sameAsReplay(t, name, compiled, tick, stepTo(t, r, tick))
			}
			for tick := 1; tick <= last.Ticks; tick++ {
				sameAsReplay(t, name, compiled, tick, stepTo(t, r, tick))
			}
			if first := stepTo(t, r, 0); first.Run.Ticks() != 0 || first.Run.Status() != tree.Idle {
				t.Errorf("before the first tick, the run is at tick %d with %s", first.Run.Ticks(),
					first.Run.Status())
			}
			if _, err := r.At(t.Context(), last.Ticks+1); !errors.Is(err, ErrNoTick) {
				t.Errorf("the tick after the last: %v", err)
			}
		})
	}
}

// TestRecordingTurns: the turns are the ticks in which a reply arrived.
func TestRecordingTurns(t *testing.T) {
	c := stopCases()[slices.IndexFunc(stopCases(),
		func(c stopCase) bool { return c.name == "model and tool" })]
	name := journalName(t)
	c.run(t, name, newWorld(), time.Time{})
	r := recordingOf(name, compile(t, c.def(), newWorld().functions()))
	last := stepTo(t, r, -1)
	if len(last.Turns) != 2 {
		t.Fatalf("the turns are %d of %d", last.Turns, last.Ticks)
	}
	for _, tick := range last.Turns {
		step := stepTo(t, r, tick)
		if before, _ := step.Run.Board().Get("llm_response"); before == nil {
			t.Errorf("tick %d has no reply", tick)
		}
	}
}

// longTree counts, and keeps what it has counted in a list, in n ticks.
func longTree(t *testing.T, w *world, n int) *tree.Tree {
	t.Helper()
	body := inner(tree.Repeat,
		sequence(action("", "count", nil), action("", "note", args{"item": tree.Ref{Key: "n"}}),
			after(tree.Wait, time.Second)))
	body.Times = n
	return single(t, w, body, "n", "done")
}

// TestLongRecording steps through more ticks than states are kept.
func TestLongRecording(t *testing.T) {
	const n = 3*maxStates + 7
	name := journalName(t)
	inBubble(t, func(t *testing.T) {
		run, err := Do(t.Context(), longTree(t, newWorld(), n),
			&Options{Journal: name, Run: tree.RunOptions{ID: "run"}})
		wantDone(t, run, err)
	})
	compiled := longTree(t, newWorld(), n)
	r := recordingOf(name, compiled)
	ticks := stepTo(t, r, -1).Ticks
	if ticks <= maxStates || len(r.states) > maxStates || len(r.states) < maxStates/4 {
		t.Fatalf("%d ticks, and %d states are kept", ticks, len(r.states))
	}
	for _, tick := range []int{ticks, 1, 2, ticks / 2, r.interval, r.interval + 1, 5 * r.interval,
		ticks - 1, 3} {
		sameAsReplay(t, name, compiled, tick, stepTo(t, r, tick))
	}
}

// TestRecordingGrows reads a journal while it is written, line by line and with incomplete lines,
// and after it was replaced.
func TestRecordingGrows(t *testing.T) {
	all := endedJournal(t)
	name := journalName(t)
	compiled := twoJobs(t, newWorld())
	r := recordingOf(name, compiled)
	file, err := os.Create(name)
	must.Succeed(t, err)
	defer file.Close()
	if _, err := r.At(t.Context(), -1); err == nil {
		t.Error("an empty file has a step")
	}
	for n, line := range all {
		if _, err := file.Write(line[:len(line)/2]); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			if got := stepTo(t, r, -1).Ticks; got != n-1 {
				t.Errorf("%d complete lines have %d ticks", n, got)
			}
		}
		if _, err := file.Write(line[len(line)/2:]); err != nil {
			t.Fatal(err)
		}
	}
	if last := stepTo(t, r, -1); last.Ticks != len(all)-2 || last.Ending == nil {
		t.Errorf("at the end, there are %d ticks, and the ending is %v", last.Ticks, last.Ending)
	}
	must.Succeed(t, os.Remove(name))
	writeFile(t, name, bytes.Join(all[:2], nil))
	if last := stepTo(t, r, -1); last.Ticks != 1 || last.Ending != nil {
		t.Errorf("another file has %d ticks, and the ending is %v", last.Ticks, last.Ending)
	}
}

// TestChangedRecording: the ticks before a changed line can be seen.
func TestChangedRecording(t *testing.T) {
	all := endedJournal(t)
	name := journalName(t)
	compiled := twoJobs(t, newWorld())
	changed := slices.Clone(all)
	changed[2] = bytes.Replace(changed[2], []byte("RUNNING"), []byte("SUCCESS"), 1)
	for what, text := range map[string][]byte{"hash": join(changed),
		"status": seal(texts(changed)...)} {
		writeFile(t, name, text)
		last := stepTo(t, recordingOf(name, compiled), -1)
		if last.Ticks != 1 || last.Failed == nil || !strings.Contains(last.Failed.Error(), ":3: ") {
			t.Errorf("%s: %d ticks, %v", what, last.Ticks, last.Failed)
		}
		sameAsReplay(t, writtenTo(t, bytes.Join(all[:2], nil)), compiled, 1, last)
	}
	r := recordingOf(name, compiled)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.At(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is done: %v", err)
	}
	if step := stepTo(t, r, 1); step.Ticks != 1 {
		t.Errorf("afterwards, there are %d ticks", step.Ticks)
	}
}

func writtenTo(t *testing.T, text []byte) string {
	t.Helper()
	name := journalName(t)
	writeFile(t, name, text)
	return name
}

// TestSummarize reads the beginning and the end of a journal after each of its lines.
func TestSummarize(t *testing.T) {
	all := endedJournal(t)
	name := journalName(t)
	for n := range len(all) + 1 {
		for _, torn := range []string{"", `{"tick":99,"at":1`} {
			writeFile(t, name, append(join(all[:n]), torn...))
			file, err := os.Open(name)
			must.Succeed(t, err)
			s, err := Summarize(file)
			if n == 0 {
				if err == nil {
					t.Errorf("a journal without a header: %+v", s)
				}
			} else if err != nil {
				t.Errorf("%d lines: %v", n, err)
			} else if ended := n == len(all); s.Header.Tree != "test" ||
				s.Ticks != min(n, len(all)-1)-1 || (s.Ending != nil) != ended || s.Running {
				t.Errorf("%d lines: %+v", n, s)
			}
			file.Close()
		}
	}
	writeFile(t, name, []byte("hello\n"))
	file, err := os.Open(name)
	must.Succeed(t, err)
	defer file.Close()
	if s, err := Summarize(file); err == nil {
		t.Errorf("another file: %+v", s)
	}
	// A process that runs the tree has locked the journal.
	writeFile(t, name, join(all[:2]))
	writer, err := openJournal(name)
	must.Succeed(t, err)
	for _, want := range []bool{true, false} {
		file, err := os.Open(name)
		must.Succeed(t, err)
		if s, err := Summarize(file); err != nil || s.Running != want {
			t.Errorf("running: %+v, %v", s, err)
		}
		file.Close()
		writer.Close()
	}
}
