package fault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
)

// patience is how long something may take that has to happen. It is no measure of anything.
const patience = 3 * time.Minute

// stage is a git repository with a box and a plan, on which scripted agents work.
type stage struct {
	*site
	plan, script string
	diary        string          // what agents and runs leave for the test, outside the repository
	sessions     map[string]bool // of which processes were left by a killed run
	checked      map[string]bool // scripts that are as they should be
}

// set is what a stage is made of.
type set struct {
	files  map[string]string // in the repository
	plan   string
	script string           // in which $DIARY is the folder of the diary
	format signalbox.Format // in which agents write; "" is claude
	// settings are put after the agents of the configuration.
	settings string
}

// keeper starts an agent under a lock of its work that the system frees when the agent and all that it left are gone.
const keeper = `exec 9>>"$1/lock-$SIGNALBOX_WORK"
flock -n 9 || echo "$SIGNALBOX_WORK $SIGNALBOX_SESSION $SIGNALBOX_EPOCH" >>"$1/overlaps"
echo "$SIGNALBOX_ROLE $SIGNALBOX_WORK $SIGNALBOX_SESSION $SIGNALBOX_EPOCH" >>"$1/starts"
shift
exec "$@"`

// newStage makes the repository and the box, and writes the plan, the script and the configuration.
func newStage(t *testing.T, s set) *stage {
	t.Helper()
	for _, tool := range []string{"git", "flock"} {
		if _, err := exec.LookPath(tool); err != nil {
			mayNotSkip(t, "%s is not there", tool)
		}
	}
	st := &stage{site: emptySite(t), sessions: map[string]bool{}, checked: map[string]bool{}}
	root := filepath.Dir(st.project)
	st.plan, st.script, st.diary = filepath.Join(root, "plan.md"), filepath.Join(root, "agents.script"), filepath.Join(root, "diary")
	check(t, os.Mkdir(st.diary, 0o755))
	st.write(t, st.plan, s.plan)
	st.write(t, st.script, strings.ReplaceAll(s.script, "$DIARY", st.diary))
	s.files = withDefault(s.files, "README.md", "a project\n")
	for name, text := range s.files {
		st.write(t, filepath.Join(st.project, name), text)
	}
	st.git(t, "init", "-q", "-b", "main")
	st.git(t, "config", "user.name", "tester")
	st.git(t, "config", "user.email", "tester@localhost")
	st.git(t, "add", "-A")
	st.git(t, "commit", "-q", "-m", "the beginning")
	st.init(t)
	if s.format == "" {
		s.format = signalbox.FormatClaude
	}
	st.write(t, st.file("signalbox.yaml"), fmt.Sprintf("agent: played\nagents:\n  played:\n    command: [sh, -c, %q, sh, %q, %q, rehearse, agent, %q, --format, %s]\n    format: %s\n%s",
		keeper, st.diary, os.Getenv(binaryVariable), st.script, s.format, s.format, s.settings))
	t.Cleanup(func() { st.endAll() })
	return st
}

func withDefault(files map[string]string, name, text string) map[string]string {
	all := map[string]string{name: text}
	for k, v := range files {
		all[k] = v
	}
	return all
}

func (st *stage) write(t testing.TB, name, text string) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(name), 0o755))
	check(t, os.WriteFile(name, []byte(text), 0o644))
}

