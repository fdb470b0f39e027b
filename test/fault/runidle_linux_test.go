package fault

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/core/rules"
)

// askingAgents is a script in which the developer of T1 asks the human.
const askingAgents = `
on developer T1 attempt 1:
    signal SEEKING_DIVINE_CLARIFICATION
        Task: {task}
        Question: Good or very good?
        Context: It could be either.
` + goodAgents

// TestRunIdle measures a run that waits for the answer to a question: it uses no CPU time and writes nothing.
func TestRunIdle(t *testing.T) {
	s := newFixture(t, scenario{plan: planOf("T1", "T2: T1", "T3"), script: askingAgents, settings: partsCheck})
	run := s.startRun(t)
	run.await(0, "the merge of T3", ofType(rules.TypeMerged, "T3"))
	run.until("everything was signed and no agent was running", func() bool {
		v := s.verifyCommand(t, 0)
		// The box gets its copy of the checkpoint after the signer's own.
		signed, _ := os.ReadFile(s.signedFile())
		published, _ := os.ReadFile(s.file("checkpoint"))
		return v.Checkpoint.Size == v.Events && bytes.Equal(signed, published) && len(s.processes()) == 0 && len(s.leased(t)) == 0
	})
	pid := run.cmd.Process.Pid
	window := sized(3*time.Second, 20*time.Second)
	// A tick is a hundredth of a second, so two ticks in twenty seconds are a thousandth.
	allowed := 2

	files, used, written := boxFiles(t, s.box), ticks(t, pid), writtenBytes(t, pid)
	time.Sleep(window) // this test measures what happens during a period of time
	if got := ticks(t, pid) - used; got > allowed {
		t.Errorf("it used %d ticks of CPU time in %s of idling", got, window)
	}
	if got := writtenBytes(t, pid) - written; got != 0 {
		t.Errorf("it wrote %d bytes in %s of idling", got, window)
	}
	if diff := cmp.Diff(files, boxFiles(t, s.box)); diff != "" {
		t.Errorf("the files of the box changed:\n%s", diff)
	}
	if run.hasEnded() {
		t.Fatal("it ended")
	}

	s.must(t, "answer", "Q-1", "good")
	run.end(0)
	s.checkDone(t, "T1", "T2", "T3")
	s.checkParts(t, "T1", "T2", "T3")
}

// ticks returns the CPU time of a process, in clock ticks.
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

// writtenBytes returns the number of bytes that a process has caused to be written to disk.
func writtenBytes(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	check(t, err)
	_, rest, found := strings.Cut(string(text), "\nwrite_bytes: ")
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(line)
	if !found || err != nil {
		t.Fatalf("/proc/%d/io is %q", pid, text)
	}
	return n
}

// boxFiles returns size and modification time of all files of a box.
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
