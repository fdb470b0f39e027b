package fault

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is the timeout for things that must happen. It is generous, because it is not a
// measurement.
const patience = 10 * time.Minute

// diary is a folder in which agents and tools record what they do. They find it in $DIARY.
type diary string

// newDiary creates a diary in a folder. The tools that write to it must not survive the test.
func newDiary(t testing.TB, dir string) diary {
	t.Helper()
	d := diary(filepath.Join(dir, "diary"))
	check(t, os.Mkdir(string(d), 0o755))
	t.Cleanup(func() {
		for pid := range d.toolsAlive() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return d
}

func (d diary) file(name string) string { return filepath.Join(string(d), name) }

func (d diary) create(t testing.TB, name string) {
	t.Helper()
	check(t, os.WriteFile(d.file(name), nil, 0o644))
}

// lines returns the lines of a file; none if it does not exist.
func (d diary) lines(t testing.TB, name string) []string {
	t.Helper()
	text, err := os.ReadFile(d.file(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// counts returns how often each first word of a line occurs in a file.
func (d diary) counts(t testing.TB, name string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, line := range d.lines(t, name) {
		word, _, _ := strings.Cut(line, " ")
		counts[word]++
	}
	return counts
}

// await waits until a file exists. A shell creates it before it writes to it.
func (d diary) await(t testing.TB, name string) {
	t.Helper()
	d.awaitUntil(t, name, func() bool { return exists(d.file(name)) })
}

// awaitLine waits until a file has a complete line.
func (d diary) awaitLine(t testing.TB, name string) {
	t.Helper()
	d.awaitUntil(t, name, func() bool {
		text, _ := os.ReadFile(d.file(name))
		return bytes.HasSuffix(text, []byte("\n"))
	})
}

func (d diary) awaitUntil(t testing.TB, name string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for the file %s of the diary", name)
		}
	}
}

// checkNoOverlaps checks that no process was started while an earlier one for the same work was
// alive. The processes find out by a lock that the system releases when the last of them has ended.
func (d diary) checkNoOverlaps(t testing.TB) {
	t.Helper()
	if overlaps := d.lines(t, "overlaps"); len(overlaps) > 0 {
		t.Errorf("these started while an earlier process for the same work was alive: %q", overlaps)
	}
}

// checkNoTools checks that no tool is running.
func (d diary) checkNoTools(t testing.TB) {
	t.Helper()
	if left := d.toolsAlive(); len(left) > 0 {
		t.Errorf("tools are still running: %v", left)
	}
}

// toolsAlive returns the command lines of the running tools of trees and oracles, by process id.
func (d diary) toolsAlive() map[int]string {
	found := map[int]string{}
	for pid, env := range environments() {
		if env["DIARY"] == string(d) && env["SIGNALBOX_TREE_KEY"] != "" {
			found[pid] = commandLine(pid)
		}
	}
	return found
}

// environments returns the environment of every process that this user may inspect. Zombies have
// none.
func environments() map[int]map[string]string {
	all := map[int]map[string]string{}
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil || len(text) == 0 {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		all[pid] = map[string]string{}
		for entry := range bytes.SplitSeq(text, []byte{0}) {
			key, value, _ := strings.Cut(string(entry), "=")
			all[pid][key] = value
		}
	}
	return all
}

func commandLine(pid int) string {
	text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return string(bytes.ReplaceAll(text, []byte{0}, []byte{' '}))
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// requireTools skips the test, or fails it in CI, if a program is not installed.
func requireTools(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			skipOrFail(t, "%s is not installed", name)
		}
	}
}
