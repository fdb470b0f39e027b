package agents_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/built"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/npm"
	"signalbox/internal/testkit/offline"
)

// Environment variables: whether to run, and where the programs are.
const (
	modeVariable    = "SIGNALBOX_AGENTS"
	kitVariable     = "SIGNALBOX_AGENTS_KIT"
	programVariable = "SIGNALBOX_AGENTS_PROGRAM"
)

// patience is the timeout of a program. It is far longer than any program takes.
const patience = 15 * time.Minute

// TestRealAgents runs itself again in a namespace without a network, where it runs the programs.
func TestRealAgents(t *testing.T) {
	if offline.Inside() {
		runPlans(t)
		return
	}
	if mode := os.Getenv(modeVariable); mode != "run" && mode != "all" {
		t.Skip("this test installs and runs real agent programs: run it with make test-agents")
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the programs are pinned for Linux on x64")
	}
	start := time.Now()
	k := npm.NeedAgents(t, "testdata")
	t.Logf("the programs were installed after %v", time.Since(start).Round(time.Second))
	program, err := built.Program(t.TempDir())
	must.Succeed(t, err)
	limit := 2 * patience
	if os.Getenv(modeVariable) == "all" {
		limit *= 4
	}
	offline.Run(t, limit, kitVariable+"="+string(k), programVariable+"="+program)
}

// project is a git repository with a box, and the environment of its programs.
type project struct {
	program, dir string
	env          []string
}

// run runs a program in the project and returns its standard output.
func (s *project) run(t *testing.T, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = s.dir, s.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, tail(out), tail(stderr.Bytes()))
	}
	return out
}

// tail returns the last 8,000 bytes of a text.
func tail(text []byte) []byte { return text[max(0, len(text)-8000):] }

// newProject creates the project. Programs inherit only PATH from this machine's environment: no
// keys, no proxies, no settings.
func newProject(t *testing.T) *project {
	t.Helper()
	root := t.TempDir()
	s := &project{program: os.Getenv(programVariable), dir: filepath.Join(root, "project")}
	home := filepath.Join(root, "home")
	path := append(npm.Agents(os.Getenv(kitVariable)).Path(), os.Getenv("PATH"))
	s.env = []string{"PATH=" + strings.Join(path, string(filepath.ListSeparator)), "HOME=" + home,
		"TMPDIR=" + root, "USER=ann", "LANG=C.UTF-8", "TERM=dumb",
		"GIT_CONFIG_NOSYSTEM=1", "NO_COLOR=1", "AGENTS_TEST=" + root}
	for _, dir := range []string{s.dir, home} {
		must.Succeed(t, os.Mkdir(dir, 0o700))
	}
	must.Succeed(t, os.WriteFile(filepath.Join(s.dir, "README.md"), []byte("# Greetings\n"),
		0o600))
	s.run(t, "git", "init", "-q", "-b", "main")
	s.run(t, "git", "add", "-A")
	s.run(t, "git", "-c", "user.name=ann", "-c", "user.email=ann@localhost", "commit", "-q", "-m",
		"first commit")
	s.run(t, s.program, "init")
	return s
}

// configure names three programs of three vendors, so that each role gets another one, and the same
// model server for all of them.
func (s *project) configure(t *testing.T, server addresses) {
	t.Helper()
	text := fmt.Sprintf(`agents:
  developing: {preset: codex, model: rehearsal, base_url: %q, vendor: openai}
  reviewing: {preset: opencode, model: rehearsal, base_url: %q, vendor: opencode}
  auditing: {preset: gemini, model: rehearsal, base_url: %q, vendor: google}
agent: [developing, reviewing, auditing]
independence: vendor
roles:
  developer: {timeout: 10m}
  critic: {timeout: 10m}
  auditor: {timeout: 10m}
`, server.OpenAI, server.OpenAI, server.Gemini)
	s.writeConfig(t, text)
}

// configureOpencode assigns opencode to all roles.
func (s *project) configureOpencode(t *testing.T, server addresses) {
	t.Helper()
	s.writeConfig(t, fmt.Sprintf(`agents:
  all: {preset: opencode, model: rehearsal, base_url: %q}
agent: all
`, server.OpenAI))
}

// writeConfig writes the configuration. The variable shows which processes the agents started.
func (s *project) writeConfig(t *testing.T, text string) {
	t.Helper()
	timeouts := 1
	if strings.Contains(text, "timeout: 90s") { // it happens on purpose
		timeouts = 2
	}
	text += fmt.Sprintf("limits: {timeouts: %d, unknown: 1, reviews: 1, audits: 1}\nenv_pass: [AGENTS_TEST]\n", timeouts)
	must.Succeed(t, os.WriteFile(filepath.Join(s.dir, ".signalbox", "signalbox.yaml"), []byte(text),
		0o600))
}

