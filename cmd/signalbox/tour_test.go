package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	tourBlock = regexp.MustCompile("(?ms)^```\n(\\$ .*?)^```$")
	// A tour entry is a command and what it prints: "$ [VARIABLE=value] signalbox … [| grep word] [> file]".
	tourEntry   = regexp.MustCompile(`(?m)^\$ (.*)\n((?:[^$\n].*\n|\n)*)`)
	tourCommand = regexp.MustCompile(`^(?:(\w+)=(\w+) )?signalbox ([^|>]+?)(?: \| grep (\w+))?(?: > (\S+))?$`)
	tourWord    = regexp.MustCompile(`'([^']*)'|(\S+)`)
)

// varies lists the parts of the output that vary between runs, with their replacements for comparison.
var varies = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`), "TIME"},
	{regexp.MustCompile(`l-[0-9a-f]{12}`), "LEASE"},
	{regexp.MustCompile(`run T-[0-9a-f]{12}`), "run RUN"},
	{regexp.MustCompile(`\d+ tokens, rehearsal, session O-[0-9a-f]{12}`), "COST and SESSION"},
	{regexp.MustCompile(`\+[0-9a-f]{8}\+\S{44}`), "+KEY"},
	{regexp.MustCompile(`box-[0-9a-f]{12}`), "BOX"},
	{regexp.MustCompile(`secret-[A-Z2-7]{52}`), "SECRET"},
	{regexp.MustCompile(`[0-9a-f]{64}`), "HASH"},
	{regexp.MustCompile(`signing key: .*/signalbox/keys/`), "signing key: HOME/"},
	{regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d `), "CLOCK "},
	{regexp.MustCompile(`asked \d{4}-\d\d-\d\d \d\d:\d\d`), "asked DAY"},
	{regexp.MustCompile(`merged as [0-9a-f]{7}`), "merged as COMMIT"},
	{regexp.MustCompile(`\b\d+m?s\b`), "LONG"},
}

func steady(text string) string {
	text = filepath.ToSlash(text)
	for _, v := range varies {
		text = v.what.ReplaceAllString(text, v.by)
	}
	return strings.TrimSuffix(text, "\n")
}

func readDocument(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTourShowsRealOutput runs the commands of docs/tour.md in a folder that has the examples, and compares their output.
func TestTourShowsRealOutput(t *testing.T) {
	document := readDocument(t, "docs/tour.md")
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
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
				t.Errorf("%s (-docs/tour.md +real):\n%s", command, diff)
			}
		}
	}
	if tried < 10 {
		t.Errorf("%d commands found in docs/tour.md: the search for them is broken", tried)
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
	p.getenv = func(name string) string { return map[string]string{parts[1]: parts[2], "USER": "ann"}[name] }
	if status := p.run(); status != 0 {
		t.Errorf("%s: status %d: %s", command, status, stderr)
	}
	if parts[5] != "" {
		if err := os.WriteFile(parts[5], stdout.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
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
