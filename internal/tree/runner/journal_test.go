package runner

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
)

func twoJobs(t testing.TB, w *world) *tree.Tree {
	t.Helper()
	return single(t, w, sequence(work("a", 10), action("", "count", nil), work("b", 20)), "a", "b",
		"n")
}

// endedJournal returns the lines of the journal of a run that ended.
func endedJournal(t *testing.T) [][]byte {
	t.Helper()
	name := journalName(t)
	inBubble(t, func(t *testing.T) {
		run, err := Do(t.Context(), twoJobs(t, newWorld()),
			&Options{Journal: name, Run: tree.RunOptions{ID: "run"}, File: "two.lua",
				Source: "-- two"})
		wantDone(t, run, err)
	})
	return lines(readFile(t, name))
}

// seal replaces the hashes of lines by correct ones.
func seal(all ...string) []byte {
	var chain tree.Chain
	var out []byte
	for _, line := range all {
		text, _, _ := bytes.Cut([]byte(line), []byte(`,"hash":"`))
		from := len(out)
		out = chain.Seal(append(out, text...), from)
	}
	return out
}

func texts(all [][]byte) []string {
	var s []string
	for _, line := range all {
		s = append(s, string(line))
	}
	return s
}

// refused fails unless both reading and resuming the journal return an error for the line and leave
// the file unchanged.
func refused(t *testing.T, name string, compiled *tree.Tree, line int, want error) {
	t.Helper()
	before := readFile(t, name)
	run, err := Do(t.Context(), compiled, &Options{Journal: name})
	var fault *LineError
	if !errors.As(err, &fault) || fault.Line != line || fault.File != name {
		t.Fatalf("error %v, want one of line %d", err, line)
	}
	if want != nil && !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
	if run != nil {
		t.Error("there is a run")
	}
	if !bytes.Equal(before, readFile(t, name)) {
		t.Error("the file was changed")
	}
}

func TestChangedLinesAreRefused(t *testing.T) {
	all := endedJournal(t)
	name := journalName(t)
	compiled := twoJobs(t, newWorld())
	for n := range all {
		changed := slices.Clone(all)
		changed[n] = bytes.Clone(all[n])
		changed[n][len(all[n])/2] ^= 1
		writeFile(t, name, join(changed))
		refused(t, name, compiled, n+1, tree.ErrChain)
		if _, err := ReadJournal(name, nil, nil); !errors.Is(err, tree.ErrChain) {
			t.Errorf("line %d was changed, and reading it gives %v", n+1, err)
		}
		writeFile(t, name, join(slices.Delete(slices.Clone(all), n, n+1)))
		switch {
		case n == 0:
			refused(t, name, compiled, 1, nil)
		case n < len(all)-1:
			refused(t, name, compiled, n+1, tree.ErrChain)
		}
		writeFile(t, name, join(slices.Insert(slices.Clone(all), n, all[n])))
		refused(t, name, compiled, n+2, tree.ErrChain)
	}
}

func TestNotAJournal(t *testing.T) {
	name := journalName(t)
	for _, text := range []string{"hello\n", "hello", "\n", "{}", `{"formats":1}`, "\x00\x00\x00\n",
		"\xef\xbb\xbf" + `{"format":1`} {
		writeFile(t, name, []byte(text))
		refused(t, name, twoJobs(t, newWorld()), 1, nil)
	}
	if _, err := ReadJournal(filepath.Join(t.TempDir(), "gone"), nil, nil); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	dir := t.TempDir()
	if _, err := Do(t.Context(), twoJobs(t, newWorld()), &Options{Journal: dir}); err == nil {
		t.Error("a folder was taken for a journal")
	}
	if _, err := ReadJournal(dir, nil, nil); err == nil {
		t.Error("a folder was read as a journal")
	}
	writeFile(t, name, nil)
	j, err := ReadJournal(name, func(tree.Header) error { return errors.New("there is no header") },
		nil)
	if err != nil || j.Ended() || j.Torn != 0 {
		t.Errorf("an empty file: %+v, %v", j, err)
	}
}

