package hostile

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"signalbox/internal/testkit/must"
)

// fewest is how many attempts must be real: with fewer, the test proves little.
const fewest = 50

// TestHostileWithoutSandbox checks that the attempts are real: without a sandbox each one succeeds,
// or has a reason not to.
func TestHostileWithoutSandbox(t *testing.T) {
	eachUser(t, func(t *testing.T, uid int) {
		t.Parallel()
		s := newStage(t, scene{uid: uid, settings: "sandbox: off\n"})
		s.attack()
		for _, by := range []string{byAgent, byCheck, byCritic} {
			through := 0
			for _, v := range s.judge(by) {
				switch {
				case v.succeeded && v.effect:
					through++
					t.Logf("the %s got through: %s", by, v.name)
				case !v.allowed && (v.Missing || v.root && s.user() != 0 || v.prevented != ""):
					t.Logf("the %s could not: %s: %s", by, v.name, v.Error)
				default:
					t.Errorf("the %s could not %s (it succeeded: %v, it had an effect: %v): %s %q",
						by, v.name, v.succeeded, v.effect, v.Error, v.Evidence)
				}
			}
			if by != byCritic && through < fewest {
				t.Errorf("only %d attempts of the %s got through", through, by)
			}
		}
	})
}

// TestHostile makes all attempts in the sandbox, on systems with and without namespaces, and at
// unusual places.
func TestHostile(t *testing.T) {
	const ports, none = "    sandbox: {network: [$PORT]}\n", "    sandbox: {network: none}\n"
	elsewhere := func(t *testing.T) string {
		dir, err := os.MkdirTemp("/dev/shm", "hostile-")
		must.Succeed(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		return dir
	}
	eachUser(t, func(t *testing.T, uid int) {
		t.Run("namespaces", func(t *testing.T) {
			contained(t, scene{uid: uid, agent: ports, check: none})
		})
		t.Run("no namespaces", func(t *testing.T) {
			contained(t, scene{uid: uid, agent: none, check: ports, system: withoutNamespaces})
		})
		if uid != 0 || os.Getuid() != 0 || isFull() {
			t.Run("another file system and a linked home", func(t *testing.T) {
				contained(t, scene{uid: uid, root: elsewhere(t), linked: true})
			})
		}
		if uid == 0 || isFull() {
			t.Run("a warning instead of Landlock", func(t *testing.T) {
				contained(t, scene{uid: uid, agent: "    sandbox: {mode: warn, network: none}\n",
					check: "    sandbox: {mode: warn, network: none}\n", system: withoutLandlock})
			})
		}
		if uid == 0 || isFull() {
			t.Run("a worktree inside the repository", func(t *testing.T) {
				contained(t, scene{uid: uid, inside: true, agent: none, check: none})
			})
		}
	})
}

// contained plays an attack in which nothing may get through but what the system cannot stop.
func contained(t *testing.T, of scene) {
	t.Helper()
	t.Parallel()
	s := newStage(t, of)
	s.needSandbox()
	s.attack()
	for _, by := range []string{byAgent, byCheck, byCritic} {
		open, stopped := s.explain(by).Programs[0].Open, 0
		for _, v := range s.judge(by) {
			network := s.network(by)
			through := v.effect || v.succeeded && !v.private
			admitted := func(sentence string) bool { return v.open != "" && strings.Contains(sentence, v.open) }
			switch {
			case v.network && (network == "on" || v.allowed && network == "none"):
			case v.allowed && !(v.succeeded && v.effect):
				t.Errorf("the %s could not %s: %s %q", by, v.name, v.Error, v.Evidence)
			case v.allowed:
			case !through:
				if !v.Missing {
					stopped++
				}
				t.Logf("the %s was stopped: %s: %s", by, v.name, v.Error)
			case slices.ContainsFunc(open, admitted):
				t.Logf("the %s got through, as listed: %s", by, v.name)
			default:
				t.Errorf("the %s got through: %s (it succeeded: %v, it had an effect: %v): %q", by,
					v.name, v.succeeded, v.effect, v.Evidence)
			}
		}
		if by != byCritic && stopped < fewest {
			t.Errorf("only %d attempts of the %s were stopped", stopped, by)
		}
	}
	s.finish()
	if out, err := s.output(s.Program, "ledger", "verify"); err != nil {
		t.Error(err, out)
	}
	s.must("git", "fsck", "--no-dangling")
}

// network returns what the policy says about the network of a program: on, none, or ports.
func (s *stage) network(by string) string {
	settings := s.scene.agent
	if by == byCheck {
		settings = s.scene.check
	}
	switch {
	case strings.Contains(settings, "none"):
		return "none"
	case strings.Contains(settings, "$PORT"):
		return "ports"
	}
	return "on"
}

// explanation is what signalbox says about the sandbox of a program.
type explanation struct {
	Support  struct{ Namespaces, Groups bool }
	Programs []struct {
		Open    []string
		Refused string
	}
}

// explain asks signalbox about the sandbox of a program.
func (s *stage) explain(by string) (e explanation) {
	s.t.Helper()
	argv := append(s.simulate(), s.Program, "sandbox", "explain", "--json")
	if by == byCheck {
		argv = append(argv, "check")
	}
	s.check(json.Unmarshal([]byte(s.must(argv[0], append(argv[1:], "hostile")...)), &e))
	return e
}

// needSandbox skips a test on a system that cannot enforce the sandbox. In CI, where that would not
// be noticed, it fails.
func (s *stage) needSandbox() {
	s.t.Helper()
	e := s.explain(byAgent)
	// only root can give a user control groups
	ungrouped := os.Getuid() != 0 && s.system == withoutNamespaces && !e.Support.Groups
	if reason := e.Programs[0].Refused; reason != "" && os.Getenv("CI") == "true" && !ungrouped {
		s.t.Fatal(reason)
	} else if reason != "" {
		s.t.Skip(reason)
	}
	if granted := s.system != withoutNamespaces &&
		s.grantsNamespaces(); e.Support.Namespaces != granted {
		s.t.Errorf("the system grants namespaces: %v; signalbox uses them: %v", granted,
			e.Support.Namespaces)
	}
}

// grantsNamespaces reports whether the system grants the user of the stage a user namespace with
// mounts of its own.
func (s *stage) grantsNamespaces() bool {
	cmd := s.command("true")
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC
	if s.uid != 0 { // it cannot be changed together with the namespace
		cmd = s.command("unshare", "--user", "--mount", "--pid", "--ipc", "--fork", "true")
	}
	return cmd.Run() == nil
}

// TestNothingSurvivesTheRun kills signalbox while an agent has hidden processes of all kinds.
func TestNothingSurvivesTheRun(t *testing.T) {
	for _, of := range []scene{{}, {system: withoutNamespaces}, {settings: "sandbox: off\n"}} {
		t.Run(strings.TrimSpace(of.system+of.settings), func(t *testing.T) {
			eachUser(t, func(t *testing.T, uid int) {
				if !covers(uid, of.system) {
					return
				}
				t.Parallel()
				of := of
				of.uid = uid
				s := newStage(t, of)
				if of.settings == "" {
					s.needSandbox()
				}
				s.Part = hiding
				s.startAttack()
				s.await("the agent", func() bool { return s.find(agentReport) != "" })
				if hidden := hiddenProcesses(s.Tag); len(hidden) < 5 {
					t.Fatalf("only %d processes are hidden", len(hidden))
				}
				s.run.Process.Kill()
				<-s.ended
				alive := func() bool {
					return len(hiddenProcesses(s.Tag)) == 0 && s.processOf(victimTask) == 0 &&
						s.processOf(attackTask) == 0
				}
				if !within(patience, alive) {
					t.Errorf("processes survived: %v", hiddenProcesses(s.Tag))
				}
			})
		})
	}
}

// TestAgentKillsItsParents lets an agent kill what started it. In the sandbox it cannot.
func TestAgentKillsItsParents(t *testing.T) {
	play := func(t *testing.T, of scene) *stage {
		s := newStage(t, of)
		if of.settings == "" {
			s.needSandbox()
		}
		s.Part = killing
		s.startAttack()
		return s
	}
	eachUser(t, func(t *testing.T, uid int) {
		for _, system := range []string{"", withoutNamespaces} {
			if !covers(uid, system) {
				continue
			}
			t.Run("sandbox "+system, func(t *testing.T) {
				t.Parallel()
				play(t, scene{uid: uid, system: system}).finish()
			})
		}
		if !covers(uid, "") {
			return
		}
		t.Run("off", func(t *testing.T) {
			t.Parallel()
			s := play(t, scene{uid: uid, settings: "sandbox: off\n"})
			s.awaitEnd()
			if s.run.ProcessState.ExitCode() != -1 {
				t.Error("signalbox was not killed, so the attempt proves nothing")
			}
		})
	})
}

// eachUser runs a test as the user of the test and, if that is root, as an ordinary user.
func eachUser(t *testing.T, test func(t *testing.T, uid int)) {
	if os.Getuid() != 0 {
		test(t, 0)
		return
	}
	t.Run("root", func(t *testing.T) { test(t, 0) })
	t.Run("user", func(t *testing.T) { test(t, unprivileged()) })
}

// covers reports whether a test plays a scene. In make test, root has a system without namespaces,
// and the ordinary user one with them: each of both is there once.
func covers(uid int, system string) bool {
	return isFull() || os.Getuid() != 0 || (uid == 0) == (system == withoutNamespaces)
}

// verdict is what the test knows about an attempt.
type verdict struct {
	attempt
	outcome
	succeeded bool // the program says so
	effect    bool // the test sees it
}

// judge compares what a program reported with what can be seen from outside.
func (s *stage) judge(by string) (all []verdict) {
	s.t.Helper()
	outcomes := s.outcomes(by)
	for _, t := range attempts() {
		if !t.isFor(by) {
			continue
		}
		if len(outcomes) == 0 || outcomes[0].Name != t.name {
			s.t.Fatalf("the %s did not report: %s", by, t.name)
		}
		v := verdict{attempt: t, outcome: outcomes[0], succeeded: outcomes[0].Error == ""}
		outcomes = outcomes[1:]
		v.effect = v.succeeded
		if t.effect != nil {
			v.effect = t.effect(s, s.attacker(by, t.name), v.Evidence)
		}
		all = append(all, v)
	}
	return all
}