// git runs git in the repository, with nobody's configuration but the repository's.
func (st *stage) git(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = st.project
	cmd.Env = append(os.Environ(), "HOME="+st.home, "XDG_CONFIG_HOME=", "GIT_CONFIG_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

// diaryLines are the lines that agents wrote under a name.
func (st *stage) diaryLines(t testing.TB, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(st.diary, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// crewProcess is a signalbox run or worker that works on the stage.
type crewProcess struct {
	t     testing.TB
	stage *stage
	cmd   *exec.Cmd
	log   string
	ended chan struct{} // closed when it has ended
}

// start starts signalbox with what it prints in a file, as the leader of a group of its own.
func (st *stage) start(t testing.TB, args ...string) *crewProcess {
	t.Helper()
	log, err := os.CreateTemp(st.diary, args[0]+"-*.log")
	check(t, err)
	defer log.Close()
	r := &crewProcess{t: t, stage: st, cmd: st.command(t, args...), log: log.Name(), ended: make(chan struct{})}
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
		if text := r.said(); t.Failed() {
			t.Logf("%v: %v\n%s", args, r.cmd.ProcessState, text[max(0, len(text)-3000):])
		}
	})
	return r
}

func (st *stage) startRun(t testing.TB, args ...string) *crewProcess {
	t.Helper()
	if text, err := os.ReadFile(st.script); err == nil && !st.checked[string(text)] {
		st.must(t, "rehearse", "check", st.script)
		st.checked[string(text)] = true
	}
	return st.start(t, append([]string{"run", st.plan, "--plain"}, args...)...)
}

func (r *crewProcess) said() string {
	text, err := os.ReadFile(r.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (r *crewProcess) isOver() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// end waits until it has ended by itself, and checks that it did not crash.
func (r *crewProcess) end(status int) {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		r.t.Fatalf("%v does not end", r.cmd.Args[1:])
	}
	if text := r.said(); strings.Contains(text, "panic:") || strings.Contains(text, "goroutine ") {
		r.t.Fatal("it crashed")
	}
	if got := r.cmd.ProcessState.ExitCode(); got != status {
		r.t.Fatalf("%v: exit status %d, want %d", r.cmd.Args[1:], got, status)
	}
}

// until waits for something that cannot be waited for in another way than by looking.
func (r *crewProcess) until(what string, is func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(2 * time.Millisecond) {
		if r.isOver() && !is() {
			r.t.Fatalf("it ended before %s", what)
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("in vain waited until %s", what)
		}
	}
}

// await waits for an event of the ledger after a sequence number.
func (r *crewProcess) await(after uint64, what string, is func(*signalbox.Event) bool) *signalbox.Event {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	e, err := r.next(ctx, after, is)
	if err != nil {
		r.t.Fatalf("in vain waited for %s: %v", what, err)
	}
	return e
}

// next returns the next event that fits. It gives up when the process has ended, after a last look.
func (r *crewProcess) next(ctx context.Context, after uint64, is func(*signalbox.Event) bool) (*signalbox.Event, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-r.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	l, err := box.OpenLedger(context.Background(), r.stage.box, r.stage.options())
	if err != nil {
		return nil, err
	}
	defer l.Close()
	for e, err := range l.Journal.Watch(ctx, after) {
		if err != nil {
			break
		}
		if after = e.Seq; is(&e) {
			return &e, nil
		}
	}
	rest, err := l.Journal.Read(context.Background(), after, 1<<30)
	for i := range rest {
		if is(&rest[i]) {
			return &rest[i], nil
		}
	}
	return nil, errors.Join(err, ctx.Err())
}

// ofType is an event of a type about a work item; "" is any.
func ofType(kind, work string) func(*signalbox.Event) bool {
	return func(e *signalbox.Event) bool { return e.Type == kind && (work == "" || e.Work == work) }
}

// granted is a lease of a role, of a work item or of any.
func granted(role signalbox.Role, work string) func(*signalbox.Event) bool {
	return func(e *signalbox.Event) bool {
		return e.Type == rules.TypeLeaseGranted && (work == "" || e.Work == work) && data[rules.LeaseGranted](e).Role == role
	}
}

// data is what an event says; nothing if it is of another type.
func data[T any](e *signalbox.Event) (body T) {
	_ = json.Unmarshal(e.Data, &body)
	return body
}

// all returns what the events of a type say about a work item; "" is any.
func all[T any](events []signalbox.Event, kind, work string) (bodies []T) {
	for i := range events {
		if ofType(kind, work)(&events[i]) {
			bodies = append(bodies, data[T](&events[i]))
		}
	}
	return bodies
}

// agentProcess is a process that works for the box: an agent, a check, or what they left.
type agentProcess struct {
	pid     int
	session string
	command string
}

// processes finds what works for the box, whoever started it.
func (st *stage) processes() (found []agentProcess) {
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		env, err := os.ReadFile(name + "/environ")
		if err != nil || len(env) == 0 {
			continue // gone, a zombie, or another user's
		}
		session, ofBox := "", false
		for entry := range bytes.SplitSeq(env, []byte{0}) {
			key, value, _ := strings.Cut(string(entry), "=")
			switch key {
			case "SIGNALBOX_SESSION":
				session = value
			case "SIGNALBOX_BOX":
				ofBox = value == st.box
			}
		}
		dir, _ := os.Readlink(name + "/cwd")
		if session == "" || !ofBox && !strings.HasPrefix(dir, st.box) {
			continue
		}
		command, _ := os.ReadFile(name + "/cmdline")
		pid, _ := strconv.Atoi(filepath.Base(name))
		found = append(found, agentProcess{pid, session, string(bytes.ReplaceAll(command, []byte{0}, []byte{' '}))})
	}
	return found
}

// endAll ends what works for the box.
func (st *stage) endAll() {
	for _, p := range st.processes() {
		syscall.Kill(p.pid, syscall.SIGKILL)
	}
}

// owners are the crews that are in the register.
func (st *stage) owners() (ids []string) {
	files, _ := filepath.Glob(filepath.Join(st.box, "crews", "*.owner"))
	for _, file := range files {
		ids = append(ids, strings.TrimSuffix(filepath.Base(file), ".owner"))
	}
	return ids
}

// checkNobody checks that nothing of the box runs any more.
func (st *stage) checkNobody(t testing.TB) {
	t.Helper()
	if left := st.processes(); len(left) > 0 {
		t.Errorf("processes are left: %+v", left)
	}
	if left := st.owners(); len(left) > 0 {
		t.Errorf("the register still has %v", left)
	}
}

// checkWhole checks that git finds nothing wrong with the repository. A tree that git was making when it was killed has a
// head that is at nothing; it is made anew when somebody is to work there.
func (st *stage) checkWhole(t testing.TB, allowHalfMadeTrees bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "fsck", "--no-dangling", "--no-progress")
	cmd.Dir = st.project
	out, err := cmd.CombinedOutput()
	var bad []string
	for line := range strings.Lines(string(out)) {
		if !allowHalfMadeTrees || !strings.HasPrefix(line, "error: ") || !strings.Contains(line, "worktrees/") || !strings.Contains(line, "/HEAD") {
			bad = append(bad, line)
		}
	}
	if len(bad) > 0 || err != nil && len(out) == 0 {
		t.Errorf("git fsck: %v\n%s", err, strings.Join(bad, ""))
	}
}

// checkBase checks that the base is at a merge, or where it began, and that nothing of it is missing. It holds at any
// instant.
func (st *stage) checkBase(t testing.TB) (merges map[string]int) {
	t.Helper()
	st.git(t, "rev-list", "--objects", "--quiet", "main")
	merges = map[string]int{}
	lines := strings.Split(st.git(t, "log", "--first-parent", "--format=%P%x09%(trailers:key=Signalbox-Task,valueonly,separator=%x2c)%x09%s", "main"), "\n")
	for i, line := range lines {
		fields := strings.Split(line, "\t")
		switch parents := strings.Fields(fields[0]); {
		case len(parents) == 0 && i == len(lines)-1 && fields[2] == "the beginning":
		case len(parents) == 2 && fields[1] != "":
			merges[fields[1]]++
		default:
			t.Errorf("the base has a commit that is no merge of a task: %s", line)
		}
	}
	for task, n := range merges {
		if n != 1 {
			t.Errorf("%s is in the base %d times", task, n)
		}
	}
	return merges
}

// checkClean checks that the user's own worktree is that of the base, with nothing left lying about.
func (st *stage) checkClean(t testing.TB) {
	t.Helper()
	if said := st.git(t, "status", "--porcelain"); said != "" {
		t.Errorf("git status says:\n%s", said)
	}
}

// checkDone checks that each task was completed and merged, once, and that nothing is left over.
func (st *stage) checkDone(t testing.TB, tasks ...string) []signalbox.Event {
	t.Helper()
	events := st.mustVerify(t)
	st.verifyCommand(t, 0)
	st.checkWhole(t, false)
	merges := st.checkBase(t)
	st.checkClean(t)
	st.checkNobody(t)
	st.checkAlone(t)
	merged, completed := map[string]int{}, map[string]int{}
	for i := range events {
		switch e := &events[i]; e.Type {
		case "Merged":
			merged[e.Work]++
		case "PhaseChanged":
			if data[rules.PhaseChanged](e).To == signalbox.PhaseCompleted {
				completed[e.Work]++
			}
		}
	}
	for _, task := range tasks {
		if merged[task] != 1 || completed[task] != 1 || merges[task] != 1 {
			t.Errorf("%s was recorded as merged %d times, as completed %d times, and is in the base %d times", task, merged[task], completed[task], merges[task])
		}
	}
	if len(merges) != len(tasks) {
		t.Errorf("the base has %v, want %v", merges, tasks)
	}
	return events
}

// checkAlone checks that no two agents were ever at the same work at once.
func (st *stage) checkAlone(t testing.TB) {
	t.Helper()
	if both := st.diaryLines(t, "overlaps"); len(both) > 0 {
		t.Errorf("these agents began while another was at the same work: %q", both)
	}
	if len(st.diaryLines(t, "starts")) == 0 {
		t.Error("no agent was started")
	}
}

// task is a task of a plan, as text.
func task(id, blockers string) string {
	return fmt.Sprintf("#### Task %s: Part %s\n\n**Work**\n\nWrite part/%s.txt.\n\n**Acceptance Criteria**\n\n- [ ] part/%s.txt is good\n\n**Blocked By**: %s\n\n", id, id, id, id, blockers)
}

// planOf is a plan of tasks, each given as "ID" or as "ID: blockers".
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

// content are agents that do what they should.
const content = `
on developer *:
    run mkdir -p part && echo good >part/$SIGNALBOX_WORK.txt
    signal READY_FOR_REVIEW: {task}
        Summary: It is there.

on critic *:
    signal REVIEW_PASSED: {task}

on auditor *:
    signal AUDIT_PASSED: {task}

on expert *:
    signal EXPERT_ADVICE: {task}
        Summary: Go on.
`

// partsCheck is a check that takes a moment and finds parts that are not good.
const partsCheck = "checks:\n  - {name: parts, command: 'sleep 0.03; for f in part/*.txt; do test ! -e $f || grep -qx good $f || exit 1; done'}\n"

// checkParts checks that the base has exactly the parts of these tasks.
func (st *stage) checkParts(t testing.TB, tasks ...string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(st.project, "part", "*.txt"))
	var got []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(t, err)
		if string(text) != "good\n" {
			t.Errorf("%s says %q", file, text)
		}
		got = append(got, strings.TrimSuffix(filepath.Base(file), ".txt"))
	}
	want := slices.Sorted(slices.Values(tasks))
	if !slices.Equal(got, want) {
		t.Errorf("the base has the parts %v, want %v", got, want)
	}
}
