package crew

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// setupRuns returns the roles for which setup commands ran on a work item, in order.
func (s *stage) setupRuns(work string) (roles []string) {
	for _, ran := range all[rules.SetupRan](s, work) {
		var session *rules.Session
		s.box.Engine.View(func(state *rules.State) { session, _ = state.Session(ran.Session) })
		roles = append(roles, string(session.Role)+" "+ran.Body.Command)
	}
	return roles
}

// Every worktree is prepared before somebody works in it, and the one of the task only once, unless
// the named files change.
func TestSetupRunsOncePerTree(t *testing.T) {
	s := set(t, scene{
		git: true, options: Options{LeaveQuestions: true},
		plan: task("T1"),
		settings: `
setup:
  - {name: modules, command: 'mkdir -p modules && cat list >modules/list && echo $SIGNALBOX_WORK installed', files: [list]}
  - {command: 'touch modules/once'}
checks: [{name: unit, command: 'cmp list modules/list && test -f modules/once'}]
`,
		files: map[string]string{"list": "a\n", ".gitignore": "modules\n.signalbox\n"},
		script: `
on developer T1 attempt 1:
    run cmp list modules/list && test -f modules/once && rm modules/once
    append list b
    signal READY_FOR_REVIEW: {task}
on critic T1 attempt 1:
    run cmp list modules/list && test -f modules/once
    signal REVIEW_FAILED: {task}
        Issues Found:
        - not yet
on developer T1 attempt 2:
    run cmp list modules/list && test ! -f modules/once
    write other.txt more
    signal READY_FOR_REVIEW: {task}
on critic T1 attempt 2:
    signal REVIEW_FAILED: {task}
        Issues Found:
        - F1: still not
on developer T1 attempt 3:
    write third.txt more
    signal READY_FOR_REVIEW: {task}
`})
	s.run()
	prepared := func(role string) []string { return []string{role + " modules", role + " touch modules/once"} }
	if diff := cmp.Diff(prepared("ci"), s.setupRuns("B-1")); diff != "" {
		t.Errorf("on the base (-want +got):\n%s", diff)
	}
	want := slices.Concat(prepared("developer"), prepared("ci"), prepared("critic"),
		[]string{"developer modules"}, prepared("ci"), prepared("critic"),
		prepared("ci"), prepared("critic"), prepared("auditor"), prepared("merger"))
	if diff := cmp.Diff(want, s.setupRuns("T1")); diff != "" {
		t.Errorf("for the task (-want +got):\n%s", diff)
	}
	ran := all[rules.SetupRan](s, "T1")[0].Body
	if base := s.git("rev-list", "--max-parents=0", "main"); ran.Commit != base || !ran.Passed ||
		ran.Exit != 0 || s.text(ran.Output) != "T1 installed\n" || ran.Sandbox.Mode != "off" {
		t.Errorf("recorded %+v with %q, for %s", ran, s.text(ran.Output), base)
	}
	if left, _ := filepath.Glob(filepath.Join(s.box.Dir, "trees", ".prepared-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// What a setup command does to tracked files, and what it leaves, is not the work of a developer.
func TestSetupIsNotCommitted(t *testing.T) {
	s := set(t, scene{
		git: true, options: Options{LeaveQuestions: true},
		plan: task("T1") + task("T2", "**Blocked By**: T1"),
		settings: `
setup: [{name: build, command: 'echo changed >lock && rm gone && mkdir -p sub && echo a >sub/left && echo b >taken && git init -q nested'}]
checks: [{name: unit, command: 'grep original lock && test -f gone'}]
`,
		files: map[string]string{"lock": "original\n", "gone": "x\n", ".gitignore": ".signalbox\n"},
		script: `
on developer T1:
    run grep original lock && test -f gone && test -f sub/left
    append taken and mine
    write done.txt x
    signal READY_FOR_REVIEW: {task}
`})
	s.run()
	if diff := cmp.Diff([]string{".gitignore", "T2.done", "done.txt", "gone", "lock", "taken"},
		strings.Fields(s.git("ls-files"))); diff != "" {
		t.Errorf("committed (-want +got):\n%s", diff)
	}
	if got := s.file("lock") + s.file("taken"); got != "original\nb\nand mine\n" {
		t.Errorf("the files have %q", got)
	}
	if diff := cmp.Diff([]string{"gone", "lock"},
		all[rules.SetupRan](s, "T1")[0].Body.Restored); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
}

// A setup command that fails is not a failure of a task: the human is asked once, and after the
// answer it is tried again.
func TestSetupFailureAsksOnce(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "flag")
	s := set(t, scene{
		git:  true,
		plan: task("T1") + task("T2"),
		settings: "setup: [{name: modules, command: 'test $SIGNALBOX_WORK = B-1 || test -f " +
			flag + " || { echo cannot reach the registry; exit 7; }'}]\nchecks: [{name: unit, command: 'true'}]\nlimits: {timeouts: 1}\n",
		options: Options{LeaveQuestions: true},
	})
	if o := s.begin().end(); o.Standing != rules.StandingAsking {
		t.Fatalf("the run ended %s", o.Standing)
	}
	asked := only[rules.QuestionAsked](s, "").Body
	if asked.Kind != rules.AskedSetup ||
		!strings.Contains(asked.Text, "setup 'modules' failed in a worktree of T") ||
		!strings.Contains(asked.Text,
			": exit status 7: cannot reach the registry. Nothing starts") {
		t.Errorf("asked %+v", asked)
	}
	wantIn(t, s.text(asked.Body), "modules: exit status 7 after ", "cannot reach the registry")
	// as after a crash
	if o := s.begin().end(); o.Standing != rules.StandingAsking ||
		len(all[rules.QuestionAsked](s, "")) != 1 {
		t.Errorf("the next run ended %s, with %d questions", o.Standing,
			len(all[rules.QuestionAsked](s, "")))
	}
	if n := len(all[rules.AgentFailed](s, "")); n > 0 || agentsStarted(s) > 0 {
		t.Errorf("%d failures were counted, and %d agents started", n, agentsStarted(s))
	}
	must.Succeed(t, os.WriteFile(flag, nil, 0o600))
	s.answer("again")
	s.run()
	s.wantCompleted("T1", "T2")
}

// A setup command that cannot start, takes too long or makes a commit has failed, too.
func TestSetupFailures(t *testing.T) {
	for name, test := range map[string]struct{ command, more, want string }{
		"missing program": {"no-such-program-here ci", "",
			"the command needs the program no-such-program-here, which is not in the PATH (install it, or correct the command)"},
		"timeout": {"exec sleep 600", ", timeout: 1s", "it took longer than 1s"},
		"commit": {"git -c user.name=x -c user.email=x commit -q --allow-empty -m x", "",
			"it made a commit or switched to another one, which setup commands must not do"},
	} {
		t.Run(name, func(t *testing.T) {
			s := set(t, scene{git: true, plan: task("T1"), options: Options{LeaveQuestions: true},
				settings: "setup: [{name: modules, command: '" + test.command + "'" + test.more +
					"}]\nchecks: [{name: unit, command: 'true'}]\n"})
			if o := s.begin().end(); o.Standing != rules.StandingAsking {
				t.Fatalf("the run ended %s", o.Standing)
			}
			wantIn(t, only[rules.QuestionAsked](s, "").Body.Text, test.want)
		})
	}
}

// The files that a failed setup command left are not the work of an agent either.
func TestFailedSetupIsNotCommitted(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"), options: Options{LeaveQuestions: true},
		settings: "setup: [{name: modules, command: 'echo x >log; echo x >tracked; test $(cat list) != 2', files: [list]}]\n",
		files: map[string]string{"list": "1\n", "tracked": "original\n",
			".gitignore": ".signalbox\n"},
		script: `
on developer T1 attempt 1:
    write list 2
    signal TASK_INCOMPLETE: {task}
        Reason: more to do
on developer T1 attempt 2:
    run test -f log
    write list 3
    write done.txt x
    signal READY_FOR_REVIEW: {task}
`})
	s.run()
	if diff := cmp.Diff([]string{".gitignore", "done.txt", "list", "tracked"},
		strings.Fields(s.git("ls-files"))); diff != "" || s.file("tracked") != "original\n" {
		t.Errorf("committed (-want +got):\n%s", diff)
	}
}