// An endless file is rejected at its beginning.
func TestEndlessFile(t *testing.T) {
	const zeros = "/dev/zero"
	if _, err := os.Stat(zeros); err != nil {
		t.Skip("there is no such file here")
	}
	var fault *LineError
	if _, err := ReadJournal(zeros, nil, nil); !errors.As(err, &fault) {
		t.Errorf("error %v", err)
	}
}

func TestInvalidLinesWithCorrectHashes(t *testing.T) {
	all := texts(endedJournal(t))
	name := journalName(t)
	compiled := twoJobs(t, newWorld())
	replaced := func(n int, old, new string) []byte {
		changed := slices.Clone(all)
		changed[n] = strings.Replace(changed[n], old, new, 1)
		if changed[n] == all[n] {
			t.Fatalf("there is no %s in %s", old, all[n])
		}
		return seal(changed...)
	}
	for _, c := range []struct {
		text []byte
		line int
		want error
	}{
		{replaced(0, `"format":1`, `"format":2`), 1, nil},
		{replaced(0, `"shape":"`, `"shape":"0`), 1, tree.ErrOtherTree},
		{replaced(0, `"run":"run"`, `"run":7`), 1, nil},
		{replaced(1, `"tick":1`, `"tick":2`), 2, nil},
		{replaced(1, `"tick":1`, `"tick":"1"`), 2, nil},
		{replaced(1, `"visits":"1R`, `"visits":"1S`), 2, nil},
		{replaced(1, `"visits":"1R`, `"visits":"9R`), 2, nil},
		{replaced(1, `"status":"RUNNING"`, `"status":"SUCCESS"`), 2, nil},
		{replaced(2, `"writes":[[1,"a"`, `"writes":[[1,"z"`), 3, nil},
		{seal(slices.Concat(all, all[1:2])...), len(all) + 1, nil},
		{seal(slices.Concat(all, all[len(all)-1:])...), len(all) + 1, nil},
	} {
		writeFile(t, name, c.text)
		refused(t, name, compiled, c.line, c.want)
	}
	writeFile(t, name, seal(all...))
	if got := readFile(t, name); string(got) != strings.Join(all, "") {
		t.Error("what is not changed is sealed differently")
	}
	refused(t, name, single(t, newWorld(), sequence(work("a", 10), work("b", 20)), "a", "b"), 1,
		tree.ErrOtherTree)
}

func TestReadJournal(t *testing.T) {
	all := endedJournal(t)
	name := journalName(t)
	writeFile(t, name, append(join(all[:len(all)-1]), "{\"end"...))
	header, ticks := tree.Header{}, 0
	j, err := ReadJournal(name, func(h tree.Header) error { header = h; return nil },
		func(r *tree.Record) error {
			if ticks++; r.Tick != ticks {
				t.Errorf("tick %d, want %d", r.Tick, ticks)
			}
			return nil
		})
	must.Succeed(t, err)
	if header.Run != "run" || header.File != "two.lua" || header.Source != "-- two" ||
		header.Hash != j.Header.Hash || header.Hash == "" {
		t.Errorf("the header %+v", header)
	}
	if ticks != len(all)-2 || j.Torn != 5 || j.Ending != nil || j.Ended() {
		t.Errorf("%d ticks, %d bytes torn, ending %v", ticks, j.Torn, j.Ending)
	}
	// The reason why a run stopped applies only until it is resumed.
	stopped := texts(all[:2])
	stopped = append(stopped, `{"end":"INTERRUPTED","at":"2000-01-01T00:00:00Z"`)
	writeFile(t, name, seal(stopped...))
	if got := ending(t, name); got != Interrupted {
		t.Errorf("the journal ends with %q", got)
	}
	writeFile(t, name, seal(append(stopped, string(all[2]))...))
	if got := ending(t, name); got != "" {
		t.Errorf("the run was resumed, and the journal ends with %q", got)
	}
	stop := errors.New("stop")
	var fault *LineError
	if _, err := ReadJournal(name, nil, func(*tree.Record) error { return stop }); !errors.Is(err,
		stop) || !errors.As(err, &fault) || fault.Line != 2 {
		t.Errorf("the error of reading: %v", err)
	}
}

