package fault

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
)

// storm is a team whose box is under load while its machines and their network fail.
type storm struct {
	t       *testing.T
	team    *team
	random  *rand.Rand
	box     *box.Box // of the test itself
	faults  []trouble
	clients []*stormClient // those that run
	ended   []*stormClient
}

// trouble is something that fails, and how it is repaired.
type trouble struct {
	name string
	// begin makes it fail. It returns the repair, and the machines that cannot work until then.
	begin func() (repair func(), out []int)
}

// stormClient is a client on a machine. See historyChild.
type stormClient struct {
	*child
	machine int
	done    chan struct{} // closed when all that it printed is read

	mu       sync.Mutex
	printed  []string // guarded by mu
	answered int      // those that are answers; guarded by mu
}

// newStorm returns a storm on a team. The faults are those of any team; the caller may add others.
func newStorm(t *testing.T, team *team) *storm {
	t.Helper()
	s := &storm{t: t, team: team, random: newRand(t), box: team.fixtures[0].open(t)}
	s.faults = []trouble{
		{"unplug a machine", func() (func(), []int) {
			i := s.random.IntN(len(team.machines))
			team.machines[i].unplug()
			return team.machines[i].plug, []int{i}
		}},
		{"kill a client", func() (func(), []int) {
			c := s.clients[s.random.IntN(len(s.clients))]
			c.cmd.Process.Kill()
			<-c.done // so that replaceDead sees it
			return func() {}, nil
		}},
		{"pause a client", func() (func(), []int) {
			process := s.clients[s.random.IntN(len(s.clients))].cmd.Process
			process.Signal(syscall.SIGSTOP)
			return func() { process.Signal(syscall.SIGCONT) }, nil
		}},
		{"set the clock of a client wrong", func() (func(), []int) {
			process := s.clients[s.random.IntN(len(s.clients))].cmd.Process
			by := []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2}[s.random.IntN(2)] // see jumps
			process.Signal(by)
			return func() { process.Signal(by) }, nil
		}},
	}
	return s
}

// start starts a client on a machine. Its number, and so its sessions, are new.
func (s *storm) start(machine int, works []string) {
	f := s.team.fixtures[machine]
	number := len(s.clients) + len(s.ended)
	c := &stormClient{machine: machine, done: make(chan struct{})}
	c.child = startPrepared(s.t, f.prepare, "history", f.box, s.team.fixtures[0].keyFile,
		fmt.Sprint(number), fmt.Sprint(s.random.IntN(1<<30)), "0",
		strings.Join(works, ","), fmt.Sprint(number%2 == 0), fmt.Sprint(skews[machine%len(skews)]))
	s.clients = append(s.clients, c)
	go c.read()
}

// read reads what a client prints.
func (c *stormClient) read() {
	defer close(c.done)
	for c.lines.Scan() {
		c.mu.Lock()
		if c.printed = append(c.printed, c.lines.Text()); !strings.Contains(c.lines.Text(),
			`"return":0,`) {
			c.answered++
		}
		c.mu.Unlock()
	}
}

func (c *stormClient) answers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered
}

// rage lets the faults happen one after the other, for at least the given time and each at least
// once, in rounds after which everything is checked.
func (s *storm) rage(atLeast time.Duration) {
	s.t.Helper()
	began := time.Now()
	for round := 0; round == 0 || time.Since(began) < atLeast; round++ {
		works := s.openWorks(round)
		for i := range s.team.machines {
			s.start(i, works)
			s.start(i, works)
		}
		s.awaitAnswers("it begins", nil)
		for _, i := range s.random.Perm(len(s.faults)) {
			s.suffer(s.faults[i], works)
		}
		s.checkRound()
		if s.t.Failed() {
			s.t.FailNow()
		}
	}
}

func (s *storm) openWorks(round int) (works []string) {
	s.t.Helper()
	for i := range 4 {
		works = append(works, fmt.Sprintf("round-%d-task-%d", round, i))
		_, err := s.box.Engine.DoPatiently(s.t.Context(), nil,
			rules.OpenWork{Work: works[i], Actor: "tester"})
		check(s.t, err)
	}
	return works
}

