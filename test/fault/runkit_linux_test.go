package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
)

// inParallel runs tests of signalbox run, which mostly wait.
func inParallel(t *testing.T, tests map[string]func(*testing.T)) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// fixture is a git repository with a box and a plan, on which scripted agents work.
type fixture struct {
	*site
	plan, script string
	// folder for the notes of agents and the logs of runs, outside the repository
	diary    diary
	sessions map[string]bool // with processes that survived a killed run
	checked  map[string]bool // scripts that passed rehearse check
}

// scenario describes a fixture.
type scenario struct {
	files  map[string]string // in the repository, besides README.md
	plan   string
	script string // of the agents; $DIARY is replaced by the folder of the diary
	// settings are appended to the configuration.
	settings string
	// on is where the ledger is; the zero value means the default.
	on backend
}

// wrapper starts an agent while holding a lock on its work. The system releases the lock when the
// agent and all processes that it started have ended.
const wrapper = `exec 9>>"$1/lock-$SIGNALBOX_WORK"
flock -n 9 || echo "$SIGNALBOX_WORK $SIGNALBOX_SESSION $SIGNALBOX_EPOCH" >>"$1/overlaps"
echo "$SIGNALBOX_ROLE $SIGNALBOX_WORK $SIGNALBOX_SESSION $SIGNALBOX_EPOCH" >>"$1/starts"
shift
exec "$@"`

// newFixture creates the repository and the box, and writes the plan, the script and the
// configuration.
func newFixture(t *testing.T, s scenario) *fixture {
	t.Helper()
	f := newRepository(t, s)
	if s.on.configure != nil {
		s.on.configure(t, f.site)
	}
	f.init(t)
	if s.on.start != nil {
		s.on.start(t, f.site)
	}
	f.write(t, f.file("signalbox.yaml"),
		f.site.settings+scriptedAgents(f.diary, f.script)+s.settings)
	return f
}

// newRepository creates the repository, and writes the plan and the script.
func newRepository(t *testing.T, s scenario) *fixture {
	t.Helper()
	requireTools(t, "git", "flock")
	f := &fixture{site: emptySite(t), sessions: map[string]bool{}, checked: map[string]bool{}}
	root := filepath.Dir(f.project)
	f.plan, f.script, f.diary = filepath.Join(root, "plan.md"),
		filepath.Join(root, "agents.script"), newDiary(t, root)
	f.write(t, f.plan, s.plan)
	f.write(t, f.script, strings.ReplaceAll(s.script, "$DIARY", string(f.diary)))
	f.write(t, filepath.Join(f.project, "README.md"), "a project\n")
	for name, text := range s.files {
		f.write(t, filepath.Join(f.project, name), text)
	}
	f.git(t, "init", "-q", "-b", "main")
	f.git(t, "config", "user.name", "tester")
	f.git(t, "config", "user.email", "tester@localhost")
	f.git(t, "add", "-A")
	f.git(t, "commit", "-q", "-m", "first commit")
	t.Cleanup(func() { f.killAll() })
	return f
}

// scriptedAgents returns the configuration of agents that follow a script and write to a diary.
func scriptedAgents(d diary, script string) string {
	return fmt.Sprintf("sandbox: {write: [%q]}\nagent: scripted\nagents:\n  scripted:\n    command: [sh, -c, %q, sh, %q, %q, rehearse, agent, %q, --format, claude]\n    format: claude\n",
		d, wrapper, d, os.Getenv(binaryVariable), script)
}

func (f *fixture) write(t testing.TB, name, text string) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(name), 0o755))
	check(t, os.WriteFile(name, []byte(text), 0o644))
}

