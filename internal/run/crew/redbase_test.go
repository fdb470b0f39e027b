package crew

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// agentsStarted returns how many agents were started.
func agentsStarted(s *stage) int { return len(all[rules.AgentStarted](s, "")) }

// add writes a file of the project.
func (s *stage) add(name, text string) {
	s.t.Helper()
	name = filepath.Join(s.project.Root, name)
	must.Succeed(s.t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
		os.WriteFile(name, []byte(text), 0o644)))
}

// commitByHand commits on the base, as a person does.
func (s *stage) commitByHand(args ...string) {
	s.t.Helper()
	s.git(append([]string{"-c", "user.name=ann", "-c", "user.email=ann@example.org", "commit", "-q",
		"-m", "by hand"}, args...)...)
}

// If no agent can repair the base, the human is asked before any agent starts. What the human
// accepts stops neither the tasks nor their merges; another commit on the base is asked about
// again.
func TestRedBaseIsAccepted(t *testing.T) {
	s := set(t, scene{
		git:      true,
		plan:     task("T1") + task("T2"),
		settings: "checks:\n  - {name: unit, command: 'no-such-program-here --all'}\n  - {name: lint, command: 'true'}\nslots: 1\n",
		options:  Options{LeaveQuestions: true},
		script: `
on developer *:
    expect "These may fail, because they fail on the base too and the human accepted that: unit|local"
    write {task}.txt done
    signal READY_FOR_REVIEW: {task}
`})
	if o := s.begin().end(); o.Standing != rules.StandingAsking {
		t.Fatalf("the run ended %s", o.Standing)
	}
	if n := agentsStarted(s); n != 0 {
		t.Fatalf("%d agents started on a base whose checks fail", n)
	}
	ran := only[rules.ChecksRan](s, "B-1").Body
	if cause := ran.Rows[0].Cause; !strings.Contains(cause,
		"the program no-such-program-here, which is not in the PATH") ||
		!strings.Contains(cause, "install it") {
		t.Errorf("cause %q", cause)
	}
	// as after a crash
	if o := s.begin().end(); o.Standing != rules.StandingAsking || agentsStarted(s) != 0 {
		t.Fatalf("the next run ended %s, with %d agents", o.Standing, agentsStarted(s))
	}
	if q := s.answer("accept"); q.Kind != rules.AskedBaseline || q.Work != "B-1" ||
		!strings.Contains(s.text(q.Body), "exit status 127") {
		t.Errorf("question: %+v", q)
	}
	s.run()
	s.wantCompleted("T1", "T2")
	if got := s.git("ls-files"); !strings.Contains(got, "T1.txt\nT2.txt") {
		t.Errorf("the base has %q", got)
	}
	if n := len(all[rules.ReworkOrdered](s, "")) + len(all[rules.RemediationNeeded](s,
		"")); n != 0 {
		t.Errorf("an accepted failure stopped a task %d times", n)
	}

	s.commitByHand("--allow-empty")
	s.load(task("T1") + task("T2") + task("T3"))
	before := agentsStarted(s)
	if o := s.begin().end(); o.Standing != rules.StandingAsking || agentsStarted(s) != before {
		t.Errorf("on another commit the run ended %s, with %d more agents", o.Standing,
			agentsStarted(s)-before)
	}
}

// The human repairs the base between two runs: the question is withdrawn, and the tasks start.
func TestRedBaseIsRepairedByHand(t *testing.T) {
	s := set(t, scene{
		git:      true,
		plan:     task("T1"),
		settings: "checks:\n  - {name: unit, command: 'sh tools/check.sh'}\n",
		options:  Options{LeaveQuestions: true},
	})
	if o := s.begin().end(); o.Standing != rules.StandingAsking || agentsStarted(s) != 0 {
		t.Fatalf("the run ended %s, with %d agents", o.Standing, agentsStarted(s))
	}
	if cause := only[rules.ChecksRan](s, "B-1").Body.Rows[0].Cause; !strings.Contains(cause,
		"tools/check.sh, which does not exist") {
		t.Errorf("cause %q", cause)
	}
	s.add("tools/check.sh", "true\n")
	s.git("add", "tools")
	s.commitByHand()
	s.run()
	s.wantCompleted("T1")
	if answered := only[rules.QuestionAnswered](s, "B-1").Body; !answered.Withdrawn {
		t.Errorf("answered: %+v", answered)
	}
}

// withheldVariable is a variable that TestMain sets, and that no program gets unless the
// configuration says so.
const withheldVariable = "CREW_TEST_DATABASE"

// What the user has and a check does not get is nothing that an agent can repair.
func TestRedBaseBySandbox(t *testing.T) {
	needSandbox(t)
	dir, err := os.MkdirTemp("/tmp", "") // what is in /dev, a sandbox has itself
	must.Succeed(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	tool := filepath.Join(dir, "mytool")
	must.Succeed(t, os.WriteFile(tool, []byte("#!/bin/sh\n"), 0o755))
	const variable = "the check uses $" + withheldVariable +
		", which is in your environment but is not passed on (add env_pass: [" + withheldVariable +
		"] to the check)"
	for name, tt := range map[string]struct{ command, want string }{
		"file": {tool, tool +
			" exists, but the check's sandbox does not show it (add it to sandbox.read of the check, or set sandbox: off for it)"},
		"variable": {`test -n "$` + withheldVariable + `"`, variable},
		"script":   {"sh check.sh", variable},
	} {
		t.Run(name, func(t *testing.T) {
			s := set(t, scene{
				git:  true,
				plan: task("T1"),
				settings: "sandbox: enforce\nchecks:\n  - {name: unit, command: '" + tt.command +
					"'}\n",
				options: Options{LeaveQuestions: true},
			})
			s.add("check.sh", ": ${"+withheldVariable+"?is not set}\n")
			s.git("add", "check.sh")
			s.commitByHand()
			if o := s.begin().end(); o.Standing != rules.StandingAsking || agentsStarted(s) != 0 {
				t.Errorf("the run ended %s, with %d agents", o.Standing, agentsStarted(s))
			}
			if cause := only[rules.ChecksRan](s, "B-1").Body.Rows[0].Cause; cause != tt.want {
				t.Errorf("got  %s\nwant %s", cause, tt.want)
			}
		})
	}
}

// In a shared workspace the base is the folder.
func TestRedBaseOfASharedWorkspace(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "checks:\n  - {name: unit, command: 'test -f ready.txt'}\n",
		options:  Options{LeaveQuestions: true},
	})
	if o := s.begin().end(); o.Standing != rules.StandingAsking || agentsStarted(s) != 0 {
		t.Fatalf("the run ended %s, with %d agents", o.Standing, agentsStarted(s))
	}
	s.add("ready.txt", "yes\n")
	s.answer("again")
	s.run()
	s.wantCompleted("T1")
}