// addresses is the output of rehearse model.
type addresses struct{ OpenAI, Anthropic, Gemini string }

// serve starts the model server with a script. The function end stops it and returns the requests
// that it received.
func (s *project) serve(t *testing.T, script string) (a addresses, end func() []asked) {
	t.Helper()
	log := filepath.Join(filepath.Dir(s.dir), "asked.jsonl")
	cmd := exec.Command(s.program, "rehearse", "model", script, "--json", "--log", log)
	cmd.Env = s.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.Succeed(t, err)
	ended := false
	stop := func() {
		if ended {
			return
		}
		ended = true
		cmd.Process.Signal(os.Interrupt)
		io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the model server failed: %v", err)
		}
		if t.Failed() {
			t.Logf("the model server printed:\n%s", stderr.Bytes())
		}
	}
	t.Cleanup(stop)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err == nil {
		err = json.Unmarshal([]byte(line), &a)
	}
	if err != nil {
		t.Fatalf("the model server did not start: %v: %s", err, line)
	}
	return a, func() []asked {
		stop()
		text, err := os.ReadFile(log)
		must.Succeed(t, err)
		return lines[asked](t, text)
	}
}

func example(t *testing.T, name string) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("..", "..", "examples", "model", name))
	must.Succeed(t, err)
	return file
}

// lines decodes JSON lines.
func lines[T any](t *testing.T, text []byte) (all []T) {
	t.Helper()
	for line := range bytes.Lines(text) {
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, v)
	}
	return all
}

// runPlans runs the plan in the namespace and checks the results: with another program in each
// role, and with opencode in all roles and both tasks at the same time. Then a program renews its
// login, and runs of another plan are interrupted.
func runPlans(t *testing.T) {
	offline.Start(t)
	t.Run("each role", func(t *testing.T) {
		s := newProject(t)
		server, end := s.serve(t, example(t, "greetings.yaml"))
		s.configure(t, server)
		heard, requests := s.runPlan(t, example(t, "greetings.md"), end)
		checkAsked(t, requests)
		want := []string{
			"T1 developer developing 1 ready_for_review", "T1 critic reviewing 1 review_passed",
			"T1 auditor auditing 1 audit_passed",
			"T2 developer developing 1 ready_for_review", "T2 critic reviewing 1 review_passed",
			"T2 auditor auditing 1 audit_passed",
		}
		if diff := cmp.Diff(want, heard); diff != "" {
			t.Errorf("heard (-want +got):\n%s", diff)
		}
	})
	t.Run("opencode at the same time", func(t *testing.T) {
		s := newProject(t)
		server, end := s.serve(t, example(t, "greetings.yaml"))
		s.configureOpencode(t, server)
		text, err := os.ReadFile(example(t, "greetings.md"))
		must.Succeed(t, err)
		plan := filepath.Join(filepath.Dir(s.dir), "plan.md")
		must.Succeed(t, os.WriteFile(plan, bytes.ReplaceAll(text, []byte("**Blocked By**: T1"),
			[]byte("**Blocked By**: none")), 0o600))
		heard, _ := s.runPlan(t, plan, end)
		slices.Sort(heard)
		want := []string{
			"T1 auditor all 1 audit_passed", "T1 critic all 1 review_passed",
			"T1 developer all 1 ready_for_review",
			"T2 auditor all 1 audit_passed", "T2 critic all 1 review_passed",
			"T2 developer all 1 ready_for_review",
		}
		if diff := cmp.Diff(want, heard); diff != "" {
			t.Errorf("heard (-want +got):\n%s", diff)
		}
	})
	t.Run("renewed login", renewLogins)
	t.Run("interrupted", resumePlans)
	if os.Getenv(modeVariable) == "all" {
		t.Run("continued", continuePlans)
		t.Run("refused", refusePlans)
		t.Run("findings", compareFindings)
	}
}

// runPlan runs a plan, stops the model server, and checks the results. It returns the signals that
// were heard and the requests to the model.
func (s *project) runPlan(t *testing.T, plan string,
	stopServer func() []asked) (heard []string, requests []asked) {
	t.Helper()
	start := time.Now()
	s.run(t, s.program, "run", plan, "--json", "--no-wait")
	t.Logf("the plan took %v", time.Since(start).Round(time.Second))
	requests = stopServer()
	heard = s.checkLedger(t, "T1", "T2", "B-1")
	for name, want := range map[string]string{"hello.txt": "hello\n", "salve.txt": "salve\n"} {
		if got := string(s.run(t, "git", "show", "main:"+name)); got != want {
			t.Errorf("%s was merged as %q", name, got)
		}
		if got, err := os.ReadFile(filepath.Join(s.dir, name)); string(got) != want {
			t.Errorf("%s is %q: %v", name, got, err)
		}
	}
	if left := s.processes(t); len(left) > 0 {
		t.Errorf("processes are still running: %q", left)
	}
	return heard, requests
}

