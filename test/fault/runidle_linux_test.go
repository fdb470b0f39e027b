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

// TestRunIdle measures a run that waits for the answer to a question: it uses no CPU time and
// writes nothing.
func TestRunIdle(t *testing.T) {
	s := newFixture(t, scenario{plan: planOf("T1", "T2: T1", "T3"), script: askingAgents,
		settings: partsCheck})
	run := s.startRun(t)
	run.await(0, "the merge of T3", ofType(rules.TypeMerged, "T3"))
	run.until("everything was signed and no agent was running", func() bool {
		v := s.verifyCommand(t, 0)
		// The box gets its copy of the checkpoint after the signer's own.
		signed, _ := os.ReadFile(s.signedFile())
		published, _ := os.ReadFile(s.file("checkpoint"))
		return v.Checkpoint.Size == v.Events && bytes.Equal(signed, published) &&
			len(s.processes()) == 0 && len(s.leased(t)) == 0
	})
	checkIdle(t, run.cmd.Process.Pid, sized(3*time.Second, 20*time.Second), s.box)
	if run.hasEnded() {
		t.Fatal("it ended")
	}

	s.must(t, "answer", "Q-1", "good")
	run.end(0)
	s.checkDone(t, "T1", "T2", "T3")
	s.checkParts(t, "T1", "T2", "T3")
}

// checkIdle checks that a process uses no CPU time and writes nothing during a period of time, and
// that the files in a folder do not change. On a slow machine what the process did before may end
// late, so the period starts again a few times.
func checkIdle(t *testing.T, pid int, period time.Duration, dir string) {
	t.Helper()
	// A tick is a hundredth of a second, so two ticks in twenty seconds are a thousandth.
	const allowed = 2
	var used, written int
	var changed string
	for range 5 {
		files := filesIn(t, dir)
		used, written = ticks(t, pid), writtenBytes(t, pid)
		time.Sleep(period) // this measures what happens during a period of time
		used, written = ticks(t, pid)-used, writtenBytes(t, pid)-written
		if changed = cmp.Diff(files, filesIn(t, dir)); used <= allowed && written == 0 &&
			changed == "" {
			return
		}
	}
	t.Errorf("in %s of waiting it used %d ticks of CPU time and wrote %d bytes; files that changed:\n%s", period, used, written, changed)
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

// filesIn returns size and modification time of all files in a folder.
func filesIn(t *testing.T, dir string) map[string]string {
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