// A task that breaks what its setup needs is reworked. Nobody is asked, and other tasks are not
// held up.
func TestSetupFailureOfTheTask(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1") + task("T2"),
		options:  Options{LeaveQuestions: true},
		settings: "setup: [{name: first, command: 'true'}, {name: modules, command: 'grep good list || { echo the list is bad; exit 7; }', files: [list]}]\nchecks: [{name: unit, command: 'true'}]\n",
		files:    map[string]string{"list": "good\n"},
		script: `
on developer T1 attempt 1:
    run grep -c running ../.prepared-T1 >running1 || true
    write list bad
    signal READY_FOR_REVIEW: {task}
on developer T1 attempt 2:
    run grep -c running ../.prepared-T1 >running2 || true
    write list good
    write fixed.txt x
    signal READY_FOR_REVIEW: {task}
`})
	s.run()
	s.wantCompleted("T1", "T2")
	none[rules.QuestionAsked](s, "")
	var failed []rules.SetupRan
	for _, ran := range all[rules.SetupRan](s, "") {
		if !ran.Body.Passed {
			failed = append(failed, ran.Body)
		}
		if ran.Body.OfTask == ran.Body.Passed {
			t.Errorf("recorded %+v", ran.Body)
		}
	}
	// for the checks, and for the developer
	if len(failed) != 2 || failed[0].Command != "modules" || failed[0].Exit != 7 {
		t.Errorf("failed: %+v", failed)
	}
	ordered := only[rules.ReworkOrdered](s, "T1").Body
	if ordered.Cause != rules.ReworkChecks || !strings.Contains(ordered.Summary, "setup modules") {
		t.Errorf("ordered %+v", ordered)
	}
	wantIn(t, s.text(ordered.Body), "modules: exit status 7 after ", "the list is bad")
	// a crash would discard what the developer changed
	if got := s.file("running1") + s.file("running2"); got != "0\n0\n" {
		t.Errorf("the setup command counts as running: %q", got)
	}
	wantIn(t, s.prompts("T1", "developer")[1],
		"The folder is not ready to work in: setup modules fails: exit status 7: the list is bad. The command passes on the base branch")
}

