package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// newTestProject returns a box in a git repository, which becomes the working folder.
func newTestProject(t *testing.T) *testBox {
	t.Helper()
	b := newTestBox(t)
	t.Chdir(filepath.Dir(b.dir))
	for _, args := range [][]string{{"init", "-q", "-b", "main"},
		{"-c", "user.name=ann", "-c", "user.email=ann@example.com", "commit", "-q", "--allow-empty",
			"-m", "empty"}} {
		if out, err := exec.CommandContext(t.Context(), "git",
			args...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	return b
}

// checkEnd checks what a program that was not interrupted says when it ends.
func checkEnd(t *testing.T, status int, stderr *bytes.Buffer, want string) {
	t.Helper()
	if text := stderr.String(); status != 1 || !strings.Contains(text, want) ||
		strings.Contains(text, "interrupted") || strings.Contains(text, "cannot be signed") {
		t.Errorf("status %d, stderr %s; want %q", status, text, want)
	}
}

// TestWorkerThatCannotWrite also shows that a worker starts while files are not committed.
func TestWorkerThatCannotWrite(t *testing.T) {
	b := newTestProject(t)
	must.Succeed(t, os.WriteFile("edited.txt", nil, 0o600))
	must.Succeed(t, exec.CommandContext(t.Context(), "git", "add", "edited.txt").Run())
	p, _, stderr := b.program("worker", "--roles=ci", "--plain")
	p.Stdout = failing{errors.New("no space left")}
	checkEnd(t, execute(p), stderr, "signalbox: cannot write the answer: no space left\n")
}

func TestWorkerOfAMovedLedger(t *testing.T) {
	b := newTestProject(t)
	p, _, stderr := b.program("worker", "--roles=ci", "--plain")
	out, in := io.Pipe()
	p.Stdout = in
	ended := make(chan int, 1)
	go func() {
		defer in.Close()
		ended <- execute(p)
	}()
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "worker") {
		t.Fatalf("%q, %v", line, err)
	}
	go io.Copy(io.Discard, lines)
	opened, err := box.Open(t.Context(), b.dir, &box.Options{KeyFile: b.env[cli.KeyVariable]})
	must.Succeed(t, err)
	defer opened.Close()
	if _, err := opened.Engine.Do(t.Context(),
		rules.MoveLedger{Journal: "postgres://db.example.com/shop", Host: "desk", Move: "m-1",
			Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	checkEnd(t, <-ended, stderr,
		"signalbox: the ledger was moved to postgres://db.example.com/shop, by ann\n")
}