// suffer lets a fault last for a moment in which the other machines work, and repairs it. Then all
// machines work again.
func (s *storm) suffer(f trouble, works []string) {
	s.t.Helper()
	repair, out := f.begin()
	var repaired sync.Once
	defer repaired.Do(repair)
	// how long a fault lasts is a matter of chance
	time.Sleep(time.Duration(s.random.IntN(sized(1500, 6000))) * time.Millisecond)
	s.replaceDead(works)
	s.awaitAnswers("during: "+f.name, out)
	repaired.Do(repair)
	s.awaitAnswers("after: "+f.name, nil)
}

// replaceDead starts a client for each one that was killed.
func (s *storm) replaceDead(works []string) {
	for _, c := range slices.Clone(s.clients) {
		if !isClosed(c.done) {
			continue
		}
		s.clients = slices.DeleteFunc(s.clients,
			func(other *stormClient) bool { return other == c })
		s.ended = append(s.ended, c)
		if c.cmd.Wait(); c.cmd.ProcessState.Exited() {
			s.t.Fatalf("%s ended by itself: %v\n%s", c.name, c.cmd.ProcessState, &c.stderr)
		}
		s.start(c.machine, works)
	}
}

// awaitAnswers waits until at least one client on each machine has more answers than now, except
// for machines that are out of order.
func (s *storm) awaitAnswers(when string, out []int) {
	s.t.Helper()
	before := map[*stormClient]int{}
	for _, c := range s.clients {
		before[c] = c.answers()
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var waiting []int
		for i := range s.team.machines {
			works := slices.ContainsFunc(s.clients,
				func(c *stormClient) bool { return c.machine == i && c.answers() > before[c] })
			if !works && !slices.Contains(out, i) {
				waiting = append(waiting, i+1)
			}
		}
		if len(waiting) == 0 {
			return
		}
		for _, c := range s.clients {
			if isClosed(c.done) && c.cmd.ProcessState == nil {
				c.cmd.Wait()
			}
			if c.cmd.ProcessState != nil && c.cmd.ProcessState.Exited() {
				s.t.Fatalf("%s: %s ended by itself: %v\n%s", when, c.name, c.cmd.ProcessState,
					&c.stderr)
			}
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: there are no answers on the machines %v", when, waiting)
		}
	}
}

// checkRound ends the clients, and checks the ledger and all answers.
func (s *storm) checkRound() {
	s.t.Helper()
	for _, c := range s.clients {
		c.stdin.Close()
	}
	for _, c := range s.clients {
		<-c.done
		if err := c.cmd.Wait(); err != nil {
			s.t.Errorf("%s: %v\n%s", c.name, err, &c.stderr)
		}
	}
	events := s.team.fixtures[0].mustVerify(s.t)
	checkOneLease(s.t, events)
	var history, unanswered []operation
	for _, c := range append(s.clients, s.ended...) {
		answered, last := parseOperations(s.t, c.printed)
		history = append(history, answered...)
		if last != nil {
			unanswered = append(unanswered, *last)
		}
		c.printed = nil
	}
	stored := resolve(events, history, unanswered)
	s.t.Logf("%d answers, %d commands without an answer (%d stored); the ledger has %d events", len(history), len(unanswered), len(stored), len(events))
	history = append(history, stored...)
	failedBefore := s.t.Failed()
	checkAnswers(s.t, events, history)
	for _, wrong := range checkLinear(factsOf(s.t, events), history) {
		s.t.Errorf("no sequential order explains the answers about %s", wrong)
	}
	if s.t.Failed() && !failedBefore {
		keepHistory(s.t, events, append(history, unanswered...))
	}
	s.ended, s.clients = append(s.ended, s.clients...), nil
	if s.team.hosts[0] != nil {
		s.awaitCopies(len(events))
	}
	for i, f := range s.team.fixtures {
		if v := f.verifyCommand(s.t, 0, "--key", f.publicKey); v.Events < uint64(len(events)) {
			s.t.Errorf("machine %d has %d events, want %d", i+1, v.Events, len(events))
		}
	}
}

