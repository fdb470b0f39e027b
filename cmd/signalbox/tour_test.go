package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/output"
)

var (
	tourBlock = regexp.MustCompile("(?ms)^```\n(\\$ .*?)^```$")
	// A tour entry is a command and what it prints: "$ [VARIABLE=value] signalbox … [| grep word]
	// [> file]".
	tourEntry   = regexp.MustCompile(`(?m)^\$ (.*)\n((?:[^$\n].*\n|\n)*)`)
	tourCommand = regexp.MustCompile(
		`^(?:(\w+)=(\w+) )?signalbox ([^|>]+?)(?: \| grep (\w+))?(?: > (\S+))?$`)
	tourWord = regexp.MustCompile(`'([^']*)'|(\S+)`)
)

// steady returns output without the parts that vary between runs.
func steady(text string) string { return output.Steady(text) }

func readDocument(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", name))
	must.Succeed(t, err)
	return string(text)
}

// TestTourShowsRealOutput runs the commands of docs/tutorial/tour.md in a folder that has the
// examples, and compares their output.
func TestTourShowsRealOutput(t *testing.T) {
	document := readDocument(t, "docs/tutorial/tour.md")
	dir := t.TempDir()
	must.Succeed(t, os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("../../examples")))
	t.Chdir(dir)
	moveTo(t.Setenv, filepath.Join(dir, "home"))
	tried := 0
	for _, block := range tourBlock.FindAllStringSubmatch(document, -1) {
		for _, entry := range tourEntry.FindAllStringSubmatch(block[1], -1) {
			command, want := entry[1], entry[2]
			parts := tourCommand.FindStringSubmatch(command)
			if parts == nil && want != "" {
				t.Errorf("cannot try %q", command)
			}
			if parts == nil {
				continue // it does not end
			}
			tried++
			got := tour(t, command, parts)
			if diff := cmp.Diff(steady(want), steady(got)); diff != "" {
				t.Errorf("%s (-docs/tutorial/tour.md +real):\n%s", command, diff)
			}
		}
	}
	if tried < 10 {
		t.Errorf("%d commands found in docs/tutorial/tour.md: the search for them is broken", tried)
	}
}

// tour runs a command of the tour and returns its output.
func tour(t *testing.T, command string, parts []string) string {
	t.Helper()
	var args []string
	for _, word := range tourWord.FindAllStringSubmatch(parts[3], -1) {
		args = append(args, word[1]+word[2])
	}
	p, stdout, stderr := start(args...)
	p.Getenv = func(name string) string { return map[string]string{parts[1]: parts[2], "USER": "ann"}[name] }
	if status := execute(p); status != 0 {
		t.Errorf("%s: status %d: %s", command, status, stderr)
	}
	if parts[5] != "" {
		must.Succeed(t, os.WriteFile(parts[5], stdout.Bytes(), 0o600))
		return ""
	}
	var shown bytes.Buffer
	for line := range bytes.Lines(stdout.Bytes()) {
		if bytes.Contains(line, []byte(parts[4])) {
			shown.Write(line)
		}
	}
	return shown.String()
}
