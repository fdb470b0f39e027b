package crew

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/rehearsal"
	"signalbox/internal/run/plan"
	"signalbox/internal/run/planload"
	"signalbox/internal/run/project"
	"signalbox/internal/run/stored"
	"signalbox/internal/run/workspace"
	"signalbox/internal/testkit/memory"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/output"
)

// Environment variables that make this test binary an agent.
const (
	scriptVariable      = "CREW_TEST_SCRIPT"
	formatVariable      = "CREW_TEST_FORMAT"
	interactiveVariable = "CREW_TEST_INTERACTIVE"
)

func TestMain(m *testing.M) {
	if script := os.Getenv(scriptVariable); script != "" {
		playAgent(script)
		return
	}
	flag.Parse()
	// the tests here mostly wait
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		flag.Set("test.parallel", "8")
	}
	os.Setenv(withheldVariable, "x")
	memory.UseForTempFiles()
	code := m.Run()
	if leaked := leakedGoroutines(); code == 0 && leaked != "" {
		fmt.Fprintln(os.Stderr, "leaked goroutines:\n"+leaked)
		code = 1
	}
	os.Exit(code)
}

// playAgent plays an agent from a script, like signalbox rehearse agent.
func playAgent(name string) {
	text, err := os.ReadFile(name)
	if err != nil {
		panic(err)
	}
	script, err := rehearsal.Parse(name, text)
	if err != nil {
		panic(err)
	}
	attempt, err := strconv.Atoi(os.Getenv("SIGNALBOX_ATTEMPT"))
	if err != nil {
		panic(err)
	}
	err = script.Play(context.Background(), rehearsal.Options{
		Format: signalbox.Format(os.Getenv(formatVariable)), Role: os.Getenv("SIGNALBOX_ROLE"),
		Task: os.Getenv("SIGNALBOX_WORK"), Attempt: attempt,
		Session: os.Getenv("SIGNALBOX_SESSION"), Interactive: os.Getenv(interactiveVariable) != "",
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if exit := (*rehearsal.Exit)(nil); errors.As(err, &exit) {
		os.Exit(exit.Code)
	}
	if err != nil {
		panic(err)
	}
}

// leakedGoroutines returns the stacks of goroutines of this module that are still running when the
// tests have ended, or "".
func leakedGoroutines() string {
	deadline := time.Now().Add(time.Minute)
	for {
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		var leaked []string
		for _, stack := range strings.Split(string(buf), "\n\n")[1:] { // the first is this one
			if strings.Contains(stack, "signalbox/internal/") &&
				!strings.Contains(stack, "testing.(*T)") {
				leaked = append(leaked, stack)
			}
		}
		if leaked == nil || time.Now().After(deadline) {
			return strings.Join(leaked, "\n\n")
		}
		runtime.Gosched()
	}
}

// patience is how long a test waits for something that should happen at once.
const patience = 5 * time.Minute

// scene describes the setup of a test.
type scene struct {
	plan string // Markdown, see task; "" means none
	// script is what agents do. Developers, critics and auditors that it does not mention accept
	// everything.
	script string
	// settings are added to the configuration.
	settings string
	// agents are more agents of the configuration.
	agents string
	// files are in the project from the start.
	files map[string]string
	// git gives each task a worktree. Otherwise all agents share one folder, which is faster.
	git     bool
	options Options
}

const friendly = `
on developer *:
    write {task}.done done
    signal READY_FOR_REVIEW: {task}
        Summary: done
on critic *:
    signal REVIEW_PASSED: {task}
on auditor *:
    signal AUDIT_PASSED: {task}
`

// task returns a task of a plan; fields are more lines, such as "**Blocked By**: T1".
func task(id string, fields ...string) string {
	text := fmt.Sprintf(
		"\n#### Task %s: The task %s\n\n**Work**: Do what %s asks for.\n\n**Acceptance Criteria**\n\n- [ ] %s is done\n", id, id, id, id)
	for _, field := range fields {
		text += "\n" + field + "\n"
	}
	return text
}

// stage is a box with a plan, in which a test runs crews.
type stage struct {
	t       *testing.T
	scene   scene
	dir     string // contains everything
	root    string // the project
	box     *box.Box
	project project.Project
	log     *output.Buffer
}

// set creates the project, the agents and the box, and loads the plan. The test runs in parallel
// with others.
func set(t *testing.T, sc scene) *stage {
	t.Helper()
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.Succeed(t, err)
	s := &stage{t: t, scene: sc, dir: dir, root: filepath.Join(dir, "project"),
		log: &output.Buffer{}}
	s.script(sc.script)
	for name, text := range sc.files {
		s.write(filepath.Join("project", name), text)
	}
	s.write(filepath.Join("project", box.FolderName, config.FileName), s.settings())
	s.project = project.Project{Root: s.root}
	opts := &box.Options{KeyFile: filepath.Join(dir, "key")}
	if _, err := box.Init(t.Context(), filepath.Join(s.root, box.FolderName), "me",
		opts); err != nil {
		t.Fatal(err)
	}
	if sc.git {
		s.commit()
	}
	s.box = s.open()
	t.Cleanup(func() {
		// the status of a scripted agent that misses an expected text
		for _, failed := range all[rules.AgentFailed](s, "") {
			if strings.HasPrefix(failed.Body.Detail, "exit status 3") {
				t.Errorf("an agent's prompt lacks an expected text: %s: %s", failed.Work,
					failed.Body.Detail)
			}
		}
		if left := runningProcesses(s.box.Dir); len(left) > 0 {
			t.Errorf("processes are still running: %v", left)
		}
		if t.Failed() {
			t.Logf("ledger:\n%s\nlog:\n%s", s.story(), s.log)
		}
	})
	if sc.plan != "" {
		s.load(sc.plan)
	}
	return s
}

// open opens the box again, as another process would.
func (s *stage) open() *box.Box {
	s.t.Helper()
	b, err := box.Open(context.Background(), filepath.Join(s.root, box.FolderName),
		&box.Options{KeyFile: filepath.Join(s.dir, "key"),
			Log: slog.New(slog.NewTextHandler(s.log, nil))})
	must.Succeed(s.t, err)
	s.t.Cleanup(func() { b.Close() })
	return b
}

// script sets what agents do from now on.
func (s *stage) script(text string) {
	s.t.Helper()
	if _, err := rehearsal.Parse("script", []byte(text+friendly)); err != nil {
		s.t.Fatal(err)
	}
	s.write("agents.script", text+friendly)
}

func (s *stage) write(name, text string) {
	s.t.Helper()
	name = filepath.Join(s.dir, name)
	must.Succeed(s.t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
		os.WriteFile(name, []byte(text), 0o644)))
}

// settings returns a configuration with the agents player (plain), talker (interactive) and one for
// each format.
func (s *stage) settings() string {
	program, err := os.Executable()
	must.Succeed(s.t, err)
	var b strings.Builder
	agent := func(name, format, more string) {
		written := format
		if format == "auto" {
			written = "plain"
		}
		for _, state := range []string{"codex", "gemini"} {
			must.Succeed(s.t, os.MkdirAll(filepath.Join(s.dir, state), 0o700))
		}
		fmt.Fprintf(&b, "  %s:\n    command: [%q]\n    format: %s\n    sandbox: {read: [%q], write: [%q, %q]}\n    env: {%s: %q, %s: %s, GORACE: atexit_sleep_ms=0, GIT_CONFIG_GLOBAL: %q, CODEX_HOME: %q, GEMINI_CLI_HOME: %q%s}\n",
			name, program, format, filepath.Join(s.dir, "agents.script"),
			filepath.Join(s.dir, "codex"), filepath.Join(s.dir, "gemini"), scriptVariable,
			filepath.Join(s.dir, "agents.script"), formatVariable, written, os.DevNull,
			filepath.Join(s.dir, "codex"), filepath.Join(s.dir, "gemini"), more)
	}
	b.WriteString("agents:\n")
	agent("player", "plain", "")
	agent("talker", "plain", ", "+interactiveVariable+": 1")
	b.WriteString("    interactive: true\n")
	for _, format := range []string{"claude", "gemini"} {
		agent("talker-"+format, format, ", "+interactiveVariable+": 1")
		b.WriteString("    interactive: true\n")
	}
	b.WriteString("  missing: {command: [no-such-program-anywhere]}\n  shell: {command: [sh, agent.sh], format: plain}\n" + s.scene.agents)
	agent("as-auto", "auto", "")
	for _, format := range signalbox.Formats()[1:] {
		agent("as-"+string(format), string(format), "")
		if format != signalbox.FormatPlain {
			agent("again-"+string(format), string(format), "")
			b.WriteString("    resume: [\"{session}\"]\n")
		}
	}
	// Without a sandbox, agents can try what must have no effect even if a sandbox lets it through.
	// See contain_test.go for the sandbox.
	defaults := map[string]string{"agent": "player", "grace": "1s", "workspace": "shared",
		"sandbox": "\"off\"", "limits": fmt.Sprintf("{checkpoint_answer: %s}", patience)}
	for setting, value := range defaults {
		if setting == "workspace" && s.scene.git {
			value = "worktree"
		}
		if !slices.ContainsFunc(strings.Split(s.scene.settings, "\n"),
			func(line string) bool { return strings.HasPrefix(line, setting+":") }) {
			fmt.Fprintf(&b, "%s: %s\n", setting, value)
		}
	}
	return b.String() + s.scene.settings
}

// commit turns the project into a git repository.
func (s *stage) commit() {
	s.t.Helper()
	s.git("init", "-q", "-b", "main")
	s.git("add", "-A")
	s.git("commit", "-q", "--allow-empty",
		"-m", "start")
	repo, err := workspace.Find(s.t.Context(), s.root,
		filepath.Join(s.root, box.FolderName, "trees"))
	must.Succeed(s.t, err)
	s.project.Repo = repo
}

// git runs a git command and returns its output without the last line end.
func (s *stage) git(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = s.root
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=me", "GIT_AUTHOR_EMAIL=me@localhost", "GIT_COMMITTER_NAME=me",
		"GIT_COMMITTER_EMAIL=me@localhost")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// load loads a plan.
func (s *stage) load(text string) rules.PlanChange { return s.loadAs("plan", text) }

// loadAs loads the plan of a file.
func (s *stage) loadAs(name, text string) rules.PlanChange {
	s.t.Helper()
	text = "# The plan\n" + text
	p, err := plan.Parse("plan.md", []byte(text), &plan.Options{Drafts: s.box.Config.Analyst()})
	must.Succeed(s.t, err)
	change, err := planload.Load(s.t.Context(), s.box, p, []byte(text),
		planload.Options{Actor: "me", Source: name + ".md", ID: name,
			Shared: s.project.Repo == nil})
	must.Succeed(s.t, err)
	return change
}

// running is a running crew.
type running struct {
	*stage
	crew    *Crew
	stop    context.CancelCauseFunc
	over    chan struct{}
	outcome rules.Status
	err     error
}

// begin starts a crew. It is stopped when the test ends, at the latest.
func (s *stage) begin() *running { return s.beginIn(s.box, s.scene.options) }

func (s *stage) beginIn(b *box.Box, options Options) *running {
	s.t.Helper()
	if options.delays == nil {
		options.delays = shortDelays()
	}
	options.Log = slog.New(slog.NewTextHandler(s.log, nil))
	c, err := New(s.t.Context(), b, s.project, &options)
	must.Succeed(s.t, err)
	ctx, stop := context.WithCancelCause(context.Background())
	r := &running{stage: s, crew: c, stop: stop, over: make(chan struct{})}
	go func() {
		defer close(r.over)
		r.outcome, r.err = c.Run(ctx)
		r.err = errors.Join(r.err, c.Close())
	}()
	s.t.Cleanup(func() {
		stop(nil)
		<-r.over
	})
	return r
}

// shortDelays returns delays that are short, except for those that a slow machine must not reach.
func shortDelays() *delays {
	return &delays{park: 500 * time.Millisecond, quiet: 200 * time.Millisecond, linger: patience,
		finish: patience, firstLook: patience, version: time.Minute, look: 50 * time.Millisecond,
		start: []time.Duration{1, 1, 1}, retry: []time.Duration{1, 1}}
}

// startUntil returns a function for Options that starts a program, and returns when the program has
// written a text or has ended. The limits of a program begin after that. So only a program that
// hangs after it wrote the text exceeds them, however slow the machine is.
func startUntil(text string) func(process.Spec, func(process.ID) error) (program, error) {
	return func(spec process.Spec, started func(process.ID) error) (program, error) {
		w := &textWatcher{Writer: spec.Stdout, text: text, written: make(chan struct{})}
		spec.Stdout = w
		p, err := process.Start(spec, started)
		if err != nil {
			return nil, err
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			p.Wait()
		}()
		select {
		case <-w.written:
		case <-ended:
		}
		return p, nil
	}
}

// textWatcher passes on what is written, and closes written after a text.
type textWatcher struct {
	io.Writer
	text    string
	written chan struct{}
	before  string
	found   bool
}

func (w *textWatcher) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if w.before += string(b); !w.found && strings.Contains(w.before, w.text) {
		w.found = true
		close(w.written)
	}
	return n, err
}