func TestEndedRunIsReturned(t *testing.T) {
	all := endedJournal(t)
	name := journalName(t)
	writeFile(t, name, join(all))
	w := newWorld()
	run, err := Do(t.Context(), twoJobs(t, w), &Options{Journal: name, Emitted: w.emitted,
		Ticked: func(*tree.Run) { t.Error("it was ticked") }})
	wantDone(t, run, err)
	if diff := cmp.Diff(map[string]any{"a": int64(10), "b": int64(20), "n": int64(1)},
		only(run, "a", "b", "n")); diff != "" {
		t.Errorf("the board (-want +got):\n%s", diff)
	}
	if len(w.started) > 0 || len(w.emits) > 0 {
		t.Errorf("%d jobs were started, %d values delivered", len(w.started), len(w.emits))
	}
	if !bytes.Equal(join(all), readFile(t, name)) {
		t.Error("the journal was changed")
	}
}

// only returns the values of some keys of a run's board.
func only(run *tree.Run, keys ...string) map[string]any {
	all, some := run.Board().Snapshot(), map[string]any{}
	for _, key := range keys {
		if v, ok := all[key]; ok {
			some[key] = v
		}
	}
	return some
}

func TestJournalInUse(t *testing.T) {
	name := journalName(t)
	inBubble(t, func(t *testing.T) {
		w := newWorld()
		done := make(chan error)
		go func() {
			run, err := Do(t.Context(), single(t, w, work("a", 3_600_000), "a"),
				&Options{Journal: name, Watchdog: -1})
			if err == nil && run.Status() != tree.Success {
				err = errors.New(complaints(run))
			}
			done <- err
		}()
		synctest.Wait()
		other := newWorld()
		run, err := Do(t.Context(), single(t, other, work("a", 3_600_000), "a"),
			&Options{Journal: name})
		wantError(t, err, ErrInUse, name)
		if run != nil || len(other.started) > 0 {
			t.Error("the second run was started")
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		run, err = Do(t.Context(), single(t, other, work("a", 3_600_000), "a"),
			&Options{Journal: name})
		wantDone(t, run, err)
	})
}

// The inputs of a run are in the journal, and are used when it is resumed.
func TestResumeUsesRecordedInputs(t *testing.T) {
	name := journalName(t)
	root := func() *tree.Node {
		return sequence(after(tree.Wait, time.Minute),
			action("", "note", args{"item": tree.Ref{Key: "a"}}),
			action("", "note", args{"item": tree.Ref{Key: "g"}}))
	}
	compiled := func(t *testing.T, w *world) *tree.Tree {
		return compile(t, &tree.Definition{Name: "test", Keys: keys("a", "done"),
			Globals: keys("g"), Root: root()}, w.functions())
	}
	inBubble(t, func(t *testing.T) {
		w := newWorld()
		o := &Options{Journal: name, Run: tree.RunOptions{ID: "first", Inputs: args{"a": 2.0},
			Globals: args{"g": "old"}}, MaxTicks: 1}
		_, err := Do(t.Context(), compiled(t, w), o)
		wantError(t, err, ErrTickBudget, "wait")
		o.Run = tree.RunOptions{ID: "second", Inputs: args{"a": 3}, Globals: args{"g": "new"}}
		o.MaxTicks = 0
		run, err := Do(t.Context(), compiled(t, w), o)
		wantDone(t, run, err)
		if run.ID() != "first" {
			t.Errorf("the run is called %s", run.ID())
		}
		if diff := cmp.Diff([]any{2.0, "old"}, run.Board().Snapshot()["done"]); diff != "" {
			t.Errorf("done (-want +got):\n%s", diff)
		}
	})
}
