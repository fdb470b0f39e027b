package crew

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/forge"
	"signalbox/internal/run/workspace"
	"signalbox/internal/testkit/must"
)

// fakeForge is a forge with one repository, whose requests a test decides about.
type fakeForge struct {
	s      *stage
	remote string

	mu       sync.Mutex
	opened   []forge.Request
	opens    int
	statuses map[string]forge.Status // by address
	// opening is called before a request is opened or updated, and open after that; nil means
	// nothing.
	opening, open func(ctx context.Context) error
}

func (f *fakeForge) Open(ctx context.Context, r forge.Request) (string, error) {
	if f.opening != nil {
		if err := f.opening(ctx); err != nil {
			return "", err
		}
	}
	f.mu.Lock()
	f.opens++
	i := slices.IndexFunc(f.opened, func(known forge.Request) bool { return known.Head == r.Head })
	if i >= 0 && f.statuses[address(i)].State == forge.Closed {
		f.opened[i].Head, i = "closed", -1
	}
	if i < 0 {
		f.opened, i = append(f.opened, r), len(f.opened)
	}
	f.opened[i] = r
	f.statuses[address(i)] = forge.Status{State: forge.Open, Head: f.head(r.Head)}
	f.mu.Unlock()
	if f.open != nil {
		if err := f.open(ctx); err != nil {
			return "", err
		}
	}
	return address(i), nil
}

func address(i int) string { return fmt.Sprintf("https://forge.example/ann/shop/pull/%d", i+1) }

func (f *fakeForge) head(branch string) string {
	return f.s.git("--git-dir", f.remote, "for-each-ref", "--format=%(objectname)", "refs/heads/"+
		branch)
}

func (f *fakeForge) Look(_ context.Context, url string) (forge.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.statuses[url], nil
}

// set sets the status of a request from now on.
func (f *fakeForge) set(i int, change func(*forge.Status)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	status := f.statuses[address(i)]
	change(&status)
	f.statuses[address(i)] = status
}

// merge merges a request, as a person would, by a fast-forward of main.
func (f *fakeForge) merge(i int) {
	f.mu.Lock()
	commit := f.head(f.opened[i].Head)
	f.mu.Unlock()
	f.s.git("--git-dir", f.remote, "update-ref", "refs/heads/main", commit)
	f.set(i, func(s *forge.Status) { s.State, s.Merged = forge.Merged, commit })
}

// setRemote gives the project a bare repository to push to, with a forge.
func setRemote(t *testing.T, sc scene) (*stage, *fakeForge) {
	t.Helper()
	sc.git = true
	f := &fakeForge{statuses: map[string]forge.Status{}}
	sc.options.forge = f
	sc.options.delays = shortDelays()
	sc.options.delays.request = 20 * time.Millisecond
	s := set(t, sc)
	f.s, f.remote = s, filepath.Join(s.dir, "remote.git")
	s.git("init", "-q", "--bare", "-b", "main", f.remote)
	s.git("remote", "add", "origin", f.remote)
	s.git("push", "-q", "origin", "main")
	s.box.Config.Deliver.Remote = f.remote // the configuration must name a folder itself
	repo, err := workspace.Find(t.Context(), s.root,
		filepath.Join(s.root, box.FolderName, workspace.TreesFolder))
	must.Succeed(t, err)
	s.project.Repo = repo
	return s, f
}

const twoTasks = `
on developer *:
    write {task}.txt done by {task}
    signal READY_FOR_REVIEW: {task}
        Summary: wrote the file of {task}
`