// end waits until the run ends.
func (r *running) end() rules.Status {
	r.t.Helper()
	select {
	case <-r.over:
	case <-time.After(patience):
		r.t.Fatalf("the run did not end: %+v", r.status())
	}
	if r.err != nil {
		r.t.Fatal(r.err)
	}
	if left := r.crew.runningSessions(); len(left) > 0 {
		r.t.Errorf("sessions are still running: %v", left)
	}
	return r.outcome
}

// run runs a crew until the plan is complete.
func (s *stage) run() {
	s.t.Helper()
	s.begin().complete()
}

// complete waits until the plan is complete, and checks that each of the tasks was completed once.
func (r *running) complete(ids ...string) {
	r.t.Helper()
	if o := r.end(); o.Standing != rules.StandingComplete {
		r.t.Fatalf("the run ended %s: %v", o.Standing, o.Reasons)
	}
	r.wantCompleted(ids...)
}

// develop lets authors work until T1 is ready for its checks.
func (s *stage) develop() {
	s.t.Helper()
	s.beginAuthors().ready()
}

// beginAuthors starts a crew without reviewers and merger, for tests of what an author does.
func (s *stage) beginAuthors() *running {
	s.t.Helper()
	options := s.scene.options
	options.Roles = []signalbox.Role{signalbox.RoleDeveloper, signalbox.RoleExpert,
		signalbox.RoleCI} // which looks at the base first
	options.Stay = true
	return s.beginIn(s.box, options)
}

