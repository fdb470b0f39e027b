package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"signalbox": main})
}

// TestScript runs the specification of the command line, testdata/script/*.txtar.
func TestScript(t *testing.T) {
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("found %d scripts: %v", len(scripts), err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("ESC", "\x1b")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector would make every command wait a second
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"bytes": writeBytes,
		},
	})
}

// exits runs a program that must end with the given status: exits 2 signalbox scan --nonsense
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits status program [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exited := (*exec.ExitError)(nil)
		if !errors.As(err, &exited) {
			ts.Fatalf("%v", err)
		}
		got = exited.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// writeBytes writes a file from Go string literals, for what has no place in a text archive; an argument
// *N repeats what is there N times: bytes noise.bin '"\x00\xff\n"' *1000
func writeBytes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: bytes file 'literal' [*times]...")
	}
	content := ""
	for _, arg := range args[1:] {
		if times, ok := strings.CutPrefix(arg, "*"); ok {
			n, err := strconv.Atoi(times)
			ts.Check(err)
			content = strings.Repeat(content, n)
			continue
		}
		text, err := strconv.Unquote(arg)
		ts.Check(err)
		content += text
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(content), 0o666))
}