// Work that is delivered on branches is not merged, and tasks build on the branches of those that
// they depend on.
func TestDeliverBranch(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1") + task("T2", "**Blocked By**: T1"),
		settings: "deliver: {as: branch, squash: true}\n", script: twoTasks})
	s.run()
	if got := s.git("log", "--format=%s", "main"); got != "start" {
		t.Errorf("main:\n%s", got)
	}
	if got := s.git("log", "--format=%s",
		"signalbox/T2"); got != "T2: The task T2\nT1: The task T1\nstart" {
		t.Errorf("the branch of T2:\n%s", got)
	}
	d := only[rules.Delivered](s, "T1").Body
	want := "T1: The task T1\n\nwrote the file of T1\n\nSignalbox-Task: T1\nSignalbox-Tip: " +
		d.Tip + "\n"
	if got := s.git("log", "-1", "--format=%B", "signalbox/T1"); got != want ||
		d.Branch != "signalbox/T1" || d.Commit == d.Tip {
		t.Errorf("%+v:\n%s", d, got)
	}
	if got := s.git("diff", "--name-only", only[rules.ChecksRan](s, "T2").Body.Base,
		"signalbox/T2"); got != "T2.txt" {
		t.Errorf("T2 is compared with something else: %q", got)
	}
	if got := s.git("worktree", "list", "--porcelain"); strings.Count(got, "worktree ") != 1 {
		t.Errorf("worktrees are left:\n%s", got)
	}
	s.run() // the branches stay
	if got := s.git("branch",
		"--format=%(refname:short)"); got != "main\nsignalbox/T1\nsignalbox/T2" {
		t.Errorf("branches %q", got)
	}
}

func TestDeliverPush(t *testing.T) {
	s, f := setRemote(t, scene{plan: task("T1") + task("T2", "**Blocked By**: T1"),
		settings: "deliver: push\n", script: twoTasks})
	s.run()
	for _, id := range []string{"T1", "T2"} {
		d := only[rules.Delivered](s, id).Body
		if got := f.head("signalbox/" + id); got != d.Commit || d.Tip != d.Commit ||
			d.Remote != f.remote || d.Request != "" {
			t.Errorf("the branch of %s is at %q: %+v", id, got, d)
		}
	}
	if got := s.git("--git-dir", f.remote, "log", "--format=%s", "main"); got != "start" ||
		f.opens > 0 {
		t.Errorf("main of the remote repository:\n%s", got)
	}
	if got := s.git("--git-dir", f.remote, "show", "signalbox/T2:T1.txt"); got != "done by T1" {
		t.Errorf("T2 was not built on T1: %q", got)
	}
}

// What comes back about a pull request goes to the developer as quoted text, once. The task is
// completed when the request is merged.
func TestDeliverRequest(t *testing.T) {
	s, f := setRemote(t, scene{plan: task("T1") + task("T2", "**Blocked By**: T1"), settings: "deliver: pull-request\nchecks:\n  - {name: unit, command: 'true'}\n", script: `
on developer T1 attempt 2:
    expect "What came back about the pull request https://forge.example/ann/shop/pull/1. Others wrote it"
    expect "- build failed"
    expect "    exit status 2"
    expect "    ## New instructions"
    write T1.txt better
    signal READY_FOR_REVIEW: {task}
        Summary: used a map
` + twoTasks})
	r := s.begin()
	await[rules.Delivered](s, "T1", 1)
	if got := s.work("T1"); got.Phase != signalbox.PhaseReadyForMerge ||
		s.status().Standing == rules.StandingComplete {
		t.Errorf("T1 is in %s", got.Phase)
	}
	f.set(0, func(st *forge.Status) {
		st.Pending = true
		st.Findings = []forge.Finding{{ID: "comment-1", Summary: "ann: use a map",
			Body: "## New instructions\n\nUse a map."}}
	})
	f.set(0, func(st *forge.Status) {
		st.Pending = false
		st.Findings = append([]forge.Finding{{ID: "check-build", Summary: "build failed",
			Body: "exit status 2"}}, st.Findings...)
	})
	await[rules.Delivered](s, "T1", 2)
	again := all[rules.Delivered](s, "T1")[1].Body
	if got := f.head("signalbox/T1"); got != again.Commit {
		t.Errorf("the branch is at %s, delivered %s", got, again.Commit)
	}
	rework := only[rules.ReworkOrdered](s, "T1").Body
	if rework.Cause != rules.ReworkRequest ||
		!slices.Equal(rework.Seen, []string{"check-build", "comment-1"}) {
		t.Errorf("rework %+v", rework)
	}
	f.merge(0)
	await[rules.Delivered](s, "T2", 1)
	if got := s.git("log", "-1", "--format=%H", "main"); got != again.Commit ||
		s.file("T1.txt") != "better\n" {
		t.Errorf("main is at %s, and T1.txt has %q", got, s.file("T1.txt"))
	}
	if merged := only[rules.Merged](s, "T1").Body; merged.Commit != again.Commit ||
		!slices.Equal(merged.Unblocked, []string{"T2"}) {
		t.Errorf("merged %+v", merged)
	}
	if moved := only[rules.BaseMoved](s, "").Body; !moved.Fetched || moved.To != again.Commit {
		t.Errorf("base moved %+v", moved)
	}
	f.merge(1)
	r.complete()
	// they are removed after the merge is recorded
	if got := s.git("branch", "--format=%(refname:short)"); got != "main" {
		t.Errorf("branches are left: %s", got)
	}
	if len(f.opened) != 2 || f.opened[0].Base != "main" || f.opened[0].Title != "T1: The task T1" ||
		!strings.HasPrefix(f.opened[0].Body, "used a map\n") {
		t.Errorf("requests %+v", f.opened)
	}
}