// ready waits until T1 is ready for its checks, and stops the crew.
func (r *running) ready() {
	r.t.Helper()
	r.until("T1 is ready",
		func() bool { return r.work("T1").Phase != signalbox.PhaseImplementation })
	r.halt()
}

// halt stops the crew.
func (r *running) halt() {
	r.stop(errInterrupted)
	<-r.over
}

func (s *stage) status() (st rules.Status) {
	s.box.Engine.View(func(state *rules.State) { st = state.Status(time.Now()) })
	return st
}

// work returns the current state of a work item.
func (s *stage) work(id string) (w *rules.Work) {
	s.t.Helper()
	s.box.Engine.View(func(state *rules.State) { w, _ = state.Work(id) })
	if w == nil {
		s.t.Fatalf("there is no work %s", id)
	}
	return w
}

// do carries out a command, as an operator.
func (s *stage) do(c rules.Command) {
	s.t.Helper()
	if _, err := s.box.Engine.Do(s.t.Context(), c); err != nil {
		s.t.Fatal(err)
	}
}

// until waits for a condition, which it checks whenever the ledger has grown.
func (s *stage) until(what string, condition func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	for {
		seen := s.box.Engine.Tail().Seq
		if condition() {
			return
		}
		if err := s.box.Engine.Wait(ctx, seen); err != nil {
			s.t.Fatalf("waiting until %s: %v", what, err)
		}
	}
}

