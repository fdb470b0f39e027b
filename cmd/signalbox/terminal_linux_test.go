package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/testkit/must"
)

// hostile is what an agent, a model, a repository or a server might write: it sets the title of the
// window, clears the screen with both forms of the sequence, turns the text around, and overwrites
// what was before. The word pwned is not part of a sequence, so that a test can see that the text
// was printed at all.
const hostile = "pwned\x1b]0;title\x07\x1b[2J\u009b2J\u202e\u2066\x7f\b\x0b\u200b\u3164\ufe0f\u2800."

// terminalWorld is a folder with a project, a box and files in which all text is hostile.
type terminalWorld struct {
	t   *testing.T
	dir string
	env []string
	// columns is the width of the terminal. A terminal of 0 columns does not know its width.
	columns int
}

func (w *terminalWorld) write(name, content string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	must.Succeed(w.t, os.MkdirAll(filepath.Dir(path), 0o700))
	writeFile(w.t, path, content, 0o600)
}

func (w *terminalWorld) command(stdin string, args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin = w.dir, append(os.Environ(), w.env...), strings.NewReader(stdin)
	return cmd
}

// piped runs the program with its outputs in pipes, and returns standard output.
func (w *terminalWorld) piped(stdin string, args ...string) string {
	w.t.Helper()
	out, err := w.command(stdin, append([]string{"signalbox"}, args...)...).Output()
	if exited := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exited) {
		w.t.Fatal(err)
	}
	return string(out)
}

// onTerminal runs the program with both outputs on a terminal, and returns what the terminal got.
func (w *terminalWorld) onTerminal(term, stdin string, args ...string) string {
	w.t.Helper()
	out, _ := w.endsOnTerminal(term, stdin, args...)
	return out
}

// endsOnTerminal is onTerminal with the exit status.
func (w *terminalWorld) endsOnTerminal(term, stdin string,
	args ...string) (out string, status int) {
	w.t.Helper()
	cmd := w.command(stdin, append([]string{"signalbox"}, args...)...)
	cmd.Env = append(cmd.Env, "TERM="+term)
	if term == "dumb" {
		cmd.Env = append(cmd.Env, "NO_COLOR=1")
	}
	c := openTerminal(w.t, w.columns, 50)
	defer c.Close()
	must.Succeed(w.t, c.SetVerbatim())
	c.starts(cmd)
	status = c.ends()
	return c.Written(), status
}

// unsafeCharacter returns the first character that a terminal obeys or hides, and its neighbours.
func unsafeCharacter(out string) string {
	i := strings.IndexFunc(out, func(r rune) bool {
		return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf) ||
			r == unicode.ReplacementChar)
	})
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("%q", out[max(0, i-40):min(len(out), i+40)])
}

