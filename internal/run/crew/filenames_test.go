package crew

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
	"signalbox/transcript"
)

// The names after FILE CONFLICT: quoted or not, several on the line and below it, with spaces if
// there is such a file.
func TestConflictingFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.go", "b.go", "my file.go", "odd, name.go", "Makefile",
		"sub/c d.go"} {
		name = filepath.Join(dir, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must.Succeed(t, os.WriteFile(name, nil, 0o644))
	}
	for _, test := range []struct{ text, want string }{
		{"a.go", "a.go"},
		{"new.go", "new.go"},
		{"`a.go`", "a.go"},
		{"'a.go'", "a.go"},
		{"\"a.go\"", "a.go"},
		{"`a.go` is in use", "a.go"},
		{"\"new file.go\" held by T7", "new file.go"},
		{"`new file.go`", "new file.go"},
		{"`a.go", "a.go"},
		{"my file.go", "my file.go"},
		{"sub/c d.go", "sub/c d.go"},
		{"./my file.go", "./my file.go"},
		{filepath.Join(dir, "my file.go"), "my file.go"},
		{filepath.Join(dir, "new.go"), "new.go"},
		{"/etc/passwd x", "/etc/passwd"},
		{"../a.go x", "../a.go"},
		{"no file.go", "no"},
		{"go.mod held by T7", "go.mod"},
		{"a.go, b.go", "a.go|b.go"},
		{"a.go,b.go, a.go", "a.go|b.go"},
		{"`a.go`, \"new file.go\", 'b.go'", "a.go|new file.go|b.go"},
		{"my file.go, Makefile", "my file.go|Makefile"},
		{"odd, name.go", "odd, name.go"},
		{"a.go, new.go", "a.go|new.go"},
		{"a.go, b.go because of T7", "a.go|b.go"},
		{"a.go, which T7 changes, too.", "a.go"},
		{"a.go, sorry.", "a.go"},
		{"a.go,", "a.go"},
		{"a.go\nb.go\n`new.go`\nmy file.go\nI wait.\nMakefile", "a.go|b.go|new.go|my file.go"},
		{"a.go\n- b.go, my file.go\n* new\n\nMakefile", "a.go|b.go|my file.go|new"},
		{"a.go\nI need it for the counter.", "a.go"},
		{"a.go\nreason.go is wrong", "a.go"},
		{"a.go\nCurrent Activity: b.go\nb.go", "a.go"},
	} {
		scanner := transcript.NewScanner(&transcript.Options{Format: signalbox.FormatPlain})
		signals := slices.Concat(scanner.Push([]byte("FILE CONFLICT: "+test.text+"\n")),
			scanner.Close())
		if len(signals) != 1 || !signals[0].Taken() {
			t.Errorf("%q: %+v", test.text, signals)
		} else if got := strings.Join(conflictingFiles(signals[0], dir), "|"); got != test.want {
			t.Errorf("%q: got %s, want %s", test.text, got, test.want)
		}
	}
}

// Two running tasks that announce the same file, which none of them declared, are both told.
func TestUndeclaredFileOverlap(t *testing.T) {
	s := set(t, scene{
		git:   true,
		plan:  task("T1") + task("T2"),
		files: map[string]string{"my file.go": "package x\n"},
		script: `
on developer T1 attempt 1:
    say FILE CONFLICT: ` + "`my file.go`" + `
    wait for ../../../noted
    signal READY_FOR_REVIEW: {task}
on developer T2 attempt 1:
    wait for ../../../announced
    say FILE CONFLICT: new.go, my file.go
    signal READY_FOR_REVIEW: {task}
on critic T1:
    expect "my file.go (also T2)"
    signal REVIEW_PASSED: {task}
on critic T2:
    expect "new.go, my file.go (also T1)"
    signal REVIEW_PASSED: {task}
`})
	r := s.begin()
	await[rules.OverlapNoted](s, "T1", 1)
	s.write("project/announced", "")
	await[rules.OverlapNoted](s, "T1", 2)
	s.write("project/noted", "")
	r.complete("T1", "T2")
}

// In a shared folder a signal with several files asks for each of them, until the task must wait
// for one.
func TestSeveralFilesOfOneSignal(t *testing.T) {
	s := set(t, scene{
		plan: task("T1", "**Target Files**: a.txt") + task("T2"),
		script: `
on developer T1 attempt 1:
    wait for T2-waits
    signal READY_FOR_REVIEW: {task}
on developer T2 attempt 1:
    say FILE CONFLICT: free.txt
    say - more.txt
    say - a.txt
    say - last.txt
on developer T2 attempt 2:
    signal READY_FOR_REVIEW: {task}
`})
	r := s.begin()
	s.until("T2 waits", func() bool { return s.work("T2").Task.Parked != nil })
	if got := strings.Join(s.work("T2").Task.Locks, " "); got != "free.txt more.txt" {
		t.Errorf("T2 has %s", got)
	}
	s.write("project/T2-waits", "")
	r.complete("T1", "T2")
	if waited := only[rules.FileWaited](s, "T2").Body; waited.File != "a.txt" ||
		len(all[rules.SignalRefused](s, "")) != 0 {
		t.Errorf("waited: %+v", waited)
	}
}