// await waits until there are so many events of a type about a work item.
func await[T any](s *stage, work string, count int) {
	s.t.Helper()
	s.until(fmt.Sprintf("there are %d events %s", count, reflect.TypeFor[T]().Name()),
		func() bool { return len(all[T](s, work)) >= count })
}

// wantStarted checks how many agents of a role were started for a work item.
func (s *stage) wantStarted(work, role string, want int) {
	s.t.Helper()
	if n := len(s.prompts(work, role)); n != want {
		s.t.Errorf("%d agents were started as %s, want %d", n, role, want)
	}
}

// answer waits for the next question, answers it, and returns it.
func (s *stage) answer(text string) (asked rules.Question) {
	s.t.Helper()
	s.until("a question is asked", func() bool {
		s.box.Engine.View(func(state *rules.State) {
			for _, q := range state.Questions() {
				if q.Open() {
					asked = *q
				}
			}
		})
		return asked.ID != ""
	})
	s.do(rules.AnswerQuestion{Question: asked.ID, Answer: text, Actor: "me"})
	return asked
}

// recorded is an event with its body.
type recorded[T any] struct {
	Seq           uint64
	Work, Session string
	Body          T
}

// all returns the events of a type in order, of one work item, or of all if work is "".
func all[T any](s *stage, work string) (found []recorded[T]) {
	s.t.Helper()
	kind := reflect.TypeFor[T]().Name()
	for e, err := range s.box.Events(context.Background(), 0) {
		must.Succeed(s.t, err)
		if e.Type != kind || work != "" && e.Work != work {
			continue
		}
		r := recorded[T]{Seq: e.Seq, Work: e.Work, Session: e.Session}
		must.Succeed(s.t, json.Unmarshal(e.Data, &r.Body))
		found = append(found, r)
	}
	return found
}