// resolve returns those of the operations without an answer that were stored, with the answer that
// they would have got.
func resolve(events []signalbox.Event, history, unanswered []operation) (stored []operation) {
	answered := map[uint64]bool{}
	for _, op := range history {
		if op.Code != 0 || op.Repeated {
			continue
		}
		answered[op.Seq] = true
		if op.Do == "exit" {
			answered[op.Seq+1], answered[op.Seq+2] = true, true
		}
	}
	for _, op := range unanswered {
		for i := range events {
			if e := &events[i]; !answered[e.Seq] && op.causes(e) {
				answered[e.Seq] = true
				op.Return = math.MaxInt64
				stored = append(stored, op)
				break
			}
		}
	}
	return stored
}

// causes reports whether an event may be the one that answers the operation, and sets the answer.
func (op *operation) causes(e *signalbox.Event) bool {
	if e.Work != op.Work {
		return false
	}
	op.Seq, op.At = e.Seq, e.Time
	switch {
	case op.Do == "claim" && e.Type == rules.TypeLeaseGranted && e.Session == op.As:
		b := data[rules.LeaseGranted](e)
		op.Lease = &signalbox.Lease{Epoch: e.Seq, Session: e.Session, Expires: b.Expires}
		return true
	case op.Do == "renew" && e.Type == rules.TypeLeaseRenewed:
		b := data[rules.LeaseRenewed](e)
		op.Lease = &signalbox.Lease{Epoch: b.Epoch, Session: op.As, Expires: b.Expires}
		return b.Epoch == op.Epoch
	case op.Do == "release" && e.Type == rules.TypeLeaseReleased:
		return data[rules.LeaseReleased](e).Epoch == op.Epoch
	case op.Do == "revoke" && e.Type == rules.TypeLeaseReleased:
		return data[rules.LeaseReleased](e).Reason == revokeReason
	case op.Do == "exit" && e.Type == rules.TypeAgentSessionCompleted:
		b := data[rules.AgentSessionCompleted](e)
		signal := signalOf(op.Phase, op.Reason)
		op.Now, _ = signal.NextPhase()
		return b.SessionID == op.As && b.LeaseEpoch == op.Epoch && b.PhaseCompleted == op.Phase &&
			b.ExitReason == op.Reason
	case op.Do == "unblock" && e.Type == rules.TypePhaseChanged:
		b := data[rules.PhaseChanged](e)
		op.Now = b.To
		return b.From == signalbox.PhaseBlocked
	}
	return false
}

// leader returns the machine that leads the nodes.
func (s *storm) leader() int {
	s.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		found := regexp.MustCompile(`, leader ([abc])`).FindStringSubmatch(
			s.team.fixtures[0].run(s.t, "doctor").stdout)
		if found != nil {
			return int(found[1][0] - 'a')
		}
	}
	s.t.Fatal("the nodes have no leader")
	return 0
}

// copies returns how many events each node has verified in its own copy, -1 if the copy is damaged
// or not known, and what doctor printed.
func (s *storm) copies() (counts []int, said string) {
	s.t.Helper()
	said = s.team.fixtures[0].run(s.t, "doctor").stdout
	counts = []int{-1, -1, -1}
	for _, found := range regexp.MustCompile(`([abc]) has verified (\d+) event`).
		FindAllStringSubmatch(said, -1) {
		counts[found[1][0]-'a'], _ = strconv.Atoi(found[2])
	}
	return counts, said
}

// awaitCopies waits until every node has verified so many events in its own copy.
func (s *storm) awaitCopies(events int) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		counts, said := s.copies()
		if slices.Min(counts) >= events {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("not all copies have %d good events:\n%s", events, said)
		}
	}
}