// Nor does a task with the longest id that there is.
func TestSetupFailureOfALongTask(t *testing.T) {
	id := strings.Repeat("T", signalbox.MaxID)
	s := set(t, scene{git: true, plan: task(id), options: Options{LeaveQuestions: true},
		settings: "setup: [{name: modules, command: 'test ! -e bad'}]\nchecks: [{name: unit, command: 'true'}]\n",
		script:   "\non developer * attempt 1:\n    write bad x\n    signal READY_FOR_REVIEW: {task}\non developer * attempt 2:\n    run rm bad\n    write good x\n    signal READY_FOR_REVIEW: {task}\n"})
	s.run()
	none[rules.QuestionAsked](s, "")
}

// In a shared folder, agents and checks cannot change the team's configuration.
func TestTeamFilesCannotBeChanged(t *testing.T) {
	needSandbox(t)
	const attack = "echo evil >signalbox.yaml; rm -f signalbox.yaml; mv signalbox.yaml other; ln -sf /etc/passwd signalbox.yaml; mv agent.sh signalbox.yaml; truncate -s 0 signalbox.yaml; chmod 777 signalbox.yaml;" +
		" rm -rf prompts; echo evil >prompts/critic.md; mkdir -p x && mv x signalbox.yaml; true"
	s := set(t, scene{plan: task("T1"), options: Options{LeaveQuestions: true},
		settings: "sandbox: enforce\nroles: {developer: {agent: shell}, critic: {agent: shell}, auditor: {agent: shell}}\nchecks: [{name: unit, command: '" + attack + "'}]\n",
		files: map[string]string{"signalbox.yaml": "slots: 1\n", "prompts/critic.md": "be strict\n",
			"agent.sh": "cat >/dev/null\n(" + attack +
				") 2>/dev/null\ncase $SIGNALBOX_ROLE in\ndeveloper) touch done; echo READY_FOR_REVIEW: $SIGNALBOX_WORK;;\n" +
				"critic) echo REVIEW_PASSED: $SIGNALBOX_WORK;;\nauditor) echo AUDIT_PASSED: $SIGNALBOX_WORK;;\nesac\n"}})
	s.box.Config.TeamFiles = []string{filepath.Join(s.root, "signalbox.yaml"),
		filepath.Join(s.root, "prompts", "critic.md")}
	s.run()
	if got := s.file("done") + s.file("signalbox.yaml") + s.file(
		"prompts/critic.md"); got != "slots: 1\nbe strict\n" {
		t.Errorf("the files have %q", got)
	}
	if info, err := os.Lstat(filepath.Join(s.root, "signalbox.yaml")); err != nil ||
		info.Mode().Perm()&0o022 != 0 {
		t.Errorf("%v, %v", info, err)
	}
}