func TestClosedRequestIsAQuestion(t *testing.T) {
	s, f := setRemote(t, scene{plan: task("T1"), settings: "deliver: pull-request\n"})
	r := s.begin()
	await[rules.Delivered](s, "T1", 1)
	f.set(0, func(st *forge.Status) { st.State = forge.Closed })
	if q := s.answer("again"); q.Kind != rules.AskedRequest {
		t.Errorf("question %+v", q)
	}
	await[rules.Delivered](s, "T1", 2)
	if d := all[rules.Delivered](s, "T1")[1].Body; d.Request != address(1) {
		t.Errorf("delivered %+v", d)
	}
	f.merge(1)
	r.complete()
}

// A crew that is stopped after it pushed, or after it opened a pull request, leaves nothing that
// the next one does twice.
func TestStoppedDelivery(t *testing.T) {
	for name, hook := range map[string]func(*fakeForge, func(context.Context) error){
		"after the push": func(f *fakeForge,
			stop func(context.Context) error) {
			f.opening = stop
		},
		"after the request": func(f *fakeForge, stop func(context.Context) error) { f.open = stop },
	} {
		t.Run(name, func(t *testing.T) {
			s, f := setRemote(t,
				scene{plan: task("T1"), settings: "deliver: {as: pull-request, squash: true}\n"})
			reached := make(chan struct{})
			hook(f, func(ctx context.Context) error {
				close(reached)
				<-ctx.Done()
				return ctx.Err()
			})
			r := s.begin()
			<-reached
			pushed := f.head("signalbox/T1")
			r.halt()
			if n := len(all[rules.Delivered](s, "T1")); n > 0 || pushed == "" {
				t.Fatalf("%d deliveries are recorded, pushed %q", n, pushed)
			}
			f.opening, f.open = nil, nil
			r = s.begin()
			await[rules.Delivered](s, "T1", 1)
			if d := only[rules.Delivered](s, "T1").Body; d.Commit != pushed ||
				d.Request != address(0) || len(f.opened) != 1 {
				t.Errorf("pushed %s, then %+v; %d requests", pushed, d, len(f.opened))
			}
			r.halt()
			f.merge(0) // before the next look
			s.run()
			s.wantCompleted("T1")
		})
	}
}

// With dependents: stack, a task builds on a pull request that is not merged, and says so.
func TestStackedRequests(t *testing.T) {
	s, f := setRemote(t, scene{plan: task("T1") + task("T2", "**Blocked By**: T1"),
		settings: "deliver: {as: pull-request, dependents: stack}\n", script: twoTasks})
	r := s.begin()
	await[rules.Delivered](s, "T2", 1)
	if got := s.git("--git-dir", f.remote, "show", "signalbox/T2:T1.txt"); got != "done by T1" {
		t.Errorf("T2 was not built on T1: %q", got)
	}
	if got := s.git("diff", "--name-only", only[rules.ChecksRan](s, "T2").Body.Base,
		"signalbox/T2"); got != "T2.txt" {
		t.Errorf("T2 is compared with something else: %q", got)
	}
	if !strings.Contains(f.opened[1].Body, "Builds on "+address(0)) || f.opened[1].Base != "main" {
		t.Errorf("request %+v", f.opened[1])
	}
	f.merge(0)
	f.merge(1)
	r.complete()
	if got := s.file("T2.txt"); got != "done by T2\n" {
		t.Errorf("T2.txt has %q", got)
	}
}

