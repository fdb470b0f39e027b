package fault

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// asking are agents of whom the developer of T1 asks the human.
const asking = `
on developer T1 attempt 1:
    signal SEEKING_DIVINE_CLARIFICATION
        Task: {task}
        Question: Good or very good?
        Context: It could be either.
` + content

// TestRunIdle measures a run that has nothing to do before a question is answered: it uses no processor and writes nothing.
func TestRunIdle(t *testing.T) {
	s := newStage(t, set{plan: planOf("T1", "T2: T1", "T3"), script: asking, settings: partsCheck})
	run := s.startRun(t)
	run.await(0, "the end of what can be done", ofType("Merged", "T3"))
	run.until("all was signed and nobody was at work", func() bool {
		v := s.verifyCommand(t, 0)
		return v.Checkpoint != nil && v.Checkpoint.Size == v.Events && len(s.processes()) == 0 && len(s.leased(t)) == 0
	})
	pid := run.cmd.Process.Pid
	window := sized(3*time.Second, 20*time.Second)
	// A tick is a hundredth of a second: two in twenty seconds are a thousandth. In a short window a tick may be somebody else's.
	allowed := 2

	files, used, written := boxFiles(t, s.box), ticks(t, pid), writtenBytes(t, pid)
	time.Sleep(window) // the one thing that is measured here is time
	if got := ticks(t, pid) - used; got > allowed {
		t.Errorf("it used %d ticks of the processor in %s of doing nothing", got, window)
	}
	if got := writtenBytes(t, pid) - written; got != 0 {
		t.Errorf("it wrote %d bytes in %s of doing nothing", got, window)
	}
	if diff := cmp.Diff(files, boxFiles(t, s.box)); diff != "" {
		t.Errorf("the files of the box changed:\n%s", diff)
	}
	if run.isOver() {
		t.Fatal("it ended")
	}

	s.must(t, "answer", "Q-1", "good")
	run.end(0)
	s.checkDone(t, "T1", "T2", "T3")
	s.checkParts(t, "T1", "T2", "T3")
}

// ticks is how much of the processor a process has used.
func ticks(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	check(t, err)
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	check(t, err)
	system, err := strconv.Atoi(fields[12])
	check(t, err)
	return user + system
}

// writtenBytes is how much a process has caused to be written to disk.
func writtenBytes(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	check(t, err)
	_, rest, found := strings.Cut(string(text), "\nwrite_bytes: ")
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(line)
	if !found || err != nil {
		t.Fatalf("/proc/%d/io says %q", pid, text)
	}
	return n
}

// boxFiles describes all files of a box.
func boxFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	check(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			files[name] = fmt.Sprint(info.Size(), " ", info.ModTime().UnixNano())
		}
		return err
	}))
	return files
}