// checkLedger checks that this work is completed and there is no other, that no failure was
// recorded, and that all agents were in a sandbox. It returns which agent sent which signal in
// which role.
func (s *project) checkLedger(t *testing.T, want ...string) (heard []string) {
	t.Helper()
	var work []struct{ ID, Phase string }
	must.Succeed(t, json.Unmarshal(s.run(t, s.program, "work", "list", "--json"), &work))
	phases := map[string]string{}
	for _, w := range work {
		phases[w.ID] = w.Phase
	}
	completed := map[string]string{}
	for _, id := range want {
		completed[id] = "COMPLETED"
	}
	if diff := cmp.Diff(completed, phases); diff != "" {
		t.Errorf("work (-want +got):\n%s", diff)
	}
	s.run(t, s.program, "ledger", "verify")

	type event struct {
		Type, Work, Session string
		Data                struct {
			Role, Agent, Signal string
			Attempt             int
			Sandbox             struct{ Mode, Layers string }
		}
	}
	roles, agents := map[string]string{}, map[string]string{}
	var bad []string
	for _, e := range lines[event](t, s.run(t, s.program, "ledger", "tail", "-n", "0", "--json")) {
		switch e.Type {
		case "LeaseGranted":
			roles[e.Session] = e.Data.Role
		case "AgentStarted":
			agents[e.Session] = e.Data.Agent + " " + strconv.Itoa(e.Data.Attempt)
			if e.Data.Sandbox.Mode != "enforce" || !strings.Contains(e.Data.Sandbox.Layers,
				"landlock") {
				t.Errorf("%s was in the sandbox %+v", e.Data.Agent, e.Data.Sandbox)
			}
		case "SignalHeard":
			heard = append(heard,
				strings.Join([]string{e.Work, roles[e.Session], agents[e.Session], e.Data.Signal},
					" "))
		case "SignalRefused", "UnknownSignalRecovery", "AgentSignalFailure", "AgentFailed",
			"QuestionAsked":
			bad = append(bad, e.Type+" "+e.Work)
		}
	}
	if len(bad) > 0 {
		t.Errorf("the ledger has %q", bad)
	}
	return heard
}

// asked is a request to the model, from the server's log.
type asked struct {
	Protocol, Conversation, Outcome string
	UserAgent                       string `json:"user_agent"`
	Status                          int
	Tools                           []string
	Usage                           struct{ Input, Output int }
	Body                            json.RawMessage
}

// checkAsked checks that each role ran its own program in the pinned version, by the protocol, the
// tools and the user agent of its requests.
func checkAsked(t *testing.T, requests []asked) {
	t.Helper()
	type client struct{ protocol, tool, userAgent string }
	versions := pinned(t)
	clients := map[string]client{
		"developer": {"responses", "exec_command", "codex_exec/" + versions["codex"]},
		"critic":    {"chat", "bash", "opencode/" + versions["opencode"]},
		"auditor":   {"gemini", "run_shell_command", "GeminiCLI"},
		"title":     {"chat", "", "opencode/" + versions["opencode"]},
	}
	count := map[string]int{}
	for _, r := range requests {
		count[r.Conversation]++
		role, _, _ := strings.Cut(r.Conversation, " ")
		p, known := clients[role]
		if !known || r.Status != 200 || r.Protocol != p.protocol ||
			!strings.Contains(r.UserAgent, p.userAgent) ||
			p.tool != "" && !slices.Contains(r.Tools, p.tool) {
			t.Errorf("request: %+v, want %+v", r, p)
		}
	}
	for _, role := range []string{"developer", "critic", "auditor"} {
		for _, task := range []string{"T1", "T2"} {
			// one that ends with a tool call, and one that ends with a signal
			if n := count[role+" of "+task]; n != 2 {
				t.Errorf("the %s of %s made %d requests, want 2", role, task, n)
			}
		}
	}
}

// processes returns the command lines of all running processes that the project's programs started,
// directly or indirectly. They inherit the variable AGENTS_TEST.
func (s *project) processes(t *testing.T) (left []string) {
	t.Helper()
	mark := []byte("AGENTS_TEST=" + filepath.Dir(s.dir) + "\x00")
	found, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil || len(found) == 0 {
		t.Fatalf("cannot list processes: %v", err)
	}
	for _, name := range found {
		if env, err := os.ReadFile(name); err != nil || !bytes.Contains(append(env, 0), mark) {
			continue // it is not ours, or has ended
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
		left = append(left, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
	}
	return left
}