// damage changes the copy of the ledger on a machine. What is cut off is found while the node runs,
// and what is changed when it starts.
func (s *storm) damage(machine int) {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.team.fixtures[machine].file("cluster"),
		"jetstream", "$G", "streams", "signalbox", "msgs", "*.blk"))
	check(s.t, err)
	name := files[s.random.IntN(len(files))]
	data, err := os.ReadFile(name)
	check(s.t, err)
	if s.random.IntN(2) == 0 {
		s.t.Logf("cut off %s", name)
		check(s.t, os.Truncate(name, int64(len(data)-1-s.random.IntN(min(1200, len(data))))))
		return
	}
	s.t.Logf("change a bit of %s", name)
	at := s.random.IntN(len(data))
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	check(s.t, err)
	_, err = file.WriteAt([]byte{data[at] ^ 1<<s.random.IntN(8)}, int64(at))
	check(s.t, errors.Join(err, file.Close()))
	kill(s.t, s.team.hosts[machine])
	s.team.hosts[machine] = s.team.fixtures[machine].host(s.t)
}

// TestStormOnPostgres puts a box whose ledger is in PostgreSQL under load from three machines,
// which fail one after the other.
func TestStormOnPostgres(t *testing.T) {
	t.Parallel()
	inNetwork(t, sharedPostgres, func(t *testing.T, n *network, postgres string) {
		team, database := newPostgresTeam(t, n, postgres,
			scenario{plan: gatedPlan(3), script: goodAgents})
		s := newStorm(t, team)
		s.faults = append(s.faults, trouble{"reset all connections", func() (func(), []int) {
			database.reset()
			return func() {}, nil
		}}, trouble{"unplug the database", func() (func(), []int) {
			database.unplug()
			return database.plug, []int{0, 1, 2}
		}})
		s.rage(sized(0, 10*time.Minute))
	})
}

// TestStormInCluster puts a box whose ledger is on three machines themselves under load, while
// these machines fail one after the other.
func TestStormInCluster(t *testing.T) {
	t.Parallel()
	inNetwork(t, nil, func(t *testing.T, n *network, _ string) {
		team := newClusterTeam(t, n, scenario{plan: gatedPlan(3), script: goodAgents})
		s := newStorm(t, team)
		s.faults = append(s.faults, trouble{"kill a node", func() (func(), []int) {
			i := s.random.IntN(3)
			team.hosts[i].Process.Kill()
			team.hosts[i].Wait()
			return func() { team.hosts[i] = team.fixtures[i].host(t) }, nil
		}}, trouble{"pause the leader", func() (func(), []int) {
			process := team.hosts[s.leader()].Process
			process.Signal(syscall.SIGSTOP)
			time.Sleep(sized(time.Second, 10*time.Second)) // what others notice
			return func() { process.Signal(syscall.SIGCONT) }, nil
		}}, trouble{"cut two machines from each other", func() (func(), []int) {
			i := s.random.IntN(3)
			a, b := team.machines[i], team.machines[(i+1)%3]
			cut(a, b)
			return func() { mend(a, b) }, nil
		}})
		if !isFull() { // an election takes seconds
			s.faults = s.faults[len(s.faults)-3:]
		} else {
			s.faults = append(s.faults, trouble{"damage a copy, and lose a good one",
				func() (func(), []int) {
					i := s.random.IntN(3)
					counts, _ := s.copies()
					events := slices.Max(counts)
					s.damage(i)
					return func() {
						s.awaitCopies(events)
						lost := (i + 1) % 3
						kill(t, team.hosts[lost])
						check(t, os.RemoveAll(team.fixtures[lost].file("cluster")))
						team.hosts[lost] = team.fixtures[lost].host(t)
						s.awaitCopies(events)
					}, nil
				}}, trouble{"kill two nodes, which are most",
				func() (func(), []int) {
					first := s.random.IntN(3)
					both := []int{first, (first + 1) % 3}
					for _, i := range both {
						team.hosts[i].Process.Kill()
						team.hosts[i].Wait()
					}
					return func() {
						for _, i := range both {
							team.hosts[i] = team.fixtures[i].host(t)
						}
					}, []int{0, 1, 2}
				}})
		}
		s.rage(sized(0, 10*time.Minute))
	})
}
