package fault

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// planted is a tree that is run by the real program, and the tools that it calls.
type planted struct {
	name string
	// example is the file of one, or else source is the tree.
	example, source string
	args            []string
	tools           map[string]string // commands, after they noted their key
	status          int
	// loose are keys of the blackboard that depend on who is faster.
	loose []string
	// maybe are the ends of tools' keys that may be cancelled before they note them.
	maybe []string
	// recorded: its signals are recorded in the box.
	recorded bool
	// quiet: it waits more than it works, so that it takes long, and no instant is special.
	quiet bool
	// restless: the statuses at the end depend on who is faster.
	restless bool
}

// noting is how a tool begins: it takes a lock that is free when the tool and all that it started are gone, and notes its
// key. Its folder is $DIARY.
const noting = `k=$(echo "$SIGNALBOX_TREE_KEY" | tr / -); exec 9>>"$DIARY/lock-$k"; flock -n 9 || echo "$SIGNALBOX_TREE_KEY" >>"$DIARY/overlaps"
echo "$SIGNALBOX_TREE_KEY" >>"$DIARY/keys"
`

// large has ten items, and two tools at once for each, one of which fails the first time.
const large = `
return BT.tree("large", {
    blackboard = {
        items = { type = "list", default = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 } },
        done = { type = "list", default = {} },
        sum = { type = "int", default = 0 },
    },
    root = BT.sequence({
        BT.for_each({ items = "items", as = "item",
            BT.sequence("work", {
                BT.parallel("both", {
                    BT.retry({ attempts = 3 }, BT.tool("unsteady", { args = { item = BT.key("item") } })),
                    BT.tool("steady", { args = { item = BT.key("item") } }),
                }),
                BT.script("note", function(t)
                    local done = t:get("done")
                    table.insert(done, t:get("item"))
                    t:set("done", done)
                    t:set("sum", t:get("sum") + t:get("item"))
                end),
            }),
        }),
        BT.condition("is-all", { fn = function(t) return t:get("sum") == 55 end }),
    }),
})
`

// plants are the trees that are killed: the examples, and one that is larger.
var plants = []planted{
	{name: "turn", example: "turn.lua", args: []string{"--replies", "$EXAMPLES/turn.replies"}},
	{name: "countdown", example: "countdown.lua", args: []string{"--set", "left=2"}, quiet: true},
	{name: "triage", example: "triage.lua"},
	{name: "release", example: "release.lua", tools: map[string]string{
		"check":     "sleep 0.02; cat",
		"publish":   `case $SIGNALBOX_TREE_KEY in */1) echo no network >&2; exit 3;; esac; echo "published $SIGNALBOX_TREE_KEY"`,
		"roll-back": "exit 1",
	}},
	{name: "not released", example: "release.lua", status: 1, tools: map[string]string{
		"check": `sleep 0.02; ! grep -q windows`, "publish": "exit 1", "roll-back": "exit 1",
	}, restless: true, maybe: []string{"/4/1", "/6/1"}, loose: []string{"tool_results", "_tool_result"}},
	{name: "research", example: "research.lua", tools: map[string]string{
		"code":  `until test -s "$DIARY/began"; do sleep 0.02; done; echo "in auth.go"`,
		"notes": `echo yes >>"$DIARY/began"; sleep 1000 & wait`,
	}},
	{name: "watch", example: "watch.lua", restless: true, loose: []string{"tool_results", "_tool_result", "up", "restarts"}, maybe: []string{"/9/4", "/20/1"},
		tools: map[string]string{"probe": `test -e "$DIARY/service"`, "restart": `touch "$DIARY/service"`}},
	{name: "large", source: large, tools: map[string]string{
		"steady":   "sleep 0.02; cat",
		"unsteady": `sleep 0.02; case $SIGNALBOX_TREE_KEY in *[13579]) exit 1;; esac; echo "{\"well\": true}"`,
	}},
}

// plot is a folder in which a tree is run.
type plot struct {
	*site
	planted
	dir, journal, diary string
}