// newTerminalWorld returns a world for a test that runs in parallel with others.
func newTerminalWorld(t *testing.T) *terminalWorld {
	t.Helper()
	needsAgents(t)
	t.Parallel()
	w := &terminalWorld{t: t, dir: t.TempDir(), columns: 200}
	home := filepath.Join(w.dir, "home")
	w.env = []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "USER=ann",
		"AGENT_EXIT_PROTOCOL_ENABLED=true"}

	quoted, err := json.Marshal(hostile) // also a string of YAML
	must.Succeed(t, err)
	script, err := modelserver.ParseScript("model.yaml", fmt.Appendf(nil, `
conversations:
  - match: {user: hello}
    turns:
      - parts: [{reasoning: %[1]s}, {text: %[1]s}, {call: {name: %[1]s, arguments: {path: %[1]s}}}, {call: {name: read_file, arguments: {path: %[1]s}}}]
      - parts: [{text: %[1]s}, {text: '<signal type="need_turn" confidence="0.9" reason=%[1]s/>'}]
      - parts: [{text: %[1]s}, {text: '<signal type="context_sufficient" confidence="0.9"/>'}]
otherwise: {parts: [{text: %[1]s}]}
`, quoted))
	must.Succeed(t, err)
	handler, err := modelserver.New(script, nil)
	must.Succeed(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)

	w.write("plan.md", "# Plan\n\n### Phase 1: One\n\n#### Task A: First\n\n**Work**: do it "+
		hostile+"\n\n**Acceptance Criteria**:\n\n- it works\n\n**Blocked By**: none\n")
	w.write("bad.md", "# Plan "+hostile+"\n\n### Phase "+hostile+"\n\n#### Task A: "+hostile+
		"\n\n**Work**: "+hostile+"\n\n**Priority**: "+hostile+"\n\n**Blocked By**: "+hostile+"\n")
	w.write("agents.script", "on developer A:\n    say "+hostile+
		"\n    signal SEEKING_DIVINE_CLARIFICATION\n        Task: A\n        Question: "+hostile+
		"\n        Options: "+hostile+"\n")
	w.write("reply.txt", hostile+"\nREADY_FOR_REVIEW: "+hostile+
		"\n<signal type=\"stuck\" reason=\""+hostile+"\"/>\nrest "+hostile)
	w.write("claude.jsonl",
		`{"type":"assistant","message":{"content":[{"type":"text","text":"CHECKPOINT: t1\nDone: pwned\u001b[2J\u009b2J\u202e\n"}]}}`+"\n"+`{"type":"result","is_error":true,"result":"pwned\u001b[2J\u009b2J"}`+"\n")
	w.write("exit.json",
		`{"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"IMPLEMENTATION","exit_reason":"completed","notes":`+string(quoted)+`}`)
	w.write("bad.json", `{"protocol":`+string(quoted)+`}`)
	w.write("tree.lua", `return BT.tree("small", { blackboard = { word = "string" }, root = BT.sequence({
    BT.script("say", function(t) t:set("word", "pwned\27[2J\194\155") t:emit("said", "pwned\27[2J") end),
    BT.script("break", function(t) return t:fail("pwned\27[2J\194\155") end) }) })`)
	w.write("bad.lua", `error("pwned\27[2J\194\155")`)
	w.write("tree_test.lua", `test("pwned\27[2J", function(t) error("pwned\27[2J") end)`)
	w.write("bad.yaml", "conversations: "+string(quoted)+"\n")
	w.write("bad.script", "on developer:\n    "+hostile+"\n")
	w.write("trades.csv",
		"Date,Action,Symbol,Description,Quantity,Price,Fees & Comm,Amount\n01/02/2026,"+hostile+","+
			hostile+","+hostile+",1,$1.00,,-$1.00\n")
	w.write(hostile+".txt", hostile)
	for _, args := range [][]string{{"git", "init", "-q", "-b", "main"}, {"git", "add", "plan.md"},
		{"git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "plan"},
		{"signalbox", "init"}} {
		if out, err := w.command("", args...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
	}
	w.write(".signalbox/signalbox.yaml",
		fmt.Sprintf("agent: scripted\nagents:\n  scripted: {command: [signalbox, rehearse, agent, %q]}\n"+
			"models: {main: {provider: openai, model: rehearsal, base_url: %q, tries: 1}}\noracle:\n  servers: {evil: {command: [%[3]s]}}\n",
			filepath.Join(w.dir, "agents.script"), server.URL+"/v1", quoted))
	return w
}

// shareHostileSettings commits a configuration for a team with hostile text.
func (w *terminalWorld) shareHostileSettings() {
	w.t.Helper()
	w.write("signalbox.yaml", "notify: {command: [echo, "+strconv.QuoteToASCII(hostile)+"]}\n")
	must.Succeed(w.t, os.MkdirAll(filepath.Join(w.dir, "prompts"), 0o700))
	w.write("prompts/critic.md", hostile)
	for _, args := range [][]string{{"git", "add", "signalbox.yaml", "prompts"},
		{"git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "team"}} {
		if out, err := w.command("", args...).CombinedOutput(); err != nil {
			w.t.Fatalf("%q: %v: %s", args, err, out)
		}
	}
}

// TestTrustAsks answers the question of signalbox trust on a terminal.
func TestTrustAsks(t *testing.T) {
	w := newTerminalWorld(t)
	w.shareHostileSettings()
	for _, tt := range []struct {
		typed   string
		trusted bool
	}{{"\n", false}, {"no\n", false}, {"yess\n", false}, {"\x04", false}, {"y\n", true}} {
		c := openTerminal(t, 80, 24)
		c.types(tt.typed)
		cmd := w.command("", "signalbox", "trust")
		var out strings.Builder
		cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, &out, &out
		c.starts(cmd)
		if status := c.ends(); !strings.Contains(out.String(), "[y/N] ") ||
			(status == 0) != tt.trusted {
			t.Errorf("%q: status %d: %s", tt.typed, status, out.String())
		}
		if found := unsafeCharacter(out.String()); found != "" {
			t.Errorf("%q: the output has %s", tt.typed, found)
		}
		if err := w.command("", "signalbox", "prompt", "developer", "A", "--plan",
			"plan.md").Run(); (err == nil) != tt.trusted {
			t.Errorf("after %q: %v", tt.typed, err)
		}
	}
}

// TestRunAsksAboutAnEditedPlan answers the question of a run whose plan was edited.
func TestRunAsksAboutAnEditedPlan(t *testing.T) {
	w := newTerminalWorld(t)
	w.piped("", "run", "plan.md", "--no-wait")
	w.write("plan.md", "# Plan\n\n#### Task A: First\n\n**Acceptance Criteria**:\n\n- it works\n\n"+
		"#### Task B: Second\n\n**Acceptance Criteria**:\n\n- it works\n")
	for _, tt := range []struct {
		typed string
		added bool
	}{{"n\n", false}, {"y\n", true}} {
		c := openTerminal(t, 80, 24)
		c.types(tt.typed)
		cmd := w.command("", "signalbox", "run", "plan.md", "--no-wait", "--plain")
		var out strings.Builder
		cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, &out, &out
		c.starts(cmd)
		if c.ends(); !strings.Contains(out.String(), "1 task added, 1 changed, 0 removed.") ||
			!strings.Contains(out.String(), "as signalbox plan update plan.md does? [y/N] ") {
			t.Errorf("%q: %s", tt.typed, out.String())
		}
		if added := strings.Contains(w.piped("", "work", "list"), "B "); added != tt.added {
			t.Errorf("after %q: B is in the plan: %v\n%s", tt.typed, added, out.String())
		}
	}
}

// TestRunAsksAboutAFinishedPlan answers the question of a run whose plan is finished and has other
// tasks now, in a file that is not committed: an "n" that means no starts nothing, and a new plan
// must be committed.
func TestRunAsksAboutAFinishedPlan(t *testing.T) {
	w := newTerminalWorld(t)
	w.write("plan.md", "# Plan\n\n#### Task F: First\n\n**Acceptance Criteria**:\n\n- it works\n")
	w.write("agents.script", "on developer:\n    touch {task}.txt\n"+
		"    signal READY_FOR_REVIEW: {task}\non critic:\n    signal REVIEW_PASSED: {task}\n"+
		"on auditor:\n    signal AUDIT_PASSED: {task}\n")
	commit := func() {
		t.Helper()
		out, err := w.command("", "git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q",
			"-m", "plan", "plan.md").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	commit()
	if out := w.piped("", "run", "plan.md", "--no-wait"); !strings.Contains(out,
		"1 of 1 task done") {
		t.Fatalf("the plan is not finished:\n%s", out)
	}
	w.write("plan.md", "# Plan\n\n#### Task B: Second\n\n**Acceptance Criteria**:\n\n- it works\n")
	for _, tt := range []struct {
		typed, says string
		commit      bool
		added       bool
	}{{"n\n", "it is the same plan", false, false},
		{"new\n", "there are uncommitted changes", false, false},
		{"n\n", "it is the same plan", true, false}, {"new\n", "1 of 1 task done", false, true}} {
		if tt.commit {
			commit()
		}
		c := openTerminal(t, 80, 24)
		c.types(tt.typed)
		cmd := w.command("", "signalbox", "run", "plan.md", "--no-wait", "--plain")
		var out strings.Builder
		cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, &out, &out
		c.starts(cmd)
		if status := c.ends(); (status == 0) != tt.added ||
			!strings.Contains(out.String(), tt.says) ||
			!strings.Contains(out.String(), "[new/same] ") {
			t.Errorf("%q: status %d: %s", tt.typed, status, out.String())
		}
		if added := strings.Contains(w.piped("", "work", "list"), "B "); added != tt.added {
			t.Errorf("after %q: B is in the plan: %v\n%s", tt.typed, added, out.String())
		}
	}
}

// digests returns the blobs of the box.
func (w *terminalWorld) digests() []string {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(w.dir, ".signalbox", "blobs", "??", "*"))
	if err != nil || len(found) == 0 {
		w.t.Fatalf("no blobs: %v", err)
	}
	for i := range found {
		found[i] = filepath.Base(filepath.Dir(found[i])) + filepath.Base(found[i])
	}
	return found
}

// TestTerminalsGetNoControlCharacters runs every command on a terminal, with hostile text in
// everything that it shows.
func TestTerminalsGetNoControlCharacters(t *testing.T) {
	w := newTerminalWorld(t)
	tested := map[string]bool{
		"demo":           true, // no text in it is hostile; it shows a run like run
		"worker":         true, // runs until it is interrupted, and shows a run like run
		"watch":          true, // the same
		"serve":          true, // serves until it is interrupted, and shows no text of agents
		"rehearse model": true, // serves until it is interrupted; its errors are tested below
	}
	run := func(path, stdin string, shows bool, args ...string) string {
		t.Helper()
		tested[path] = true
		out := w.onTerminal("dumb", stdin, append(strings.Fields(path), args...)...)
		if found := unsafeCharacter(out); found != "" {
			t.Errorf("%s %q: the terminal got %s", path, args, found)
		}
		if shows && !strings.Contains(out, "pwned") {
			t.Errorf("%s %q: the hostile text is missing, so this proves nothing:\n%s", path, args,
				out)
		}
		return out
	}
	// quiet and shown run a command whose output need not, or must, contain the hostile text.
	quiet := func(path string,
		args ...string) string {
		t.Helper()
		return run(path, "", false, args...)
	}
	shown := func(path string,
		args ...string) string {
		t.Helper()
		return run(path, "", true, args...)
	}

	shown("plan check", "bad.md")
	shown("plan check", "--json", "bad.md")
	shown("plan show", "bad.md")
	quiet("plan show", "plan.md")
	quiet("plan show", "--svg", "plan.md")
	quiet("plan show", "--json", "plan.md")
	shown("run", "bad.md")
	shown("run", "plan.md", "--no-wait", "--plain")
	quiet("run", "plan.md", "--no-wait", "--json")
	shown("questions")
	shown("questions", "--json")
	shown("pause", "A", "--reason", hostile, "--actor", hostile)
	quiet("pause", "A", "--reason", hostile)
	shown("resume", hostile)
	shown("cancel", hostile)
	quiet("clean", "--yes")
	shown("retry", hostile)
	shown("approve", hostile)
	shown("reject", hostile, "x")
	shown("rework", hostile, "x")
	quiet("rework", "A", hostile)
	quiet("waive", "A/F1", hostile)
	quiet("plan add-notes")
	shown("plan add-notes", hostile)
	shown("waive", hostile, "x")
	shown("tell", "A", "x", "--actor", hostile)
	quiet("add", hostile)
	quiet("tell", "A", "x")
	quiet("answer", "Q-1", hostile)
	quiet("answer", "Q-1", "yes")
	shown("prompt", "developer", "A")
	shown("prompt", "developer", hostile)
	shown("questions", "--all")

	shown("token create", hostile, "--scope", "read")
	shown("token create", "reader", "--scope", hostile)
	shown("token link", "--scope", hostile)
	quiet("token link", "--qr")
	quiet("token list")
	shown("token revoke", hostile)

	quiet("work open", "t1", "--title", hostile)
	quiet("work open", "t2")
	shown("work open", hostile)
	quiet("work list")
	quiet("work list", "--json")
	shown("work show", hostile)
	quiet("work show", "A")
	quiet("work claim", "t2", "--role", "developer", "--session", "s1")
	shown("work claim", hostile, "--role", "developer")
	shown("work renew", hostile, "--session", "s1", "--epoch", "1")
	shown("work release", hostile, "--session", "s1", "--epoch", "1")
	quiet("work exit", "--session", "s1", "bad.json")
	quiet("work exit", "--session", "s1", "exit.json")
	shown("work unblock", hostile, "--note", "x")

	quiet("status")
	quiet("status", "--json")
	shown("logs", "A", "--no-pager")
	shown("logs", hostile)
	quiet("explain", "A")
	shown("explain", hostile)
	quiet("stats")
	quiet("diff", "A")
	shown("diff", hostile)
	shown("plan new", "-", "--title", hostile)
	shown("plan import", hostile)
	shown("plan update", "bad.md", "--dry-run")
	quiet("notify test")

	shown("ledger tail")
	shown("ledger tail", "--json")
	shown("ledger export")
	quiet("ledger grant", hostile)
	quiet("ledger migrate", "--to", hostile)
	quiet("ledger migrate", "--to", "postgres://127.0.0.1:1/"+hostile)
	quiet("ledger migrate", "--to", "sqlite")
	seq := ""
	for line := range strings.Lines(w.piped("", "ledger", "tail", "--json")) {
		var e struct{ Seq int }
		if strings.Contains(line, "pwned") && json.Unmarshal([]byte(line), &e) == nil {
			seq = fmt.Sprint(e.Seq)
		}
	}
	shown("ledger prove", seq)
	w.write("proof.json", w.piped("", "ledger", "prove", seq))
	shown("ledger check", "proof.json")
	shown("ledger check", "--json", "proof.json")
	quiet("ledger check", "bad.json")
	shown("ledger verify", "--checkpoint", hostile)
	quiet("ledger verify")
	quiet("ledger checkpoint")
	quiet("ledger key")
	quiet("ledger accept-loss")
	quiet("ledger accept-loss", "--json")
	quiet("ledger repair")
	quiet("ledger repair", "--clock", "--reason", hostile)

	var hostileBlob string
	for _, digest := range w.digests() {
		if strings.Contains(w.piped("", "blob", "get", digest), hostile) {
			hostileBlob = digest
		}
	}
	shown("blob get", hostileBlob)
	quiet("blob redact", hostile, "--reason", hostile)
	quiet("blob redact", hostileBlob, "--reason", hostile)

	shown("scan", "--all", "reply.txt")
	shown("scan", "claude.jsonl")
	shown("scan", "--resolve", "claude.jsonl")
	shown("scan", "--format", hostile)
	shown("strip", "reply.txt")
	shown("exit check", "exit.json")
	quiet("exit check", "bad.json")

	shown("oracle", "hello", "--thoughts")
	shown("oracle", "hello", "--json")
	shown("oracle", "hello", "--answer")
	shown("oracle", "hello "+hostile)
	sessions := shown("oracle", "--sessions")
	quiet("oracle", "--sessions", "--json")
	id := strings.Fields(strings.SplitN(sessions, "\n", 3)[1])[0]
	shown("oracle", "--show", id)
	shown("oracle", "--show", id, "--json")
	quiet("oracle", "--tools")
	run("agent", "hello "+hostile, true)

	shown("tree check", "bad.lua")
	quiet("tree check", "--json", "bad.lua")
	shown("tree run", "tree.lua", "--journal", "run.journal")
	shown("tree run", "tree.lua", "--json")
	shown("tree replay", "--steps", "run.journal")
	shown("tree replay", "--json", "run.journal")
	shown("tree render", "run.journal")
	shown("tree render", "--format", "svg", "run.journal")
	quiet("tree render", "--format", "dot", "run.journal")
	shown("tree test", "tree_test.lua")

	quiet("portfolio init")
	shown("portfolio import", "--data", "portfolio", "--dry-run", "trades.csv")
	shown("portfolio import", "--data", "portfolio", "trades.csv")
	quiet("portfolio lots", "--ticker", hostile)
	quiet("portfolio exits", hostile)
	shown("portfolio gains", "--year", hostile)
	quiet("portfolio reconcile")
	shown("portfolio simulate", "SLV", "--account", hostile)
	quiet("portfolio simulate", "SLV", "--method", hostile)
	shown("portfolio harvest", "--account", hostile)
	shown("portfolio harvest", "--json", "--account", hostile)

	run("mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ledger_tail","arguments":{}}}
`, false)
	shown("backup", hostile+".tar")
	quiet("backup", "-")
	shown("restore", hostile)
	shown("init", hostile)
	quiet("invite", "--node", hostile)
	quiet("join", hostile, hostile)
	shown("doctor")
	shown("doctor", "--json")
	quiet("sandbox explain")
	shown("sandbox explain", hostile)
	shown("rehearse check", "bad.script")
	quiet("rehearse check", "bad.yaml")
	quiet("rehearse model", "bad.yaml")
	run("rehearse agent", "prompt", true, "agents.script", "--role", "developer", "--task", "A")
	shown("completion", hostile)
	quiet("completion", "bash")
	quiet("help", "run")
	shown("help", hostile)
	shown("manual", hostile)
	quiet("version")
	shown("version", hostile)

	shown("config show")
	shown("config show", "--json")
	w.shareHostileSettings()
	shown("trust", "--show")
	shown("trust", "--show", "--json")
	shown("trust", "--yes")
	shown("config show")

	for _, path := range commandPaths(t) {
		if !tested[path] {
			t.Errorf("signalbox %s is not tested: what it prints may contain text of agents", path)
		}
	}
}

// The commands that use the whole screen send sequences of their own, but none of an agent.
func TestScreensShowNoSequencesOfAgents(t *testing.T) {
	w := newTerminalWorld(t)
	for _, args := range [][]string{
		{"run", "plan.md", "--no-wait"},
		{"tree", "run", "tree.lua", "--journal", "run.journal"},
		{"tree", "replay", "run.journal"},
		{"tree", "render", "run.journal"},
		{"oracle", "hello", "--thoughts"},
		{"oracle", "hello " + hostile},
		{"oracle", "--sessions"},
	} {
		out := w.onTerminal("xterm-256color", "", args...)
		for _, sequence := range []string{"\x1b]0;title", "pwned\x1b", "\u009b", "\x7f", "\u202e",
			"\u2066", "\x0b", "\u3164", "\ufe0f", "\u2800"} {
			if i := strings.Index(out, sequence); i >= 0 {
				t.Errorf("%q: the terminal got %q", args, out[max(0, i-20):min(len(out), i+20)])
			}
		}
		if !strings.Contains(out, "pwned") {
			t.Errorf("%q: the hostile text is missing, so this proves nothing: %q", args, out)
		}
	}
}

// The table at the end of a run fits the terminal. In a pipe, titles are complete.
func TestOutcomeFitsTerminal(t *testing.T) {
	w := newTerminalWorld(t)
	title := strings.TrimSpace(strings.Repeat("long ", 40))
	w.write("plan.md", "# Plan\n\n#### Task A: "+title+
		"\n\n**Work**: do it\n\n**Acceptance Criteria**:\n\n- it works\n\n**Blocked By**: none\n")
	if out, err := w.command("", "git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q",
		"-a", "-m", "plan").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	row := func(out string) string {
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "A ") && strings.Contains(line, "asks Q-1") {
				return strings.TrimSpace(line)
			}
		}
		t.Errorf("no row in %q", out)
		return ""
	}
	for columns, want := range map[int]int{100: 100, 60: 60, 0: 80} {
		w.columns = columns
		if got := row(w.onTerminal("dumb", "", "run", "plan.md",
			"--no-wait")); utf8.RuneCountInString(got) != want || !strings.HasSuffix(got, "…") {
			t.Errorf("%d columns: %q", columns, got)
		}
	}
	if got := row(w.piped("", "run", "plan.md", "--no-wait")); !strings.HasSuffix(got, title) {
		t.Errorf("pipe: %q", got)
	}
}

// Commands that pass bytes through do so in pipes, and on a terminal only with --raw.
func TestExactBytesInPipesAndWithRaw(t *testing.T) {
	w := newTerminalWorld(t)
	w.piped("", "run", "plan.md", "--no-wait")
	w.piped("", "answer", "Q-1", "yes")
	var blob string
	for _, digest := range w.digests() {
		if strings.Contains(w.piped("", "blob", "get", digest), hostile) {
			blob = digest
		}
	}
	for _, args := range [][]string{
		{"prompt", "developer", "A"},
		{"blob", "get", blob},
		{"strip", "reply.txt"},
		{"rehearse", "agent", "agents.script", "--role", "developer", "--task", "A"},
	} {
		for _, out := range []string{w.piped("prompt", args...),
			w.onTerminal("dumb", "prompt", append(args, "--raw")...)} {
			if !strings.Contains(out, "pwned\x1b]0;title\x07") {
				t.Errorf("%q: not the exact bytes: %q", args, out)
			}
		}
	}
}

// commandPaths returns the commands that do something, such as "work list".
func commandPaths(t *testing.T) []string {
	t.Helper()
	parser, err := kong.New(&commands{}, kong.Vars{"formats": "", "roles": "", "briefFormats": "",
		"briefOutputs": "inline"})
	must.Succeed(t, err)
	var paths []string
	for _, leaf := range parser.Model.Leaves(true) {
		paths = append(paths, leaf.Path())
	}
	if len(paths) < 40 {
		t.Fatalf("%d commands", len(paths))
	}
	return paths
}