// What an agent leaves in its home folder cannot stop the run either.
func TestSetupFailureOfTheHome(t *testing.T) {
	needSandbox(t)
	s := set(t, scene{git: true, plan: task("T1") + task("T2"),
		options: Options{LeaveQuestions: true},
		settings: "sandbox: enforce\nroles: {developer: {agent: shell}, critic: {agent: shell}, auditor: {agent: shell}}\n" +
			"setup: [{name: modules, command: 'test ! -e $HOME/broken', files: [list]}]\nchecks: [{name: unit, command: 'true'}]\n",
		files: map[string]string{".gitignore": ".signalbox\n", "list": "1\n",
			"agent.sh": "cat >/dev/null\ncase $SIGNALBOX_ROLE in\ndeveloper) echo x >>list; test -e $HOME/broken && rm $HOME/broken && echo READY_FOR_REVIEW: $SIGNALBOX_WORK && exit; touch $HOME/broken; echo TASK_INCOMPLETE: $SIGNALBOX_WORK; echo Reason: more;;\n" +
				"critic) echo REVIEW_PASSED: $SIGNALBOX_WORK;;\nauditor) echo AUDIT_PASSED: $SIGNALBOX_WORK;;\nesac\n"}})
	if o := s.begin().end(); o.Standing == rules.StandingAsking {
		for _, q := range all[rules.QuestionAsked](s, "") {
			if q.Body.Kind == rules.AskedSetup {
				t.Errorf("asked %+v", q.Body)
			}
		}
	}
}

// A failure that is gone when the command is tried again is none.
func TestSetupIsTriedAgain(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	s := set(t, scene{git: true, plan: task("T1"), options: Options{LeaveQuestions: true},
		settings: "setup: [{name: modules, command: 'test $SIGNALBOX_WORK = B-1 || test -f " +
			count + " || { touch " + count +
			"; false; }'}]\nchecks: [{name: unit, command: 'true'}]\n"})
	s.run()
	s.wantCompleted("T1")
	for _, ran := range all[rules.SetupRan](s, "") {
		if !ran.Body.Passed {
			t.Errorf("recorded %+v", ran.Body)
		}
	}
}

// A task that has something in the place of a file to copy does not stop other tasks.
func TestCopyIsBlockedByTheTask(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1") + task("T2"),
		options:  Options{LeaveQuestions: true},
		settings: "copy: ['cache/**']\nchecks: [{name: unit, command: 'true'}]\n",
		files:    map[string]string{".gitignore": "cache/\n.signalbox\n"},
		script: `
on developer T1:
    run rm -r cache && echo x >cache && echo .signalbox >.gitignore
    signal READY_FOR_REVIEW: {task}
`})
	s.write("project/cache/a", "x")
	s.run()
	s.wantCompleted("T1", "T2")
	none[rules.QuestionAsked](s, "")
}

// A setup command may do what a check may. What it puts into its home folder is there for those who
// work in the worktree.
func TestSetupIsContained(t *testing.T) {
	needSandbox(t)
	secret := filepath.Join(t.TempDir(), "secret")
	must.Succeed(t, os.WriteFile(secret, []byte("x"), 0o600))
	s := set(t, scene{git: true, plan: task("T1"), options: Options{LeaveQuestions: true},
		settings: "sandbox: enforce\nroles: {developer: {agent: shell}, critic: {agent: shell}, auditor: {agent: shell}}\n" +
			"setup: [{name: modules, command: 'sh setup.sh'}]\nchecks: [{name: cache, command: 'test \"$(cat $HOME/cache)\" = ci'}]\n",
		files: map[string]string{
			".gitignore": ".signalbox\n",
			"setup.sh": "! cat " + secret + " || exit 1\n! echo x >.git || exit 2\n" +
				"case $HOME in */checks) echo ci;; *) echo agent;; esac >$HOME/cache\n",
			"agent.sh": "cat >/dev/null\ncase $SIGNALBOX_ROLE in\ndeveloper) test \"$(cat $HOME/cache)\" = agent || exit 1;;\n*) ! test -e $HOME/cache || exit 1;;\nesac\ncase $SIGNALBOX_ROLE in\ndeveloper) echo x >new; echo READY_FOR_REVIEW: $SIGNALBOX_WORK;;\n" +
				"critic) echo REVIEW_PASSED: $SIGNALBOX_WORK;;\nauditor) echo AUDIT_PASSED: $SIGNALBOX_WORK;;\nesac\n",
		}})
	s.run()
	for _, ran := range all[rules.SetupRan](s, "T1") {
		if ran.Body.Sandbox.Mode != "enforce" {
			t.Errorf("it ran with %+v", ran.Body.Sandbox)
		}
	}
}