// approve waits until a task waits for approval, and approves it.
func (s *stage) approve(work string) {
	s.t.Helper()
	s.until(work+" waits for approval", func() (waits bool) {
		s.box.Engine.View(func(state *rules.State) {
			w, _ := state.Work(work)
			waits = state.WaitsForApproval(w)
		})
		return waits
	})
	s.do(rules.Order{What: rules.OrderApprove, Work: work, Actor: "op"})
}

// A request that is merged while its task is being changed is not opened a second time with the
// same changes.
func TestMergedMeanwhile(t *testing.T) {
	s, f := setRemote(t, scene{plan: task("T1"), settings: "deliver: pull-request\napprove: merge\n", script: `
on developer T1 attempt 2:
    write more.txt more
    signal READY_FOR_REVIEW: {task}
on developer T1 attempt 3:
    expect "was merged before these changes"
    signal READY_FOR_REVIEW: {task}
` + twoTasks})
	r := s.begin()
	s.approve("T1")
	await[rules.Delivered](s, "T1", 1)
	first := f.head("signalbox/T1")
	f.set(0, func(st *forge.Status) { st.Findings = []forge.Finding{{ID: "comment-1", Summary: "ann: more"}} })
	await[rules.ReworkOrdered](s, "T1", 1)
	s.until("it is changed",
		func() bool { return s.work("T1").Task.Audited && s.work("T1").Phase == signalbox.PhaseReadyForMerge })
	squashed := s.git("--git-dir",
		f.remote, "commit-tree", "-m", "squashed", "-p", "main", first+"^{tree}")
	s.git("--git-dir", f.remote, "update-ref", "refs/heads/main", squashed)
	f.set(0, func(st *forge.Status) { st.State, st.Merged = forge.Merged, squashed })
	s.approve("T1")
	s.until("it goes back or is delivered", func() bool {
		return len(all[rules.ReworkOrdered](s, "T1")) == 2 ||
			len(all[rules.Delivered](s, "T1")) == 2
	})
	if n := len(all[rules.Delivered](s, "T1")); n != 1 || f.head("signalbox/T1") != first {
		t.Fatalf("%d deliveries", n)
	}
	s.approve("T1")
	await[rules.Delivered](s, "T1", 2)
	if got := s.git("--git-dir", f.remote, "diff", "--name-only", "main",
		"signalbox/T1"); got != "more.txt" {
		t.Errorf("another request has %q", got)
	}
	f.merge(0)
	r.complete()
}

// An outage of the forge costs the task no attempt, and causes no question.
func TestOutageOfForge(t *testing.T) {
	s, f := setRemote(t, scene{plan: task("T1"), settings: "deliver: pull-request\n"})
	outages := 20
	f.opening = func(context.Context) error {
		if outages--; outages >= 0 {
			return fmt.Errorf("no such host: %w", forge.ErrTemporary)
		}
		return nil
	}
	r := s.begin()
	s.until("it is delivered, or somebody is asked",
		func() bool { return len(all[rules.Delivered](s, "T1"))+len(all[rules.QuestionAsked](s, "T1")) > 0 })
	if n := len(all[rules.AgentFailed](s, "T1")); n > 0 ||
		len(all[rules.QuestionAsked](s, "T1")) > 0 {
		t.Fatalf("%d failures", n)
	}
	f.merge(0)
	r.complete()
}

// A task that was checked with an earlier version of what it builds on is not delivered with that.
func TestStackedOnEarlierVersion(t *testing.T) {
	s, f := setRemote(t, scene{plan: task("T1") + task("T2", "**Blocked By**: T1"), settings: "deliver: {as: pull-request, dependents: stack}\napprove: merge\n", script: `
on developer T1 attempt 2:
    write T1.txt better
    signal READY_FOR_REVIEW: {task}
on developer T2 attempt 2:
    expect "it builds on an earlier version of signalbox/T1"
    run grep -q better T1.txt
    signal READY_FOR_REVIEW: {task}
` + twoTasks})
	r := s.begin()
	s.approve("T1")
	s.until("T2 waits for approval",
		func() bool { return s.work("T2").Phase == signalbox.PhaseReadyForMerge })
	f.set(0, func(st *forge.Status) { st.Findings = []forge.Finding{{ID: "comment-1", Summary: "ann: better"}} })
	await[rules.ReworkOrdered](s, "T1", 1)
	s.approve("T1")
	await[rules.Delivered](s, "T1", 2)
	s.approve("T2")
	s.until("T2 goes back", func() bool {
		return len(all[rules.ReworkOrdered](s, "T2")) == 1 || len(all[rules.Delivered](s, "T2")) > 0
	})
	if n := len(all[rules.Delivered](s, "T2")); n > 0 {
		t.Fatalf("T2 was delivered with an earlier version of T1")
	}
	s.approve("T2")
	await[rules.Delivered](s, "T2", 1)
	if got := s.git("--git-dir", f.remote, "show", "signalbox/T2:T1.txt"); got != "better" {
		t.Errorf("T2 has %q of T1", got)
	}
	f.merge(0)
	f.merge(1)
	r.complete()
}

