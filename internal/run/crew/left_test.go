package crew

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/durable"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/checkrun"
	"signalbox/internal/testkit/must"
)

// leaver starts programs; one leaves processes behind that do not end before gone is closed.
type leaver struct {
	// is reports whether a program, with its environment, leaves processes; number is the one of
	// them that does, from 1.
	is     func(env []string) bool
	number int

	mu    sync.Mutex // guards the fields below
	found int
	gone  chan struct{}
}

func (l *leaver) start(spec process.Spec, started func(process.ID) error) (program, error) {
	p, err := process.Start(spec, started)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.is(spec.Env) {
		l.found++
		if l.found == l.number {
			return leaving{p, l.gone}, nil
		}
	}
	return p, nil
}

// leaving is a program that leaves processes behind.
type leaving struct {
	*process.Process
	gone <-chan struct{}
}

func (p leaving) Wait() process.Exit {
	exit := p.Process.Wait()
	exit.Err = &process.LeftError{Processes: []process.Left{{PID: 4711, Name: "chain"}},
		Gone: p.gone}
	return exit
}

// A session that leaves processes behind fails, whatever its agent or its check said: nothing of it
// counts, the human is asked, and the task waits until the processes have ended.
func TestProcessesAreLeft(t *testing.T) {
	role := func(role signalbox.Role) func([]string) bool {
		return func(env []string) bool { return slices.Contains(env, "SIGNALBOX_ROLE="+string(role)) }
	}
	check := func(env []string) bool {
		return strings.HasPrefix(process.Getenv(env, process.SessionVariable),
			checkrun.Prefix) && process.Getenv(env, "SIGNALBOX_WORK") == "T1"
	}
	checks := "checks:\n  - {name: unit, command: 'true'}\n"
	for name, tt := range map[string]struct {
		*leaver
		settings, script string
		role             signalbox.Role
		// none are the types of events that must not be recorded before the processes have ended.
		none []string
	}{
		"developer": {leaver: &leaver{is: role(signalbox.RoleDeveloper), number: 1},
			role: signalbox.RoleDeveloper,
			none: []string{rules.TypeSignalHeard, rules.TypePhaseChanged}},
		"critic": {leaver: &leaver{is: role(signalbox.RoleCritic), number: 1},
			role: signalbox.RoleCritic, none: []string{rules.TypeMerged}},
		"check": {leaver: &leaver{is: check, number: 1}, settings: checks,
			role: signalbox.RoleCI, none: []string{rules.TypeMerged}},
		"check of the merge": {leaver: &leaver{is: check, number: 2}, settings: checks,
			role: signalbox.RoleMerger, none: []string{rules.TypeMerged}},
		"setup": {leaver: &leaver{is: check, number: 1},
			settings: "setup:\n  - {name: modules, command: 'true'}\n",
			role:     signalbox.RoleDeveloper,
			none:     []string{rules.TypeAgentStarted, rules.TypeMerged}},
		"waiting agent": {leaver: &leaver{is: role(signalbox.RoleDeveloper), number: 1},
			settings: "experts: [{name: database}]\n", role: signalbox.RoleDeveloper,
			script: "on developer T1 attempt 1:\n    signal EXPERT_REQUEST\n        Target Agent: database\n        Request Type: advice\n        Context Snapshot: a query\n" +
				"        ---DELEGATION PROMPT START---\n        Is it fast?\n        ---DELEGATION PROMPT END---\n",
			none: []string{rules.TypeMerged}},
	} {
		t.Run(name, func(t *testing.T) {
			l := tt.leaver
			l.gone = make(chan struct{})
			s := set(t, scene{git: true, plan: task("T1"), settings: tt.settings, script: tt.script,
				options: Options{seams: seams{start: l.start}}})
			r := s.begin()
			var asked *rules.Question
			s.until("a question is asked", func() bool {
				s.box.Engine.View(func(state *rules.State) {
					for _, q := range state.Questions() {
						asked = q
					}
				})
				return asked != nil
			})
			wantIn(t, asked.Text, string(tt.role)+" on T1 left processes behind", "4711 (chain)")
			failed := only[rules.AgentFailed](s, "T1")
			if failed.Body.Cause != string(rules.FailProcesses) || failed.Body.Role != tt.role {
				t.Errorf("failed: %+v", failed.Body)
			}
			turns := 0 // that were started, and whose end is not recorded
			for _, started := range all[rules.AgentStarted](s, "T1") {
				if started.Session == failed.Session {
					turns++
				}
			}
			for _, ended := range all[rules.AgentTurnEnded](s, "T1") {
				if ended.Session == failed.Session {
					turns--
				}
			}
			if turns != 0 {
				t.Errorf("what %d turns used is not recorded", turns)
			}
			for e, err := range s.box.Events(t.Context(), 0) {
				must.Succeed(t, err)
				if slices.Contains(tt.none, e.Type) && e.Work == "T1" && e.Seq < failed.Seq {
					t.Errorf("%s is recorded: %s", e.Type, e.Data)
				}
			}
			s.do(rules.AnswerQuestion{Question: asked.ID, Answer: "try again", Actor: "me"})
			if crews, err := agent.Crews(r.crew.file(agent.RegisterFolder)); err != nil ||
				len(crews) != 1 || len(crews[0].Sessions) != 1 {
				t.Errorf("the register has %+v, %v", crews, err)
			}
			lock, err := os.Open(r.crew.lockFile("T1"))
			must.Succeed(t, err)
			if locked, err := durable.TryLockFile(lock); locked || err != nil {
				t.Errorf("the work is not locked: %v", err)
			}
			lock.Close()
			close(l.gone)
			r.complete("T1")
		})
	}
}
