package main

import (
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/run/agent"
	"signalbox/internal/run/plan"
	"signalbox/internal/testkit/must"
)

// firstPlanAgents is the script of the agents in docs/tutorial/first-plan.md, which replaces
// claude.
const firstPlanAgents = `
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

var consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// onlyBlock returns the only code block of a document in a language.
func onlyBlock(t *testing.T, document, language string) string {
	t.Helper()
	found := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(document,
		-1)
	if len(found) != 1 {
		t.Fatalf("found %d blocks of %s", len(found), language)
	}
	return found[0][1]
}

func writeFile(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	must.Succeed(t, os.WriteFile(name, []byte(text), mode))
}

func needsAgents(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("agents cannot be run on Windows")
	}
}

// TestFirstPlan follows docs/tutorial/first-plan.md in a repository of its own, with a claude that
// follows a script. Because there is no second terminal, the run ends at the question and is
// started again after the answer.
func TestFirstPlan(t *testing.T) {
	needsAgents(t)
	document := readDocument(t, "docs/tutorial/first-plan.md")
	dir := t.TempDir()
	moveTo(t.Setenv, filepath.Join(dir, "home"))
	t.Setenv("IS_SANDBOX", "1") // claude refuses to run as root without it
	t.Setenv("PATH", filepath.Join(dir, "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
	project := filepath.Join(dir, "greeting")
	for _, folder := range []string{"bin", "greeting"} {
		must.Succeed(t, os.Mkdir(filepath.Join(dir, folder), 0o700))
	}
	script := filepath.Join(dir, "bin", "agents.script") // an agent may read the folders on PATH
	writeFile(t, script, firstPlanAgents, 0o600)
	writeFile(t, filepath.Join(dir, "bin", "claude"), "#!/bin/sh\nexec signalbox rehearse agent '"+
		script+"' --format claude\n", 0o700)
	writeFile(t, filepath.Join(project, "plan.md"), onlyBlock(t, document, "markdown"), 0o600)
	writeFile(t, filepath.Join(project, "test.sh"), onlyBlock(t, document, "sh"), 0o600)
	t.Chdir(project)
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."},
		{"-c", "user.name=ann", "-c", "user.email=ann@example.org", "commit", "-q", "-m", "plan"}} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	tried := 0
	for _, block := range consoleBlock.FindAllStringSubmatch(document, -1) {
		for _, entry := range tourEntry.FindAllStringSubmatch(block[1], -1) {
			tried++
			firstPlan(t, entry[1], entry[2], onlyBlock(t, document, "text"))
		}
		if tried == 1 { // the box exists now
			writeFile(t, filepath.Join(".signalbox", "signalbox.yaml"),
				onlyBlock(t, document, "yaml"), 0o600)
		}
	}
	if tried != 7 {
		t.Errorf("%d commands found in docs/tutorial/first-plan.md: the search for them is broken",
			tried)
	}
}

// firstPlan runs one command of docs/tutorial/first-plan.md. After the answer, the run must print
// end.
func firstPlan(t *testing.T, command, want, end string) {
	t.Helper()
	wantStatus, running, answering := 0, strings.HasPrefix(command, "signalbox run"),
		strings.HasPrefix(command, "signalbox answer")
	if running {
		command, wantStatus = command+" --no-wait", 1
	}
	leave := func() {}
	if answering { // the run in the other terminal
		leave = joinRun(t, ".signalbox")
	}
	got := sayAtPrompt(t, command, wantStatus)
	leave()
	if running {
		got, _, _ = strings.Cut(got, "\nTASK")
	}
	if diff := cmp.Diff(steady(want), steady(strings.TrimSuffix(got, "\n"))); want != "" &&
		diff != "" {
		t.Errorf("%s (-docs/tutorial/first-plan.md +real):\n%s", command, diff)
	}
	if answering {
		got := sayAtPrompt(t, "signalbox run plan.md --no-wait", 0)
		if !strings.Contains(got, "complete: 2 of 2 tasks") {
			t.Errorf("after the answer:\n%s", got)
		}
		if !strings.Contains(steady(got), steady(end)) {
			t.Errorf("after the answer the document shows\n%snot\n%s", end, got)
		}
	}
}

// joinRun registers this process as a run of a box, as signalbox run does, until leave is called.
func joinRun(t *testing.T, box string) (leave func()) {
	t.Helper()
	owner, err := agent.Join(filepath.Join(box, agent.RegisterFolder))
	must.Succeed(t, err)
	return func() {
		if err := owner.Leave(); err != nil {
			t.Error(err)
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
	p.Getenv = func(name string) string { return map[string]string{"USER": "ann"}[name] }
	if status := execute(p); status != wantStatus {
		t.Errorf("%s: status %d, want %d: %s%s", command, status, wantStatus, stdout, stderr)
	}
	return stdout.String()
}

// TestReadmePlan checks that the plan in the README is valid, and that its settings are those of
// docs/tutorial/first-plan.md.
func TestReadmePlan(t *testing.T) {
	readme := readDocument(t, "README.md")
	if _, err := plan.Parse("plan.md", []byte(onlyBlock(t, readme, "markdown")), nil); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(onlyBlock(t, readDocument(t, "docs/tutorial/first-plan.md"), "yaml"),
		onlyBlock(t, readme, "yaml")); diff != "" {
		t.Errorf("settings (-docs/tutorial/first-plan.md +README.md):\n%s", diff)
	}
	if lines := strings.Count(readme, "\n"); lines >= 200 {
		t.Errorf("README.md has %d lines; move details to docs", lines)
	}
}

var (
	severalSpaces = regexp.MustCompile(` {2,}`)
	demoCounts    = regexp.MustCompile(`\d+ (events|cases)`) // vary with the order of the agents
	// the last of two blockers unblocks a task
	demoUnblocked = regexp.MustCompile(`; .* can start$`)
	svgText       = regexp.MustCompile(`<text [^>]*>([^<]*)</text>`)
	eventLine     = regexp.MustCompile(`^CLOCK |^\d\d:\d\d:\d\d `)
)

// demoLine returns a line of the demo without the parts that vary between runs.
func demoLine(line string) string {
	line = demoUnblocked.ReplaceAllString(strings.TrimSpace(line), "")
	return demoCounts.ReplaceAllString(severalSpaces.ReplaceAllString(line, " "), "N $1")
}

// documentsShowTheDemo compares the output in docs/tutorial/demo.md, and the events in its picture, with
// that of a real demo. The order of the lines varies.
func documentsShowTheDemo(t *testing.T, out string) {
	t.Helper()
	printed := map[string]bool{}
	for line := range strings.Lines(steady(out)) {
		printed[demoLine(line)] = true
	}
	shown := 0
	for _, block := range regexp.MustCompile("(?ms)^```\n(.*?)^```$").FindAllStringSubmatch(
		readDocument(t, "docs/tutorial/demo.md"), -1) {
		for line := range strings.Lines(steady(block[1])) {
			shown++
			if !printed[demoLine(line)] {
				t.Errorf("docs/tutorial/demo.md: the demo does not print: %s", line)
			}
		}
	}
	for _, text := range svgText.FindAllStringSubmatch(readDocument(t, "docs/pictures/demo.svg"),
		-1) {
		line := demoLine(steady(html.UnescapeString(text[1])))
		if !eventLine.MatchString(line) || strings.HasSuffix(line, "…") {
			continue
		}
		shown++
		if !printed[line] {
			t.Errorf("docs/pictures/demo.svg: the demo does not print: %s", line)
		}
	}
	if shown < 50 {
		t.Errorf("found %d lines of the demo: the search for them is broken", shown)
	}
}