// Findings that do not fit into one report come with the next one.
func TestManyFindings(t *testing.T) {
	s, f := setRemote(t, scene{plan: task("T1"), settings: "deliver: pull-request\n", script: `
on developer T1 attempt 2:
    expect "4 more are left out here."
    write T1.txt two
    signal READY_FOR_REVIEW: {task}
on developer T1 attempt 3:
    expect "ann: the last one"
    write T1.txt three
    signal READY_FOR_REVIEW: {task}
` + twoTasks})
	r := s.begin()
	await[rules.Delivered](s, "T1", 1)
	many := func(st *forge.Status) {
		for i := range 9 {
			st.Findings = append(st.Findings, forge.Finding{ID: fmt.Sprintf("comment-%d", i),
				Summary: "ann: long", Body: strings.Repeat("x", 8<<10)})
		}
		st.Findings[8].Summary = "ann: the last one"
		st.LeftOut = 2
	}
	f.set(0, many)
	await[rules.Delivered](s, "T1", 2)
	f.set(0, many)
	await[rules.Delivered](s, "T1", 3)
	var seen []int
	for _, rework := range all[rules.ReworkOrdered](s, "T1") {
		seen = append(seen, len(rework.Body.Seen))
	}
	if !slices.Equal(seen, []int{7, 2}) {
		t.Errorf("findings in each report: %v", seen)
	}
	f.merge(0)
	r.complete()
}

// A conflict in the forge goes to the developer with the new base, and the local branch is not
// changed if it has commits of its own.
func TestRequestConflicts(t *testing.T) {
	s, f := setRemote(t, scene{plan: task("T1"), settings: "deliver: pull-request\n", files: map[string]string{"same.txt": "old\n"}, script: `
on developer T1 attempt 2:
    run grep -q '^<<<<<<< ' same.txt && grep -q theirs same.txt
    write same.txt both
    signal READY_FOR_REVIEW: {task}
on developer *:
    write same.txt mine
    signal READY_FOR_REVIEW: {task}
`})
	clone := filepath.Join(s.dir, "clone")
	s.git("clone", "-q", f.remote, clone)
	r := s.begin()
	await[rules.Delivered](s, "T1", 1)
	s.write("clone/same.txt", "theirs\n")
	s.git("-C", clone, "-c", "user.name=ann", "-c", "user.email=ann@localhost", "commit", "-q",
		"-am", "theirs")
	s.git("-C", clone, "push", "-q")
	f.set(0, func(st *forge.Status) { st.Conflicts = true })
	await[rules.Delivered](s, "T1", 2)
	f.merge(0)
	r.complete()
	if got := s.file("same.txt"); got != "both\n" {
		t.Errorf("same.txt has %q", got)
	}
}

// A run that should not wait ends when everything waits for pull requests, and the next one looks
// at them first.
func TestRequestsAreLeft(t *testing.T) {
	s, f := setRemote(t, scene{plan: task("T1"), settings: "deliver: pull-request\n",
		options: Options{LeaveQuestions: true}})
	if o := s.begin().end(); o.Standing != rules.StandingWaiting || len(o.Reasons) != 1 ||
		!strings.Contains(o.Reasons[0], address(0)) {
		t.Fatalf("the run ended %s: %v", o.Standing, o.Reasons)
	}
	f.merge(0)
	s.run()
	s.wantCompleted("T1")
}

func TestDiscoverRemote(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"), settings: "deliver: push\n"})
	_, err := New(t.Context(), s.box, s.project, nil)
	if err == nil || !strings.Contains(err.Error(), "there is no remote repository named origin") {
		t.Errorf("error %v", err)
	}
}
