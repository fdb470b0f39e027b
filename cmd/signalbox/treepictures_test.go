package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/cli"
	"signalbox/internal/testkit/must"
)

var updatePictures = flag.Bool("pictures", false, "rewrite the pictures in docs/trees")

// docs/trees has a picture of every example in every format, and of a run.
func TestTreePictures(t *testing.T) {
	examples, err := filepath.Glob("../../examples/trees/*.lua")
	must.Succeed(t, err)
	drawn := 0
	for _, example := range examples {
		name := strings.TrimSuffix(filepath.Base(example), ".lua")
		if strings.HasSuffix(name, "_test") {
			continue
		}
		drawn++
		for format, ext := range map[string]string{"text": ".txt", "dot": ".dot", "svg": ".svg"} {
			comparePicture(t, name+ext, "tree", "render", "--format", format,
				filepath.ToSlash(example))
		}
	}
	if drawn < 5 {
		t.Errorf("%d examples, want at least 5", drawn)
	}
	journal := filepath.Join(t.TempDir(), "turn.journal")
	mustAnswer(t, "tree", "run", "--no-ledger", "../../examples/trees/turn.lua", "--replies",
		"../../examples/trees/turn.replies", "--journal", journal)
	comparePicture(t, "turn-run.svg", "tree", "render", "--format", "svg", journal)
	comparePicture(t, "turn-run.txt", "tree", "render", journal)
	comparePicture(t, "turn-thinking.svg", "tree", "render", "--format", "svg", "--tick", "3",
		journal)
}

func comparePicture(t *testing.T, name string, args ...string) {
	t.Helper()
	// The picture must not depend on the location of the file.
	got := strings.ReplaceAll(mustAnswer(t, args...), "../../examples/", "examples/")
	file := filepath.Join("../../docs/trees", name)
	if *updatePictures {
		must.Succeed(t, os.WriteFile(file, []byte(got), 0o666))
		return
	}
	want, err := os.ReadFile(file)
	must.Succeed(t, err)
	if diff := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), got); diff != "" {
		t.Errorf("docs/trees/%s (-want +got), rewrite it with go test ./cmd/signalbox -run TestTreePictures -pictures\n%s", name, diff)
	}
}

// mustAnswer runs a command that must succeed, and returns its answer.
func mustAnswer(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs strings.Builder
	p := cli.Program{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Getenv: func(string) string { return "" }, Args: args}
	if status := execute(&p); status != 0 {
		t.Fatalf("signalbox %s: exit status %d: %s", strings.Join(args, " "), status, errs.String())
	}
	return out.String()
}