// only returns the single event of a type about a work item.
func only[T any](s *stage, work string) recorded[T] {
	s.t.Helper()
	found := all[T](s, work)
	if len(found) != 1 {
		s.t.Fatalf("there are %d events %s about %q, want 1", len(found),
			reflect.TypeFor[T]().Name(), work)
	}
	return found[0]
}

// none checks that there is no event of a type.
func none[T any](s *stage, work string) {
	s.t.Helper()
	for _, e := range all[T](s, work) {
		s.t.Errorf("%s is recorded: %+v", reflect.TypeFor[T]().Name(), e)
	}
}

// text returns the content of a blob.
func (s *stage) text(digest signalbox.Hash) string {
	s.t.Helper()
	text, err := stored.Blob(context.Background(), s.box, digest)
	must.Succeed(s.t, err)
	return string(text)
}

// prompts returns the prompts that agents of a role got for a work item.
func (s *stage) prompts(work, role string) (texts []string) {
	s.t.Helper()
	for _, started := range all[rules.AgentStarted](s, work) {
		var session *rules.Session
		s.box.Engine.View(func(state *rules.State) { session, _ = state.Session(started.Session) })
		if session != nil && string(session.Role) == role {
			texts = append(texts, s.text(started.Body.Prompt))
		}
	}
	return texts
}

// story returns the ledger, one line per event.
func (s *stage) story() string {
	var b strings.Builder
	for e, err := range s.box.Events(context.Background(), 0) {
		if err != nil {
			fmt.Fprintln(&b, err)
			break
		}
		fmt.Fprintf(&b, "%3d %s %s %s %s %.300s\n", e.Seq, e.Time.Format("05.000"), e.Type, e.Work,
			e.Session, e.Data)
	}
	return b.String()
}

func (s *stage) file(name string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.root, name))
	must.Succeed(s.t, err)
	return string(text)
}

// wantCompleted checks that each of the tasks was completed exactly once.
func (s *stage) wantCompleted(ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		if w := s.work(id); w.Phase != signalbox.PhaseCompleted {
			s.t.Errorf("%s is in %s", id, w.Phase)
		}
		if n := len(all[rules.Merged](s, id)); n != 1 {
			s.t.Errorf("%s was completed %d times", id, n)
		}
	}
}

// wantIn checks that a text contains all parts.
func wantIn(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}

// runningSessions returns the ids of the crew's sessions, sorted.
func (c *Crew) runningSessions() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []string
	for id := range c.sessions {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
