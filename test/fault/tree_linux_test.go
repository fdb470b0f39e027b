package fault

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/text"
)

// TestTreeSpoofed runs a tool that calls commands reserved for the operator. Each must be refused
// with an explanation. The tool is not in a sandbox, in which it would not find the program.
func TestTreeSpoofed(t *testing.T) {
	t.Parallel()
	forbidden := map[string]string{
		"tree":       `tree run "$DIARY/again.lua"`,
		"journal":    `tree run "$DIARY/again.lua" --journal "$DIARY/../journal"`,
		"run":        "run plan.md",
		"worker":     "worker",
		"answer":     "answer Q-1 yes",
		"approve":    "approve T1",
		"cancel":     "cancel T1",
		"open":       "work open T9",
		"exit":       "work exit --session w-000000000000.1 exit.json",
		"checkpoint": "ledger checkpoint",
		"init":       "init elsewhere",
	}
	tool := "env | grep ^SIGNALBOX_ | grep -v ^SIGNALBOX_TREE_ | grep -v ^SIGNALBOX_SESSION= >\"$DIARY/environment\"\n"
	for _, name := range slices.Sorted(maps.Keys(forbidden)) {
		tool += fmt.Sprintf(
			"out=$(timeout 60 %s %s </dev/null 2>&1); echo \"%s $? $(echo \"$out\" | head -n1)\" >>\"$DIARY/commands\"\n", os.Getenv(binaryVariable), forbidden[name], name)
	}
	o := newTreeRun(t, treeCase{name: "spoofed",
		source: `return BT.tree("spoofed", { root = BT.tool("spoof", {}) })`,
		tools:  map[string]string{"spoof": tool},
		args:   []string{"--sandbox", "off"}})
	o.init(t)
	o.environment = append(o.environment, "SIGNALBOX_ACTOR=operator")
	check(t, os.WriteFile(o.diary.file("again.lua"),
		[]byte(`return BT.tree("again", { root = BT.wait(0) })`), 0o644))
	o.end(t)
	o.checkRun(t, 1)
	text, err := os.ReadFile(o.diary.file("commands"))
	check(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != len(forbidden) {
		t.Errorf("%d commands were tried, want %d", len(lines), len(forbidden))
	}
	for _, line := range lines {
		if fields := strings.SplitN(line, " ", 3); fields[1] != "1" ||
			!strings.HasPrefix(fields[2], "signalbox: session 'tree-T-") ||
			!strings.Contains(line, " may not ") {
			t.Errorf("a command of a tool was not refused: %s", line)
		}
	}
	if text, err := os.ReadFile(o.diary.file("environment")); err != nil || len(text) > 0 {
		t.Errorf("a tool sees variables of the operator: %v %s", err, text)
	}
}

// TestTreeIdle measures a run that waits for a timer and a tool: it uses no CPU time and writes
// nothing. When interrupted, it stops the tool.
func TestTreeIdle(t *testing.T) {
	o := newTreeRun(t, treeCase{name: "idle",
		source: `return BT.tree("idle", { root = BT.parallel({ BT.wait(3600), BT.timeout(1800, BT.tool("sleep")) }) })`,
		tools:  map[string]string{"sleep": `echo yes >>"$DIARY/started"; sleep 1000`}})
	p := o.start(t)
	if !p.ticks(1) {
		t.Fatal("it never ticked")
	}
	o.diary.await(t, "started")
	checkIdle(t, p.cmd.Process.Pid, sized(2*time.Second, 20*time.Second), filepath.Dir(o.journal))
	if len(o.diary.toolsAlive()) == 0 {
		t.Error("the tool is not alive")
	}
	check(t, p.cmd.Process.Signal(syscall.SIGINT))
	for p.lines.Scan() { // until it has ended
	}
	p.cmd.Wait()
	if status := p.cmd.ProcessState.ExitCode(); status != 130 {
		t.Errorf("interrupted: exit status %d, want 130", status)
	}
	o.diary.checkNoTools(t)
	if got := o.must(t, "tree", "replay", o.journal); !strings.Contains(got,
		"it was interrupted on ") {
		t.Errorf("replay printed:\n%s", got)
	}
}

// TestTreeSignals kills a run that records turn signals in a box, after each of its ticks. The
// ledger has each signal once.
func TestTreeSignals(t *testing.T) {
	t.Parallel()
	turn := treeCases[slices.IndexFunc(treeCases,
		func(p treeCase) bool { return p.name == "turn" })]
	turn.recorded = true
	want := []rules.TurnSignalHeard{{Tree: "turn", Turn: 1, Signal: signalbox.NameNeedTurn},
		{Tree: "turn", Turn: 2, Signal: signalbox.NameContextSufficient}}
	for k := range 5 {
		o := newTreeRun(t, turn)
		o.init(t)
		if p := o.start(t); p.ticks(k) {
			p.kill(false)
		}
		o.end(t)
		checkHeard(t, o, want)
		// Simulate a kill after the signal was recorded, but before anything else was.
		journal, err := os.ReadFile(o.journal)
		check(t, err)
		lines := strings.SplitAfter(string(journal), "\n")
		if strings.Contains(lines[k], `"emits":[[`) {
			check(t, os.WriteFile(o.journal, []byte(strings.Join(lines[:1+k], "")), 0o600))
			o.end(t)
			checkHeard(t, o, want)
		} else if k == 2 || k == 4 {
			t.Errorf("tick %d has no signal: %s", k, lines[k])
		}
		if t.Failed() {
			t.Fatalf("killed after tick %d", k)
		}
	}
}

// checkHeard checks that the ledger has exactly these turn signals, with their texts.
func checkHeard(t *testing.T, o *treeRun, want []rules.TurnSignalHeard) {
	t.Helper()
	events := o.mustVerify(t)
	o.verifyCommand(t, 0)
	var got []rules.TurnSignalHeard
	for _, heard := range all[rules.TurnSignalHeard](events, rules.TypeTurnSignalHeard, "") {
		if !runID.MatchString(heard.Run) {
			t.Errorf("the run is %q", heard.Run)
		}
		got = append(got, rules.TurnSignalHeard{Tree: heard.Tree, Turn: heard.Turn,
			Signal: heard.Signal})
		if body := o.must(t, "blob", "get", heard.Body.String()); !strings.Contains(body,
			`signal type=\"`+heard.Signal) {
			t.Errorf("the blob of turn %d is %s", heard.Turn, body)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the ledger has:\n%s", diff)
	}
}

// hostileTrees try to use unlimited resources or to leave the sandbox. Each fails when it is
// loaded, or in a leaf.
var hostileTrees = map[string]struct {
	source string
	leaf   bool // it loads, and fails when it runs
	says   string
}{
	"loop":           {source: "while true do end", says: ":1: "},
	"loop in a leaf": {source: "return BT.tree('x', { root = BT.script('s', function(t)\n while true do end\nend) })", leaf: true, says: ":2: "},
	"guarded loop": {source: "while true do pcall(function() while true do end end) end",
		says: ":1: "},
	"guarded loop in a leaf": {source: "return BT.tree('x', { root = BT.script('s', function(t)\n while true do pcall(function() while true do end end) end\nend) })",
		leaf: true, says: ":2: "},
	"string bomb":           {source: "local s = 'x'\nwhile true do s = s .. s end", says: ":2: "},
	"string bomb in a leaf": {source: "return BT.tree('x', { root = BT.script('s', function(t)\n local s = 'x'\n while true do s = s .. s end\nend) })", leaf: true, says: ":3: "},
	"many strings":          {source: "local t = {}\nfor i = 1, 1e9 do t[i] = string.rep(tostring(i), 100000) end", says: ":2: "},
	"many strings in a leaf": {source: "return BT.tree('x', { root = BT.script('s', function(t)\n local l = {}\n for i = 1, 1e9 do l[i] = string.rep(tostring(i), 100000) end\nend) })",
		leaf: true, says: ":3: "},
	"repeated": {source: "local s = string.rep('x', 2^40)", says: ":1: "},
	"deep": {source: "local function f(n) return 1 + f(n + 1) end\nreturn f(1)",
		says: ":1: "},
	"deep in a leaf": {source: "local function f(n) return 1 + f(n + 1) end\nreturn BT.tree('x', { root = BT.script('s', function(t) f(1) end) })", leaf: true, says: ":1: "},
	"huge table":     {source: "local t = {}\nfor i = 1, 1e12 do t[i] = { i } end", says: ":2: "},
	"huge node": {source: "local children = {}\nfor i = 1, 1e9 do children[i] = BT.wait(1) end\nreturn BT.tree('x', { root = BT.sequence(children) })",
		says: ":2: "},
	"shell":           {source: "os.execute('touch made')", says: ":1: "},
	"shell in a leaf": {source: "return BT.tree('x', { root = BT.script('s', function(t)\n os.execute('touch made')\nend) })", leaf: true, says: ":2: "},
	"file":            {source: "io.open('made', 'w'):write('x')", says: ":1: "},
	"module":          {source: "local m = require('os')", says: ":1: "},
	"compiled":        {source: "local f = load('os.exit()')", says: ":1: "},
	"debug":           {source: "debug.getinfo(1)", says: ":1: "},
	"nested": {source: "local t = " + strings.Repeat("{", 50000) + strings.Repeat("}",
		50000), says: "nested.lua"},
	"nested calls": {source: "local t = " + strings.Repeat("(", 50000) + "1" +
		strings.Repeat(")", 50000), says: "nested calls.lua"},
	"long pattern": {source: "string.find(string.rep('a', 100000), string.rep('a*', 30) .. 'b')",
		says: ":1: "},
	"binary": {source: "\x1bLua\x53\x00\x19\x93\r\n\x1a\n", says: "binary.lua"},
	"large blackboard": {source: "return BT.tree('x', { blackboard = { l = { type = 'list', default = {} } }, root = BT.script('s', function(t)\n local l = {}\n for i = 1, 10000 do l[i] = string.rep('x', 1000) end\n for i = 1, 1e9 do t:set('l', l) end\nend) })",
		leaf: true, says: ":4: "},
}

// TestTreeHostile loads and runs hostile trees. Each must fail with an error, within limits of time
// and memory.
func TestTreeHostile(t *testing.T) {
	t.Parallel()
	for name, hostile := range hostileTrees {
		t.Run(name, func(t *testing.T) {
			s := emptySite(t)
			file := name + ".lua"
			check(t, os.WriteFile(filepath.Join(s.project, file), []byte(hostile.source), 0o644))
			checked := 2
			if hostile.leaf {
				checked = 0
			}
			checkEnds(t, s, checked, hostile.says, "tree", "check", file)
			ran := 2
			if hostile.leaf {
				ran = 1
			}
			checkEnds(t, s, ran, hostile.says, "tree", "run", file)
			left, err := os.ReadDir(s.project)
			if check(t, err); len(left) != 1 {
				t.Errorf("it created files: %v", left)
			}
		})
	}
}

// maxPeak is the memory limit for a hostile tree.
const maxPeak = 400 << 20

// checkEnds runs a command that must end within limits, with the given exit status and, unless that
// is 0, with a message that names the file and the place.
func checkEnds(t *testing.T, s *site, status int, place string, args ...string) {
	t.Helper()
	cmd := s.command(t, args...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	defer context.AfterFunc(ctx, func() { cmd.Process.Kill() })()
	r := finish(t, cmd, nil)
	if r.status != status {
		t.Errorf("%v: exit status %d, want %d\n%s", args, r.status, status,
			text.Truncate(r.stderr, 1000))
	}
	if file := args[len(args)-1]; status != 0 &&
		!(strings.Contains(r.stderr, file) && strings.Contains(r.stderr, place)) {
		t.Errorf("%v printed, without %s and %q:\n%s", args, file, place,
			text.Truncate(r.stderr, 1000))
	}
	if peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10; peak > maxPeak {
		t.Errorf("%v used %d MB of memory", args, peak>>20)
	}
	if len(r.stderr) > 64<<10 {
		t.Errorf("%v printed %d bytes", args, len(r.stderr))
	}
}
