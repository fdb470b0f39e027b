package main

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// A long diff goes through the pager, and only on a terminal. Who leaves the pager early, or the
// reader of a pipe, has seen enough.
func TestPager(t *testing.T) {
	w := newProject(t, "# Plan\n\n#### Task T1: Much\n\n**Acceptance Criteria**:\n\n- it works\n\n**Blocked By**: none\n", `on developer *:
    run yes 'a line that is long enough to fill every buffer on the way to the pager' | head -n 10000 >much.txt
    signal READY_FOR_REVIEW: {task}
on critic *:
    signal REVIEW_PASSED: {task}
on auditor *:
    signal AUDIT_PASSED: {task}
`, "approve: merge\n")
	w.piped("", "run", "plan.md", "--no-wait")
	seen := filepath.Join(w.dir, "seen")
	program := func(name, script string) string {
		file := filepath.Join(w.dir, "bin", name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(file), 0o700))
		writeFile(t, file, "#!/bin/sh\n"+script+"\n", 0o700)
		return file
	}
	used := func() string {
		text, _ := os.ReadFile(seen)
		os.Remove(seen)
		return string(text)
	}
	first := program("first", "read line; echo \"$line\" >"+seen+"; echo from the pager")
	program("less", "read line; echo \"$LESS $line\" >"+seen+"; cat >/dev/null")
	environment := w.env
	set := func(more ...string) {
		w.env = append(append(environment[:len(environment):len(environment)], "PATH="+
			filepath.Join(w.dir, "bin")+":"+os.Getenv("PATH")), more...)
	}
	const head = "diff --git a/much.txt b/much.txt"

	set("PAGER="+first, "NO_COLOR=1")
	for _, args := range [][]string{{"diff", "T1"}, {"diff", "T1", "--working", "--stat"}} {
		out, status := w.endsOnTerminal("xterm", "", args...)
		if status != 0 || strings.Contains(out, "signalbox: ") {
			t.Errorf("%q: left early: status %d: %s", args, status, out)
		}
		if got := used(); len(args) == 2 && (got != head+"\n" || out != "from the pager\n") {
			t.Errorf("%q: the pager got %q, and the terminal %q", args, got, out)
		}
	}
	set("PAGER=", "LESS=", "NO_COLOR=1")
	if _, status := w.endsOnTerminal("xterm", "", "diff", "T1"); status != 0 {
		t.Errorf("less: status %d", status)
	}
	if got := used(); got != "FRX "+head+"\n" {
		t.Errorf("without PAGER, less got %q", got)
	}

	// Without a pager: in a pipe, with --no-pager, and on a terminal that can do nothing.
	set("PAGER=" + first)
	if out := w.piped("", "diff", "T1"); !strings.HasPrefix(out, head) || used() != "" {
		t.Error("a pipe has a pager")
	}
	w.onTerminal("xterm", "", "diff", "T1", "--no-pager")
	w.onTerminal("dumb", "", "diff", "T1")
	if got := used(); got != "" {
		t.Errorf("the pager was used: %q", got)
	}
	// A pager that cannot be started is none.
	set("PAGER=no-such-pager", "NO_COLOR=1")
	if out, status := w.endsOnTerminal("xterm", "", "diff", "T1", "--stat"); status != 0 ||
		!strings.Contains(out, " much.txt | 10000 +") {
		t.Errorf("without the pager: status %d: %s", status, out)
	}

	cmd := w.command("", "signalbox", "diff", "T1")
	stdout, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	must.Succeed(t, cmd.Start())
	if line, err := bufio.NewReaderSize(io.LimitReader(stdout, 1000),
		1000).ReadString('\n'); err != nil || line != head+"\n" {
		t.Errorf("%q, %v", line, err)
	}
	stdout.Close()
	if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
		t.Errorf("the reader of a pipe left early: %v: %s", err, stderr.String())
	}
}