// git runs git in the repository, with no configuration but the repository's.
func (f *fixture) git(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = f.project
	cmd.Env = append(os.Environ(), "HOME="+f.home, "XDG_CONFIG_HOME=", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_OPTIONAL_LOCKS=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

// crewProcess is a signalbox run or worker process.
type crewProcess struct {
	t       testing.TB
	fixture *fixture
	cmd     *exec.Cmd
	log     string
	ended   chan struct{} // closed when it has ended
}

// start starts signalbox in its own process group, with its output in a log file.
func (f *fixture) start(t testing.TB, args ...string) *crewProcess {
	t.Helper()
	return f.startCommand(t, f.command(t, args...), args[0])
}

// startCommand is start for a command that runs signalbox. The name is for the log file.
func (f *fixture) startCommand(t testing.TB, cmd *exec.Cmd, name string) *crewProcess {
	t.Helper()
	log, err := os.CreateTemp(string(f.diary), name+"-*.log")
	check(t, err)
	defer log.Close()
	r := &crewProcess{t: t, fixture: f, cmd: cmd, log: log.Name(), ended: make(chan struct{})}
	r.cmd.Stdout, r.cmd.Stderr = log, log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check(t, r.cmd.Start())
	go func() {
		defer close(r.ended)
		r.cmd.Wait()
	}()
	t.Cleanup(func() {
		r.cmd.Process.Kill()
		<-r.ended
		if text := r.output(); t.Failed() {
			t.Logf("%v: %v\n%s", name, r.cmd.ProcessState, text[max(0, len(text)-3000):])
		}
	})
	return r
}

// startRun starts signalbox run on the plan, after it has checked the script.
func (f *fixture) startRun(t testing.TB, flags ...string) *crewProcess {
	t.Helper()
	if text, err := os.ReadFile(f.script); err == nil && !f.checked[string(text)] {
		f.must(t, "rehearse", "check", f.script)
		f.checked[string(text)] = true
	}
	return f.start(t, append([]string{"run", f.plan, "--plain"}, flags...)...)
}

func (r *crewProcess) output() string {
	text, err := os.ReadFile(r.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (r *crewProcess) hasEnded() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// end waits until the process ends, and checks that it did not crash and ended with the given exit
// status.
func (r *crewProcess) end(status int) {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		r.t.Fatalf("%v did not end", r.cmd.Args[1:])
	}
	if crashed(r.output()) {
		r.t.Fatal("it crashed")
	}
	if got := r.cmd.ProcessState.ExitCode(); got != status {
		r.t.Fatalf("%v: exit status %d, want %d", r.cmd.Args[1:], got, status)
	}
}

// until polls for a condition that has no event to wait for.
func (r *crewProcess) until(what string, condition func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if r.hasEnded() && !condition() {
			r.t.Fatalf("it ended before %s", what)
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// await waits for the first matching event after a sequence number.
func (r *crewProcess) await(after uint64, what string,
	match func(*signalbox.Event) bool) *signalbox.Event {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	e, err := r.next(ctx, after, match)
	if err != nil {
		r.t.Fatalf("failed to wait for %s: %v", what, err)
	}
	return e
}

// next returns the first event after a sequence number for which match returns true. It gives up
// when the process has ended, after a last look at the ledger.
func (r *crewProcess) next(ctx context.Context, after uint64,
	match func(*signalbox.Event) bool) (*signalbox.Event, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-r.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	l, err := box.OpenLedger(context.Background(), r.fixture.box, r.fixture.options())
	if err != nil {
		return nil, err
	}
	defer l.Close()
	failed := journal.ErrUnavailable
	for ctx.Err() == nil && errors.Is(failed, journal.ErrUnavailable) {
		for e, err := range l.Journal.Watch(ctx, after) {
			if failed = err; err != nil {
				break
			}
			if after = e.Seq; match(&e) {
				return &e, nil
			}
		}
	}
	rest, err := readAll(context.Background(), l.Journal, after)
	for i := range rest {
		if match(&rest[i]) {
			return &rest[i], nil
		}
	}
	return nil, errors.Join(err, failed)
}

// ofType returns a function that matches events of a type and a work item; "" matches any work
// item.
func ofType(kind, work string) func(*signalbox.Event) bool {
	return func(e *signalbox.Event) bool { return e.Type == kind && (work == "" || e.Work == work) }
}

// granted returns a function that matches the grant of a lease for a role and a work item; ""
// matches any work item.
func granted(role signalbox.Role, work string) func(*signalbox.Event) bool {
	return func(e *signalbox.Event) bool {
		return e.Type == rules.TypeLeaseGranted && (work == "" || e.Work == work) &&
			data[rules.LeaseGranted](e).Role == role
	}
}

// data decodes the data of an event. The result is undefined for an event of another type.
func data[T any](e *signalbox.Event) (body T) {
	_ = json.Unmarshal(e.Data, &body)
	return body
}

// all returns the data of all events of a type and a work item; "" matches any work item.
func all[T any](events []signalbox.Event, kind, work string) (bodies []T) {
	for i := range events {
		if ofType(kind, work)(&events[i]) {
			bodies = append(bodies, data[T](&events[i]))
		}
	}
	return bodies
}

// agentProcess is a process that works for the box: an agent, a check, or one of their descendants.
type agentProcess struct {
	pid     int
	session string
	command string
}

// processes finds all processes that work for the box.
func (f *fixture) processes() (found []agentProcess) {
	for pid, env := range environments() {
		dir, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		if session := env["SIGNALBOX_SESSION"]; session != "" &&
			(env["SIGNALBOX_BOX"] == f.box || strings.HasPrefix(dir, f.box)) {
			found = append(found, agentProcess{pid, session, commandLine(pid)})
		}
	}
	return found
}

// killAll kills all processes that work for the box.
func (f *fixture) killAll() {
	for _, p := range f.processes() {
		syscall.Kill(p.pid, syscall.SIGKILL)
	}
}

// owners returns the crews in the register.
func (f *fixture) owners() (ids []string) {
	files, _ := filepath.Glob(filepath.Join(f.box, "crews", "*.owner"))
	for _, file := range files {
		ids = append(ids, strings.TrimSuffix(filepath.Base(file), ".owner"))
	}
	return ids
}

// checkNoProcesses checks that no process of the box is alive, and that no crew is registered.
func (f *fixture) checkNoProcesses(t testing.TB) {
	t.Helper()
	if left := f.processes(); len(left) > 0 {
		t.Errorf("processes are still alive: %+v", left)
	}
	if left := f.owners(); len(left) > 0 {
		t.Errorf("the register still has %v", left)
	}
}

// checkRepository checks that git fsck finds no errors. If git was killed while it created a
// worktree, the HEAD of that worktree is invalid; allowHalfMadeTrees permits this, because the next
// agent recreates the worktree.
func (f *fixture) checkRepository(t testing.TB, allowHalfMadeTrees bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "fsck", "--no-dangling", "--no-progress")
	cmd.Dir = f.project
	out, err := cmd.CombinedOutput()
	var bad []string
	for line := range strings.Lines(string(out)) {
		if !allowHalfMadeTrees || !strings.HasPrefix(line, "error: ") ||
			!strings.Contains(line, "worktrees/") || !strings.Contains(line, "/HEAD") {
			bad = append(bad, line)
		}
	}
	if len(bad) > 0 || err != nil && len(out) == 0 {
		t.Errorf("git fsck: %v\n%s", err, strings.Join(bad, ""))
	}
}

// checkBase checks that the base branch has only merges of tasks after its first commit, and that
// no object is missing. This holds at any moment. It returns how often each task was merged.
func (f *fixture) checkBase(t testing.TB) (merges map[string]int) {
	t.Helper()
	f.git(t, "rev-list", "--objects", "--quiet", "main")
	merges = map[string]int{}
	lines := strings.Split(f.git(t, "log", "--first-parent",
		"--format=%P%x09%(trailers:key=Signalbox-Task,valueonly,separator=%x2c)%x09%s", "main"),
		"\n")
	for i, line := range lines {
		fields := strings.Split(line, "\t")
		switch parents := strings.Fields(fields[0]); {
		case len(parents) == 0 && i == len(lines)-1 && fields[2] == "first commit":
		case len(parents) == 2 && fields[1] != "":
			merges[fields[1]]++
		default:
			t.Errorf("the base has a commit that is not a merge of a task: %s", line)
		}
	}
	for task, n := range merges {
		if n != 1 {
			t.Errorf("%s was merged into the base %d times", task, n)
		}
	}
	return merges
}

// checkClean checks that the user's checkout has no changes and no extra files.
func (f *fixture) checkClean(t testing.TB) {
	t.Helper()
	if status := f.git(t, "status", "--porcelain"); status != "" {
		t.Errorf("git status:\n%s", status)
	}
}

// checkDone checks that each task was completed and merged once, and that no process or file
// remains.
func (f *fixture) checkDone(t testing.TB, tasks ...string) []signalbox.Event {
	t.Helper()
	events := f.mustVerify(t)
	f.verifyCommand(t, 0)
	f.checkRepository(t, false)
	merges := f.checkBase(t)
	f.checkClean(t)
	f.checkNoProcesses(t)
	f.diary.checkNoOverlaps(t)
	if len(f.diary.lines(t, "starts")) == 0 {
		t.Error("no agent was started")
	}
	merged, completed := map[string]int{}, map[string]int{}
	for i := range events {
		switch e := &events[i]; e.Type {
		case rules.TypeMerged:
			merged[e.Work]++
		case rules.TypePhaseChanged:
			if data[rules.PhaseChanged](e).To == signalbox.PhaseCompleted {
				completed[e.Work]++
			}
		}
	}
	for _, task := range tasks {
		if merged[task] != 1 || completed[task] != 1 || merges[task] != 1 {
			t.Errorf("%s was recorded as merged %d times, as completed %d times, and was merged into the base %d times", task, merged[task], completed[task], merges[task])
		}
	}
	if len(merges) != len(tasks) {
		t.Errorf("the base has %v, want %v", merges, tasks)
	}
	return events
}

// task returns the text of a task in a plan.
func task(id, blockers string) string {
	return fmt.Sprintf("#### Task %s: Part %s\n\n**Work**\n\nWrite part/%s.txt.\n\n**Acceptance Criteria**\n\n- [ ] part/%s.txt is good\n\n**Blocked By**: %s\n\n", id, id, id, id, blockers)
}

// planOf returns a plan of tasks, each given as "ID" or as "ID: blockers".
func planOf(tasks ...string) string {
	var b strings.Builder
	b.WriteString("# Parts\n\n### Phase 1: All\n\n")
	for _, t := range tasks {
		id, blockers, ok := strings.Cut(t, ": ")
		if !ok {
			blockers = "none"
		}
		b.WriteString(task(id, blockers))
	}
	return b.String()
}

// goodAgents is a script of agents that all succeed.
const goodAgents = `
on developer *:
    run mkdir -p part && echo good >part/$SIGNALBOX_WORK.txt
    signal READY_FOR_REVIEW: {task}
        Summary: It is there.
` + judges

// judges is a script of agents that find everything good.
const judges = `
on critic *:
    signal REVIEW_PASSED: {task}

on auditor *:
    signal AUDIT_PASSED: {task}

on expert *:
    signal EXPERT_ADVICE: {task}
        Summary: Continue.
`

// partsCheck configures a check that takes a moment and fails if a part is not good.
const partsCheck = "checks:\n  - {name: parts, command: 'sleep 0.03; for f in part/*.txt; do test ! -e $f || grep -qx good $f || exit 1; done'}\n"

// checkParts checks that the checkout has exactly the parts of these tasks, all good.
func (f *fixture) checkParts(t testing.TB, tasks ...string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(f.project, "part", "*.txt"))
	var got []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(t, err)
		if string(text) != "good\n" {
			t.Errorf("%s is %q", file, text)
		}
		got = append(got, strings.TrimSuffix(filepath.Base(file), ".txt"))
	}
	want := slices.Sorted(slices.Values(tasks))
	if !slices.Equal(got, want) {
		t.Errorf("the parts are %v, want %v", got, want)
	}
}
