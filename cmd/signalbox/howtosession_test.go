package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

var (
	howToHash   = regexp.MustCompile(`\b[0-9a-f]{7,}\b`)
	howToNumber = regexp.MustCompile(`\d+`)
	howToFolder = regexp.MustCompile(`[^\s"<]*/`)
	// howToServer matches commands whose output the session does not produce, because they need a
	// server.
	howToServer = regexp.MustCompile(`(?m)^\$ (?:curl|signalbox rehearse model) .*\n(?:[^$].*\n)*`)
)

// howToMessages matches the tables of messages that the session produces, and howToMessage the
// messages in one row.
var (
	howToMessages = regexp.MustCompile(
		`(?s)\*\*The run does not start:\*\*(.*)\*\*Agents fail:|## (?:If restore refuses\n(.*)\n## |What the run says\n.*)`)
	howToRow     = regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|")
	howToMessage = regexp.MustCompile("`([^`]+)`")
)

// howToLine returns a line of output without what differs from run to run.
func howToLine(line string) string {
	line = howToNumber.ReplaceAllString(howToHash.ReplaceAllString(line, "HASH"), "N")
	return severalSpaces.ReplaceAllString(strings.TrimSpace(howToFolder.ReplaceAllString(line,
		"/")), " ")
}

// TestHowToPagesShowRealOutput compares every line of output in the how-to pages with what the
// program prints. A line that ends with … is shortened.
func TestHowToPagesShowRealOutput(t *testing.T) {
	needsAgents(t)
	t.Parallel()
	dir := t.TempDir()
	_, script, _ := strings.Cut(readDocument(t, "docs/how-to/rehearsal.md"), "\n```\n")
	script, _, _ = strings.Cut(script, "```")
	scriptFile := filepath.Join(dir, "rehearsal.script")
	writeFile(t, scriptFile, script, 0o600)
	here, err := os.Getwd()
	must.Succeed(t, err)
	session := exec.Command("sh", filepath.Join(here, "testdata", "howto.sh"),
		filepath.Join(here, "..", "..", "examples"), scriptFile)
	session.Dir, session.Env = dir, append(homeAt(filepath.Join(dir, "home")), "USER=ann")
	out, err := session.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var printed []string
	for line := range strings.Lines(string(out)) {
		printed = append(printed, howToLine(line))
	}
	for _, name := range []string{"docs/how-to/running.md",
		"docs/explanation/how-a-run-works.md", "docs/reference/plans.md", "docs/how-to/prompts.md",
		"docs/how-to/rehearsal.md", "docs/how-to/backup.md", "docs/how-to/stuck.md"} {
		shown := 0
		for _, block := range consoleBlock.FindAllStringSubmatch(readDocument(t, name), -1) {
			for line := range strings.Lines(howToServer.ReplaceAllString(block[1], "")) {
				if strings.HasPrefix(line, "$ ") {
					continue
				}
				shown++
				want, shortened := strings.CutSuffix(howToLine(line), "…")
				if !slices.ContainsFunc(printed,
					func(got string) bool { return got == want || shortened && strings.HasPrefix(got, want) }) {
					t.Errorf("%s: signalbox does not print: %s", name, line)
				}
			}
		}
		for _, table := range howToMessages.FindAllString(readDocument(t, name), -1) {
			for _, row := range howToRow.FindAllStringSubmatch(table, -1) {
				for _, message := range howToMessage.FindAllStringSubmatch(row[1], -1) {
					shown++
					if !slices.ContainsFunc(printed,
						contains(strings.Split(howToLine(message[1]), "…"))) {
						t.Errorf("%s: signalbox does not print the message: %s", name, message[1])
					}
				}
			}
		}
		if shown < 2 {
			t.Errorf("%s: %d lines of output found: the search for them is broken", name, shown)
		}
	}
	if t.Failed() {
		t.Logf("it prints:\n%s", out)
	}
}

// contains returns a function that reports whether a line contains all parts.
func contains(parts []string) func(line string) bool {
	return func(line string) bool {
		for _, part := range parts {
			if !strings.Contains(line, strings.TrimSpace(part)) {
				return false
			}
		}
		return true
	}
}
