package fault

import (
	"bufio"
	"encoding/json"
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

// treeCase is a tree to run, with its tools.
type treeCase struct {
	name string
	// example is a file in examples/trees; if it is "", source is the tree.
	example, source string
	args            []string
	tools           map[string]string // shell commands, run after noteKey
	status          int
	// racyKeys are keys of the blackboard whose values depend on which tool is faster.
	racyKeys []string
	// optional are the keys of jobs that may be cancelled before their tool records them.
	optional []string
	// recorded means that its signals are recorded in the box.
	recorded bool
	// slow means that it mostly waits, so the short form does not kill it at random moments.
	slow bool
	// racyStatuses means that the final statuses depend on which tool is faster.
	racyStatuses bool
}

// noteKey is the start of every tool. It records the tool's key in the folder $DIARY, and takes a
// lock that the system releases when the tool and all processes that it started have ended.
const noteKey = `k=$(echo "$SIGNALBOX_TREE_KEY" | tr / -); exec 9>>"$DIARY/lock-$k"; flock -n 9 || echo "$SIGNALBOX_TREE_KEY" >>"$DIARY/overlaps"
echo "$SIGNALBOX_TREE_KEY" >>"$DIARY/keys"
`

// large runs two tools in parallel for each of ten items; one of them fails at its first attempt.
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

// treeCases are the trees to kill: the examples and a larger one.
var treeCases = []treeCase{
	{name: "turn", example: "turn.lua", args: []string{"--replies", "$EXAMPLES/turn.replies"}},
	{name: "countdown", example: "countdown.lua", args: []string{"--set", "left=2"}, slow: true},
	{name: "triage", example: "triage.lua"},
	{name: "release", example: "release.lua", tools: map[string]string{
		"check":     "sleep 0.02; cat",
		"publish":   `case $SIGNALBOX_TREE_KEY in */1) echo no network >&2; exit 3;; esac; echo "published $SIGNALBOX_TREE_KEY"`,
		"roll-back": "exit 1",
	}},
	{name: "not released", example: "release.lua", status: 1, tools: map[string]string{
		"check": `sleep 0.02; ! grep -q windows`, "publish": "exit 1", "roll-back": "exit 1",
	}, racyStatuses: true, optional: []string{"/4/1", "/6/1"},
		racyKeys: []string{"tool_results", "_tool_result"}},
	{name: "research", example: "research.lua", tools: map[string]string{
		"code":  `until test -s "$DIARY/started"; do sleep 0.02; done; echo "in auth.go"`,
		"notes": `echo yes >>"$DIARY/started"; sleep 1000 & wait`,
	}},
	{name: "watch", example: "watch.lua", racyStatuses: true,
		racyKeys: []string{"tool_results", "_tool_result", "up", "restarts"},
		optional: []string{"/9/4", "/20/1"},
		tools: map[string]string{"probe": `test -e "$DIARY/service"`,
			"restart": `touch "$DIARY/service"`}},
	{name: "large", source: large, tools: map[string]string{
		"steady":   "sleep 0.02; cat",
		"unsteady": `sleep 0.02; case $SIGNALBOX_TREE_KEY in *[13579]) exit 1;; esac; echo "{\"well\": true}"`,
	}},
}

// treeRun is a folder in which a tree is run, by one or more processes.
type treeRun struct {
	*site
	treeCase
	dir, journal string
	diary        diary
}

func newTreeRun(t testing.TB, p treeCase) *treeRun {
	t.Helper()
	requireTools(t, "flock")
	s := emptySite(t)
	o := &treeRun{site: s, treeCase: p, dir: filepath.Dir(s.project)}
	// where tools may write
	o.journal, o.diary = filepath.Join(o.dir, "journal"), newDiary(t, s.project)
	s.environment = append(s.environment, "DIARY="+string(o.diary))
	return o
}

// arguments returns the arguments of the command that runs the tree.
func (o *treeRun) arguments(t testing.TB) []string {
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
		args = append(args, "--tool", name+"=export DIARY="+string(o.diary)+"; "+noteKey+line)
	}
	return args
}

// outcome is the part of a run's result that must be the same with and without kills.
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

// end runs the tree to its end, from the start or from its journal.
func (o *treeRun) end(t testing.TB) outcome {
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
	for _, key := range o.racyKeys {
		delete(answer.Blackboard, key)
	}
	if results, ok := answer.Blackboard["tool_results"].([]any); ok {
		slices.SortFunc(results,
			func(a, b any) int { return strings.Compare(asJSON(a), asJSON(b)) })
		// of two parallel tools, the slower one is the last
		delete(answer.Blackboard, "_tool_result")
	}
	return outcome{answer.End, answer.Blackboard, o.statuses(t)}
}

// statuses renders the final statuses, without the numbers of visits.
func (o *treeRun) statuses(t testing.TB) string {
	if o.racyStatuses {
		return ""
	}
	var drawn []string
	for line := range strings.Lines(o.must(t, "tree", "render", "--ascii", o.journal)) {
		line = strings.TrimRight(visits.ReplaceAllString(strings.TrimRight(line, "\n"), " "), " ")
		drawn = append(drawn, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(drawn, "\n")
}

// keys returns how often tools recorded each key, without the id of the run.
func (o *treeRun) keys(t testing.TB) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for key, n := range o.diary.counts(t, "keys") {
		_, key, _ = strings.Cut(key, "/")
		counts["/"+key] += n
	}
	return counts
}

// checkRun checks the invariants of a finished run: its journal replays, no tool is alive, and no
// tool was started while an earlier process for the same job was alive. atMost is how often the
// same job may have been started.
func (o *treeRun) checkRun(t testing.TB, atMost int) {
	t.Helper()
	if r := o.site.run(t, "tree", "replay", o.journal); r.status != 0 ||
		!strings.Contains(r.stdout, "all statuses as recorded; it ended with ") {
		t.Errorf("replay: exit status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	o.diary.checkNoTools(t)
	o.diary.checkNoOverlaps(t)
	for key, n := range o.keys(t) {
		if n > atMost {
			t.Errorf("job %s was started %d times, want at most %d", key, n, atMost)
		}
	}
}

// checkKeys checks that the same jobs were started as in another run.
func (o *treeRun) checkKeys(t testing.TB, want map[string]int) {
	t.Helper()
	got := o.keys(t)
	for key := range want {
		if got[key] == 0 && !slices.Contains(o.optional, key) {
			t.Errorf("job %s was never started", key)
		}
	}
	for key := range got {
		if want[key] == 0 && !slices.Contains(o.optional, key) {
			t.Errorf("job %s was started, but is not part of the run", key)
		}
	}
}

// treeProcess is a running signalbox tree run whose ticks are read one by one.
type treeProcess struct {
	cmd   *exec.Cmd
	out   io.Closer
	lines *bufio.Scanner
}

// start starts the run in its own process group.
func (o *treeRun) start(t testing.TB) *treeProcess {
	t.Helper()
	cmd := o.command(t, o.arguments(t)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// With StdoutPipe, Wait would also wait for tools that outlive the run.
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

// ticks reads n ticks, and reports whether there were that many before the run ended.
func (p *treeProcess) ticks(n int) bool {
	for range n {
		if !p.lines.Scan() || !strings.HasPrefix(p.lines.Text(), `{"tick":`) {
			return false
		}
	}
	return true
}

// kill kills the run, or its whole process group.
func (p *treeProcess) kill(group bool) {
	if group && p.cmd.ProcessState == nil {
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
	p.cmd.Process.Kill()
	p.cmd.Wait()
	p.out.Close()
}
