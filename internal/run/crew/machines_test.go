package crew

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/project"
	"signalbox/internal/run/transport"
	"signalbox/internal/run/workspace"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/pgserver"
)

// authors and judges are the roles of two machines, such that the work of a task goes back and
// forth between them.
var (
	authors = []signalbox.Role{signalbox.RoleDeveloper, signalbox.RoleRemediation,
		signalbox.RoleAuditor}
	judges = []signalbox.Role{signalbox.RoleCI, signalbox.RoleCritic, signalbox.RoleMerger,
		signalbox.RoleHealthAuditor}
)

// machine returns another machine of the box: it has its own clone and its own folder, and shares
// only the ledger and the script.
func (s *stage) machine(name string) *stage {
	s.t.Helper()
	m := *s
	m.root = filepath.Join(s.dir, name)
	s.git("clone", "--quiet", "--no-hardlinks", s.root, m.root)
	m.git("remote", "remove", "origin")
	m.join()
	return &m
}

// join makes a clone the project of a machine.
func (s *stage) join() {
	s.t.Helper()
	dir := filepath.Join(s.root, box.FolderName)
	must.Succeed(s.t, os.MkdirAll(dir, 0o700))
	must.Succeed(s.t, os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*\n"), 0o600))
	repo, err := workspace.Find(s.t.Context(), s.root, filepath.Join(dir, workspace.TreesFolder))
	must.Succeed(s.t, err)
	s.project = project.Project{Root: s.root, Repo: repo}
	opened, err := box.Open(s.t.Context(), s.box.Dir,
		&box.Options{KeyFile: filepath.Join(s.dir, "key")})
	must.Succeed(s.t, err)
	s.t.Cleanup(func() { opened.Close() })
	ledger := *opened.Ledger
	ledger.Dir = dir
	b := *opened
	b.Ledger = &ledger
	s.box = &b
}

// fill starts a crew of a machine that fills roles; nil means all.
func (s *stage) fill(roles []signalbox.Role) *running {
	s.t.Helper()
	options := s.scene.options
	options.machines, options.Roles = true, roles
	return s.beginIn(s.box, options)
}

// pauseWhen stops a crew when a condition is met.
func (r *running) pauseWhen(condition func() bool) {
	r.t.Helper()
	r.until("the crew can be stopped", condition)
	r.halt()
}

// synced checks that the clones are where the ledger says, and have these files.
func synced(t *testing.T, files []string, machines ...*stage) {
	t.Helper()
	for _, m := range machines {
		known := ""
		must.Succeed(t, m.box.Engine.Refresh(t.Context()))
		m.box.Engine.View(func(s *rules.State) { known = s.Base() })
		if here := m.git("rev-parse", "main"); here != known {
			t.Errorf("%s is at %s, the ledger at %s", m.root, here, known)
		}
		if status := m.git("status", "--porcelain"); status != "" {
			t.Errorf("%s has changes:\n%s", m.root, status)
		}
		for _, name := range files {
			if _, err := os.Stat(filepath.Join(m.root, name)); err != nil {
				t.Error(err)
			}
		}
		m.git("fsck", "--no-dangling", "--no-progress")
		if left, _ := filepath.Glob(filepath.Join(m.box.Dir, workspace.TreesFolder,
			"T*")); len(left) > 0 {
			t.Errorf("worktrees of completed tasks: %v", left)
		}
	}
}

func TestTwoMachinesInTurn(t *testing.T) {
	for _, name := range []string{"bundles", "remote"} {
		t.Run(name, func(t *testing.T) {
			remote, more := "", ""
			if name != "bundles" {
				remote = sharedRepository(t)
				more = "workspace: {remote: " + remote + "}\ndeliver: {squash: true}\n"
			}
			a := set(t, scene{git: true,
				plan:     task("T1") + task("T2", "**Blocked By**: T1"),
				settings: "checks: [{name: ok, command: 'true'}]\n" + more,
				script: `
on critic T1 attempt 1:
    signal REVIEW_FAILED: {task}
        Issues Found: it lacks a second file
on developer T1 attempt 2:
    write T1.second second
    signal READY_FOR_REVIEW: {task}
        Summary: with a second file
`})
			b := a.machine("b")
			first, second := a.fill(authors), b.fill(judges)
			for _, r := range []*running{first, second} {
				r.complete()
			}
			a.wantCompleted("T1", "T2")
			synced(t, []string{"T1.done", "T1.second", "T2.done"}, a, b)
			if moved := all[rules.BaseMoved](a, ""); len(moved) > 0 {
				t.Errorf("merges were taken for something else: %+v", moved)
			}
			if moved := all[rules.BranchMoved](a, ""); len(moved) > 0 {
				t.Errorf("old branches were taken for moved ones: %+v", moved)
			}
			if remote != "" {
				refs := strings.Fields(a.git("-C", remote, "for-each-ref", "--format=%(refname)"))
				if want := "refs/signalbox/" + a.box.ID() + "/base/" +
					a.git("rev-parse", "main"); len(refs) != 2 || refs[0] != want {
					t.Errorf("the shared repository has %q, want %s and the branch", refs, want)
				}
			}
			a.box.Engine.View(func(s *rules.State) {
				if n := len(s.StoredCommits("")); (n == 0) != (remote != "") || n > 6 {
					t.Errorf("the chain has %d bundles", n)
				}
				for w := range s.Works() {
					if n := len(s.StoredCommits(w.ID)); n > 0 {
						t.Errorf("%s has %d bundles", w.ID, n)
					}
				}
			})
			// A machine that joins now needs nothing but the ledger.
			c := *a
			c.root = filepath.Join(a.dir, "c")
			must.Succeed(t, transport.Clone(t.Context(), a.box, c.root))
			c.join()
			synced(t, []string{"T1.done", "T1.second", "T2.done"}, &c)
		})
	}
}

// sharedRepository returns a repository that all machines reach.
func sharedRepository(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "shared.git")
	if out, err := exec.Command("git", "init", "--quiet", "--bare",
		dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	return dir
}

// The developer of a task is interrupted, and another machine continues; the first one comes back
// later.
func TestAuthorContinuesOnAnotherMachine(t *testing.T) {
	// After each report that the task is incomplete it waits for an answer, so the same machine
	// does not continue before it is stopped.
	a := set(t, scene{git: true, plan: task("T1"), settings: "roles: {developer: {agent: again-claude}}\nlimits: {incompletes: 1}\n", script: `
on developer T1 attempt 1:
    write first first
    signal TASK_INCOMPLETE: {task}
        Reason: half of it is done
on developer T1 attempt 2:
    write second second
    signal TASK_INCOMPLETE: {task}
        Reason: more of it is done
on developer T1 attempt 3:
    run cat first second
    write third third
    signal READY_FOR_REVIEW: {task}
`})
	b := a.machine("b")
	turn := func(m *stage) {
		r := m.fill([]signalbox.Role{signalbox.RoleDeveloper, signalbox.RoleCI})
		m.until("a developer gives up", func() bool { return len(m.status().Questions) > 0 })
		r.halt()
		m.answer("continue")
	}
	turn(a)
	// What is only here is kept, although the work continues elsewhere.
	turn(b)
	if got := b.git("show", "signalbox/T1:first"); got != "first" {
		t.Errorf("the second author had %q", got)
	}
	tree := filepath.Join(a.box.Dir, workspace.TreesFolder, "T1")
	must.Succeed(t, os.WriteFile(filepath.Join(tree, "local"), []byte("local\n"), 0o600))
	if o := a.fill(nil).end(); o.Standing != rules.StandingComplete {
		t.Fatalf("the run ended %s", o.Standing)
	}
	for _, name := range []string{"first", "second", "third"} {
		a.file(name)
	}
	if _, err := os.Stat(filepath.Join(a.root, "local")); err == nil {
		t.Error("an old file was merged")
	}
	left := a.git("for-each-ref", "--format=%(refname)", "refs/signalbox/left/T1")
	if !slices.ContainsFunc(strings.Fields(left),
		func(ref string) bool { return strings.Contains(a.git("ls-tree", "--name-only", ref), "local") }) {
		t.Errorf("the local file is lost; kept:\n%s", left)
	}
	for _, e := range all[rules.AgentStarted](a, "T1") {
		if e.Body.Resumes != "" {
			t.Errorf("a conversation of another machine was resumed: %+v", e.Body)
		}
	}
	b.fill(nil).end()
	synced(t, []string{"first", "second", "third"}, a, b)
}

// An agent is interrupted on one machine. On another one its program cannot continue the
// conversation.
func TestConversationStaysOnItsMachine(t *testing.T) {
	a := set(t, scene{git: true, plan: task("T1"), settings: "roles: {developer: {agent: again-claude}}\n", script: `
on developer T1 attempt 1:
    write first first
    say working
    hang
on developer T1 attempt 2:
    run cat first
    write second second
    signal READY_FOR_REVIEW: {task}
`})
	b := a.machine("b")
	r := a.fill([]signalbox.Role{signalbox.RoleDeveloper, signalbox.RoleCI})
	a.awaitFile(filepath.Join(a.box.Dir, workspace.TreesFolder, "T1", "first"))
	r.pauseWhen(func() bool { return len(all[rules.ConversationOpened](a, "T1")) > 0 })
	if ended := all[rules.AgentTurnEnded](a, "T1"); len(ended) != 1 || !ended[0].Body.Interrupted ||
		ended[0].Body.Commit == "" {
		t.Fatalf("the turn ended %+v", ended)
	}
	b.fill(nil).end()
	b.file("first")
	for _, e := range all[rules.AgentStarted](b, "T1") {
		if e.Body.Resumes != "" {
			t.Errorf("a conversation of another machine was resumed: %+v", e.Body)
		}
	}
}

// An expert on another machine sees the files of the agent that asks it.
func TestExpertOnAnotherMachine(t *testing.T) {
	a := set(t, scene{git: true, plan: task("T1"), settings: "experts: [{name: database, agent: player}]\n", script: `
on developer T1 attempt 1:
    write query.sql select 1
    signal EXPERT_REQUEST
        Target Agent: database
        Request Type: advice
        Context Snapshot: a query
        ---DELEGATION PROMPT START---
        Is this query fast?
        ---DELEGATION PROMPT END---
on developer T1 attempt 2:
    signal READY_FOR_REVIEW: {task}
on expert X-1:
    run cat query.sql
    signal EXPERT_ADVICE: {task}
        Summary: add an index
`})
	b := a.machine("b")
	first, second := a.fill(slices.Concat(authors, judges)),
		b.fill([]signalbox.Role{signalbox.RoleExpert})
	first.end()
	second.end()
	a.wantCompleted("T1")
	synced(t, []string{"query.sql"}, a, b)
	for _, ended := range all[rules.AgentTurnEnded](a, "X-1") {
		wantIn(t, a.text(ended.Body.Output), "select 1")
	}
}

// A machine that was away, and on which a person has committed meanwhile, comes back.
func TestMachineComesBack(t *testing.T) {
	a := set(t, scene{git: true, plan: task("T1") + task("T2")})
	b := a.machine("b")
	b.fill([]signalbox.Role{signalbox.RoleExpert}).halt() // it knows the base
	a.fill(nil).end()
	must.Succeed(t, os.WriteFile(filepath.Join(b.root, "by-hand"), []byte("by hand\n"),
		0o600))
	b.git("add", "by-hand")
	b.git("commit", "-q", "-m", "by hand")
	b.fill(nil).end()
	a.fill(nil).end()
	synced(t, []string{"T1.done", "T2.done", "by-hand"}, a, b)
	if moved := only[rules.BaseMoved](a, "").Body; !slices.ContainsFunc(moved.Added,
		func(c string) bool { return strings.HasSuffix(c, "by hand") }) {
		t.Errorf("recorded %+v", moved)
	}
}

// A person's commit conflicts with what another machine has merged.
func TestBaseConflict(t *testing.T) {
	a := set(t, scene{git: true, plan: task("T1"), options: Options{LeaveQuestions: true}})
	b := a.machine("b")
	b.fill([]signalbox.Role{signalbox.RoleExpert}).halt()
	a.fill(nil).end()
	must.Succeed(t, os.WriteFile(filepath.Join(b.root, "T1.done"), []byte("mine\n"), 0o600))
	person := []string{"-c", "user.name=me", "-c", "user.email=me@localhost"}
	b.git("add", "T1.done")
	b.git(append(person, "commit", "-q", "-m", "mine")...)
	mine := b.git("rev-parse", "main")
	a.load(task("T1") + task("T2"))
	must.Succeed(t, b.box.Engine.Refresh(t.Context()))
	b.fill(nil).end() // it works with the base of the ledger
	b.wantCompleted("T2")
	if now := b.git("rev-parse", "main"); now != mine {
		t.Errorf("the person's branch moved from %s to %s", mine, now)
	}
	known := ""
	b.box.Engine.View(func(s *rules.State) { known = s.Base() })
	advice := fmt.Sprintf("git merge %.12s, on main", only[rules.Merged](a, "T1").Body.Commit)
	wantIn(t, b.log.String(), "conflicts with what other machines have merged, in T1.done", advice)
	b.git(append(person, "merge", "-q", "-X", "ours", "-m", "resolved", known)...)
	b.fill(nil).end()
	a.fill(nil).end()
	synced(t, []string{"T1.done", "T2.done"}, a, b)
	if got := a.file("T1.done"); got != "mine\n" {
		t.Errorf("got %q", got)
	}
}

// A machine has the name of its node only in a cluster that has the ledger.
func TestMachineName(t *testing.T) {
	host, err := os.Hostname()
	must.Succeed(t, err)
	for journal, want := range map[string]string{
		config.JournalCluster:                        "node-of-the-cluster",
		"postgres://signalbox@db.example.com/signal": host,
		"nats://nats.example.com:4222/shop":          host,
	} {
		c := &config.Config{Journal: journal, Cluster: config.Cluster{Node: "node-of-the-cluster"}}
		if got := machineName(c); got != want {
			t.Errorf("%s: %q, want %q", journal, got, want)
		}
	}
}

// A machine must not take another branch for the base.
func TestAnotherBranchIsNotTheBase(t *testing.T) {
	a := set(t, scene{git: true, plan: task("T1")})
	b := a.machine("b")
	a.fill([]signalbox.Role{signalbox.RoleExpert}).halt()
	b.git("switch", "-q", "-c", "feature")
	must.Succeed(t, b.project.Repo.UseBase(t.Context(), "feature"))
	must.Succeed(t, b.box.Engine.Refresh(t.Context()))
	_, err := New(t.Context(), b.box, b.project, &Options{seams: seams{machines: true}})
	if signalbox.CodeOf(err) != signalbox.CodeUsage || !strings.Contains(signalbox.HintOf(err),
		"git switch main") {
		t.Errorf("another branch: %v", err)
	}
}

// The agents of a crew on another machine are left alone, and so are its leases.
func TestPeersOfOtherMachinesAreAlive(t *testing.T) {
	a := set(t, scene{git: true, plan: task("T1") + task("T2")})
	a.script(fmt.Sprintf(`
on developer T1:
    wait for %s
    write T1.done done
    signal READY_FOR_REVIEW: {task}
`, filepath.Join(a.dir, "go")))
	b := a.machine("b")
	slow := a.fill([]signalbox.Role{signalbox.RoleDeveloper, signalbox.RoleCI})
	await[rules.AgentStarted](a, "T1", 1)
	b.fill([]signalbox.Role{signalbox.RoleCI}).halt()
	if w := a.work("T1"); w.Lease == nil {
		t.Error("the lease of another machine was released")
	}
	a.write("go", "")
	second := b.fill(nil)
	slow.end()
	second.end()
	if n := len(all[rules.AgentStarted](a, "T1")); n != 3 {
		t.Errorf("%d agents worked on T1, want one of each role", n)
	}
	synced(t, []string{"T1.done", "T2.done"}, a, b)
}

func TestMachinesDeliver(t *testing.T) {
	a := set(t, scene{git: true, plan: task("T1") + task("T2", "**Blocked By**: T1"),
		settings: "deliver: {as: branch, squash: true}\n"})
	b := a.machine("b")
	first, second := a.fill(authors), b.fill(judges)
	first.end()
	second.end()
	for _, work := range []string{"T1", "T2"} {
		delivered := only[rules.Delivered](a, work).Body
		if got := b.git("rev-parse", delivered.Branch); got != delivered.Commit {
			t.Errorf("%s is at %s, delivered %s", delivered.Branch, got, delivered.Commit)
		}
	}
	if got := b.git("show", "signalbox/T2:T1.done"); got != "done" {
		t.Errorf("T2 does not build on T1: %q", got)
	}
}

// The same with a database, as users have it.
func TestMachinesOnPostgres(t *testing.T) {
	pgserver.Need(t)
	server, err := pgserver.Start()
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	a := set(t, scene{git: true, plan: task("T1") + task("T2"), settings: "journal: " +
		server.Address + "\n"})
	if !a.box.Config.ManyMachines() {
		t.Fatal("the ledger is of one machine")
	}
	b := *a
	b.root = filepath.Join(a.dir, "b")
	a.scene.options.Roles, b.scene.options.Roles = authors, judges
	first := a.begin()
	must.Succeed(t, a.box.Engine.Refresh(t.Context()))
	must.Succeed(t, transport.Clone(t.Context(), a.box, b.root))
	b.write(filepath.Join("b", box.FolderName, config.FileName), b.settings())
	b.write(filepath.Join("b", box.FolderName, ".gitignore"), "*\n")
	opened, err := box.Open(t.Context(), filepath.Join(b.root, box.FolderName),
		&box.Options{KeyFile: filepath.Join(a.dir, "key")})
	must.Succeed(t, err)
	t.Cleanup(func() { opened.Close() })
	b.box = opened
	if b.project, err = project.Find(t.Context(), opened.Config, b.root, opened.Dir); err != nil {
		t.Fatal(err)
	}
	second := b.begin()
	first.end()
	second.end()
	synced(t, []string{"T1.done", "T2.done"}, a, &b)
}