func newPlot(t testing.TB, p planted) *plot {
	t.Helper()
	if _, err := exec.LookPath("flock"); err != nil {
		mayNotSkip(t.(*testing.T), "flock is not there")
	}
	s := emptySite(t)
	o := &plot{site: s, planted: p, dir: filepath.Dir(s.project)}
	o.journal, o.diary = filepath.Join(o.dir, "journal"), filepath.Join(o.dir, "diary")
	check(t, os.Mkdir(o.diary, 0o755))
	s.environment = append(s.environment, "DIARY="+o.diary)
	t.Cleanup(func() {
		for pid := range o.toolsAlive() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return o
}

// arguments are those of signalbox.
func (o *plot) arguments(t testing.TB) []string {
	t.Helper()
	examples, err := filepath.Abs("../../examples/trees")
	check(t, err)
	file := filepath.Join(examples, o.example)
	if o.source != "" {
		file = filepath.Join(o.dir, "tree.lua")
		check(t, os.WriteFile(file, []byte(o.source), 0o644))
	}
	args := []string{"tree", "run", file, "--json", "--journal", o.journal}
	if !o.recorded {
		args = append(args, "--no-ledger")
	}
	for _, arg := range o.args {
		args = append(args, strings.ReplaceAll(arg, "$EXAMPLES", examples))
	}
	for name, line := range o.tools {
		args = append(args, "--tool", name+"="+noting+line)
	}
	return args
}

// outcome is all of a run that must not depend on whether it was killed.
type outcome struct {
	End        string
	Blackboard map[string]any
	Statuses   string
}

var (
	runID   = regexp.MustCompile(`T-[0-9a-f]{12}`)
	instant = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)
	visits  = regexp.MustCompile(` x\d+( |$)|^.*idle$`)
)

// end runs the tree to its end, from the beginning or from where it is.
func (o *plot) end(t testing.TB) outcome {
	t.Helper()
	r := o.site.run(t, o.arguments(t)...)
	if r.status != o.status {
		t.Fatalf("%s: exit status %d, want %d\n%s", o.name, r.status, o.status, r.stderr)
	}
	lines := strings.Split(strings.TrimRight(r.stdout, "\n"), "\n")
	last := instant.ReplaceAllString(runID.ReplaceAllString(lines[len(lines)-1], "RUN"), "THEN")
	var answer struct {
		End        string         `json:"end"`
		Blackboard map[string]any `json:"blackboard"`
	}
	if err := json.Unmarshal([]byte(last), &answer); err != nil {
		t.Fatalf("%v in %q", err, last)
	}
	for _, key := range o.loose {
		delete(answer.Blackboard, key)
	}
	if results, ok := answer.Blackboard["tool_results"].([]any); ok {
		slices.SortFunc(results, func(a, b any) int { return strings.Compare(printed(a), printed(b)) })
		// the last of two at once is whichever was slower
		delete(answer.Blackboard, "_tool_result")
	}
	return outcome{answer.End, answer.Blackboard, o.statuses(t)}
}

// statuses draws the statuses at the end, without how often each node was visited.
func (o *plot) statuses(t testing.TB) string {
	if o.restless {
		return ""
	}
	var drawn []string
	for line := range strings.Lines(o.must(t, "tree", "render", "--ascii", o.journal)) {
		line = strings.TrimRight(visits.ReplaceAllString(strings.TrimRight(line, "\n"), " "), " ")
		drawn = append(drawn, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(drawn, "\n")
}

// keys are the keys that tools noted, and how often.
func (o *plot) keys(t testing.TB) map[string]int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(o.diary, "keys"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	noted := map[string]int{}
	for _, key := range strings.Fields(string(text)) {
		_, key, _ = strings.Cut(key, "/")
		noted["/"+key]++
	}
	return noted
}

// checkRun checks what holds of every run that ended: its journal replays, none of its tools is alive, and no tool was ever
// started while an earlier start of the same work was alive. atMost is how often a tool may have begun the same work.
func (o *plot) checkRun(t testing.TB, atMost int) {
	t.Helper()
	if r := o.site.run(t, "tree", "replay", o.journal); r.status != 0 || !strings.Contains(r.stdout, "all statuses as recorded; it ended with ") {
		t.Errorf("replay: exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	if left := o.toolsAlive(); len(left) > 0 {
		t.Errorf("tools are left: %v", left)
	}
	if text, err := os.ReadFile(filepath.Join(o.diary, "overlaps")); err == nil {
		t.Errorf("these began while an earlier start of them was alive:\n%s", text)
	}
	for key, n := range o.keys(t) {
		if n > atMost {
			t.Errorf("the work %s was begun %d times, want at most %d", key, n, atMost)
		}
	}
}

// checkKeys checks that the same work was begun as in another run.
func (o *plot) checkKeys(t testing.TB, want map[string]int) {
	t.Helper()
	got := o.keys(t)
	for key := range want {
		if got[key] == 0 && !slices.Contains(o.maybe, key) {
			t.Errorf("the work %s was never begun", key)
		}
	}
	for key := range got {
		if want[key] == 0 && !slices.Contains(o.maybe, key) {
			t.Errorf("the work %s was begun, and is not part of the run", key)
		}
	}
}

// toolsAlive finds the processes of tools, by the folder of their diary.
func (o *plot) toolsAlive() map[int]string {
	found := map[int]string{}
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		env, err := os.ReadFile(name + "/environ")
		if err != nil || !bytes.Contains(env, []byte("DIARY="+o.diary+"\x00")) || !bytes.Contains(env, []byte("SIGNALBOX_TREE_KEY=")) {
			continue
		}
		command, _ := os.ReadFile(name + "/cmdline")
		pid := 0
		fmt.Sscanf(filepath.Base(name), "%d", &pid)
		found[pid] = string(bytes.ReplaceAll(command, []byte{0}, []byte{' '}))
	}
	return found
}

// treeProcess is a run whose ticks are read as they come.
type treeProcess struct {
	cmd   *exec.Cmd
	out   io.Closer
	lines *bufio.Scanner
}

// start starts the run, as the leader of a group of its own.
func (o *plot) start(t testing.TB) *treeProcess {
	t.Helper()
	cmd := o.command(t, o.arguments(t)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// not StdoutPipe: tools that outlive the run must not keep anybody waiting
	read, write, err := os.Pipe()
	check(t, err)
	cmd.Stdout = write
	check(t, cmd.Start())
	write.Close()
	p := &treeProcess{cmd: cmd, out: read, lines: bufio.NewScanner(read)}
	p.lines.Buffer(nil, 16<<20)
	t.Cleanup(func() { p.kill(false) })
	return p
}

// ticks reads that many ticks, and reports whether there were so many and the run has not ended.
func (p *treeProcess) ticks(n int) bool {
	for range n {
		if !p.lines.Scan() || !strings.HasPrefix(p.lines.Text(), `{"tick":`) {
			return false
		}
	}
	return true
}

// kill kills the run, alone or with its group.
func (p *treeProcess) kill(group bool) {
	if group && p.cmd.ProcessState == nil {
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
	p.cmd.Process.Kill()
	p.cmd.Wait()
	p.out.Close()
}
