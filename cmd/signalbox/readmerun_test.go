package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readmeAgents is what the agents do in the README's first plan, in the place of claude.
const readmeAgents = `
on developer T1:
    write greet.sh <<END
echo "Hello, ${1:-world}."
END
    signal READY_FOR_REVIEW: {task}
on developer T2 attempt 1:
    signal SEEKING_DIVINE_CLARIFICATION
        Task: {task}
        Question: Should an unknown language be refused, or greeted in English?
on developer T2 attempt 2+:
    expect "greet in English"
    append greet.sh true
    signal READY_FOR_REVIEW: {task}
on critic *:
    signal REVIEW_PASSED: {task}
on auditor *:
    signal AUDIT_PASSED: {task}
`

var readmeConsole = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// readmeBlock is the only block of the README in a language.
func readmeBlock(t *testing.T, readme, language string) string {
	t.Helper()
	found := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(readme, -1)
	if len(found) != 1 {
		t.Fatalf("README.md has %d blocks of %s", len(found), language)
	}
	return found[0][1]
}

func writeFile(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func needsAgents(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("agents cannot be run on Windows")
	}
	t.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector would make every agent wait a second
}

// TestReadmeFirstPlan does what "Your first plan" says, in a repository of its own and with a claude that follows a script. A
// run there ends at the question, and is given again after the answer: else it would need a second terminal.
func TestReadmeFirstPlan(t *testing.T) {
	needsAgents(t)
	readme := readReadme(t)
	dir := t.TempDir()
	moveTo(t.Setenv, filepath.Join(dir, "home"))
	t.Setenv("IS_SANDBOX", "1") // a claude that is run by root wants to know
	t.Setenv("PATH", filepath.Join(dir, "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
	project := filepath.Join(dir, "greeting")
	for _, folder := range []string{"bin", "greeting"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script := filepath.Join(dir, "agents.script")
	writeFile(t, script, readmeAgents, 0o600)
	writeFile(t, filepath.Join(dir, "bin", "claude"), "#!/bin/sh\nexec signalbox rehearse agent '"+script+"' --format claude\n", 0o700)
	writeFile(t, filepath.Join(project, "plan.md"), readmeBlock(t, readme, "markdown"), 0o600)
	writeFile(t, filepath.Join(project, "test.sh"), "test ! -f greet.sh || sh greet.sh Ann | grep -q 'Hello, Ann.'\n", 0o600)
	t.Chdir(project)
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"-c", "user.name=ann", "-c", "user.email=ann@example.org", "commit", "-q", "-m", "plan"}} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	tried := 0
	for _, block := range readmeConsole.FindAllStringSubmatch(readme, -1) {
		for _, entry := range tourEntry.FindAllStringSubmatch(block[1], -1) {
			tried++
			firstPlan(t, entry[1], entry[2])
		}
		if tried == 1 { // the box is there
			writeFile(t, filepath.Join(".signalbox", "signalbox.yaml"), readmeBlock(t, readme, "yaml"), 0o600)
		}
	}
	if tried != 7 {
		t.Errorf("%d commands found in README.md: the search for them is broken", tried)
	}
}

// firstPlan tries one command of the README's first plan.
func firstPlan(t *testing.T, command, want string) {
	t.Helper()
	wantStatus, running, answering := 0, strings.HasPrefix(command, "signalbox run"), strings.HasPrefix(command, "signalbox answer")
	if running {
		command, wantStatus = command+" --no-wait", 1
	}
	got := sayAtPrompt(t, command, wantStatus)
	if running {
		got, _, _ = strings.Cut(got, "\nTASK")
	}
	if diff := cmp.Diff(steady(want), steady(strings.TrimSuffix(got, "\n"))); want != "" && diff != "" {
		t.Errorf("%s (-README +real):\n%s", command, diff)
	}
	if answering {
		if got := sayAtPrompt(t, "signalbox run plan.md --no-wait", 0); !strings.Contains(got, "complete: 2 of 2 tasks") {
			t.Errorf("after the answer:\n%s", got)
		}
	}
}

func sayAtPrompt(t *testing.T, command string, wantStatus int) string {
	t.Helper()
	var args []string
	for _, word := range tourWord.FindAllStringSubmatch(command, -1) {
		args = append(args, word[1]+word[2])
	}
	p, stdout, stderr := start(args[1:]...)
	p.getenv = func(name string) string { return map[string]string{"USER": "ann"}[name] }
	if status := p.run(); status != wantStatus {
		t.Errorf("%s: status %d, want %d: %s%s", command, status, wantStatus, stdout, stderr)
	}
	return stdout.String()
}

// TestReadmeShowsTheDemo compares the lines that the README has of the demo with those of a demo. Their order varies.
func TestReadmeShowsTheDemo(t *testing.T) {
	needsAgents(t)
	_, after, _ := strings.Cut(readReadme(t), "\nElsewhere, or with `--plain`, it prints lines like these")
	_, after, _ = strings.Cut(after, "\n```\n")
	shown, _, _ := strings.Cut(after, "\n```\n")
	out, err := exec.Command("signalbox", "demo", "--plain").Output()
	if err != nil {
		t.Fatalf("the demo: %v\n%s", err, out)
	}
	spaces, counts := regexp.MustCompile(` {2,}`), regexp.MustCompile(`\d+ (events|cases)`)
	plain := func(line string) string { // how many there are depends on who was faster
		return counts.ReplaceAllString(spaces.ReplaceAllString(strings.TrimSpace(line), " "), "N $1")
	}
	real := map[string]bool{}
	for line := range strings.Lines(steady(string(out))) {
		real[plain(line)] = true
	}
	lines := 0
	for line := range strings.Lines(steady(shown)) {
		line = plain(line)
		if strings.HasSuffix(line, "…") { // something is left out
			continue
		}
		lines++
		if !real[line] {
			t.Errorf("the demo does not say: %s", line)
		}
	}
	if lines < 30 {
		t.Errorf("%d lines of the demo found in README.md: the search for them is broken", lines)
	}
}