// Ignored files are copied into every worktree, and each has ports of its own.
func TestWorktreesHaveFilesAndPorts(t *testing.T) {
	register := filepath.Join(t.TempDir(), "ports.json")
	const report = `echo "$SIGNALBOX_WORK $PWD $SIGNALBOX_PORT $SIGNALBOX_PORTS"; cat .env`
	s := set(t, scene{git: true, plan: task("T1"),
		options: Options{LeaveQuestions: true, seams: seams{ports: register}},
		settings: "copy: [.env, 'cache/**']\nports: 4\nsetup: [{name: show, command: '" + report +
			"'}]\nchecks: [{name: unit, command: '" + report + " && test -f cache/a/b'}]\n",
		files: map[string]string{".gitignore": ".env\ncache\n.signalbox\n"},
		script: `
on developer *:
    run grep KEY .env && test $SIGNALBOX_PORTS = 4 && echo $SIGNALBOX_PORT >port && echo >.gitignore && echo changed >>.env
    signal READY_FOR_REVIEW: {task}
`})
	s.write("project/.env", "KEY=1\n")
	s.write("project/cache/a/b", "x")
	s.run()
	if files := strings.Fields(s.git("ls-files")); slices.Contains(files, ".env") ||
		slices.Contains(files, "cache/a/b") || !slices.Contains(files, "port") {
		t.Errorf("committed: %q", files)
	}
	port, own := map[string]string{}, filepath.Join(s.box.Dir, "trees", "T1") // by folder
	for _, ran := range all[rules.SetupRan](s, "") {
		fields := strings.Fields(s.text(ran.Body.Output))
		if len(fields) != 5 || fields[0] != ran.Work || fields[3] != "4" || fields[4] != "KEY=1" {
			t.Fatalf("it wrote %q", fields)
		}
		port[fields[1]] = fields[2]
	}
	// a folder that is gone, as that of the base is when the task starts, has no ports
	for folder, number := range port {
		if folder != own && filepath.Base(folder) != ".scratch-B-1" && number == port[own] ||
			len(port) < 3 {
			t.Errorf("the folders have these ports: %v", port)
		}
	}
	if s.file("port") != port[own]+"\n" {
		t.Errorf("the developer had %q, and its setup %q", s.file("port"), port[own])
	}
}

// What cannot be copied or reserved is asked about, like a setup command that fails.
func TestPreparationFails(t *testing.T) {
	for name, test := range map[string]struct{ settings, want string }{
		"too large": {"copy: [.env]\nlimits: {tree: 1MB}\n",
			"setup 'copying files' failed in a worktree of T1: the files to copy are larger than 1MB (limits.tree)"},
		"ports": {"ports: 10\n", "setup 'reserving ports' failed in a worktree of T1: "},
	} {
		t.Run(name, func(t *testing.T) {
			blocked := filepath.Join(t.TempDir(), "file")
			must.Succeed(t, os.WriteFile(blocked, nil, 0o600))
			s := set(t, scene{git: true, plan: task("T1"), settings: test.settings,
				files: map[string]string{".gitignore": ".env\n.signalbox\n"},
				options: Options{LeaveQuestions: true,
					seams: seams{ports: filepath.Join(blocked, "ports.json")}}})
			s.write("project/.env", strings.Repeat("x", 2e6))
			if o := s.begin().end(); o.Standing != rules.StandingAsking {
				t.Fatalf("the run ended %s", o.Standing)
			}
			wantIn(t, only[rules.QuestionAsked](s, "").Body.Text, test.want)
		})
	}
}

// A list of files to copy that came with the repository counts only if the configuration names it.
func TestTrackedList(t *testing.T) {
	for name, each := range map[string]struct{ settings, check string }{
		"not named": {"", "test ! -e .env"},
		"named":     {"copy: [.worktreeinclude]\n", "test -e .env"},
	} {
		t.Run(name, func(t *testing.T) {
			s := set(t, scene{git: true, plan: task("T1"), options: Options{LeaveQuestions: true},
				settings: each.settings + "checks: [{name: unit, command: '" + each.check + "'}]\n",
				files: map[string]string{".gitignore": ".env\n.signalbox\n",
					".worktreeinclude": ".env\n"}})
			s.write("project/.env", "KEY=1\n")
			s.run()
			s.wantCompleted("T1")
		})
	}
}
