package fault

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
)

// team is a number of machines that work on one box, each with its own home, clone and agents.
type team struct {
	machines []*machine
	fixtures []*fixture  // by machine; the first one has the signing key
	hosts    []*exec.Cmd // the processes that run the nodes of a cluster, if there are any
}

// newTeam makes a team of machines. configure writes the beginning of the configuration of each of
// them. If hosted is set, each has a process that runs its node.
func newTeam(t *testing.T, machines []*machine, s scenario, configure func(t testing.TB, number int,
	s *site), hosted bool) *team {
	t.Helper()
	team := &team{machines: machines, hosts: make([]*exec.Cmd, len(machines))}
	sites := make([]*site, len(machines))
	start := func(i int) {
		if hosted {
			team.hosts[i] = sites[i].host(t)
		}
	}
	s.on = backend{configure: func(t testing.TB, own *site) {
		sites[0] = own
		for i, m := range machines {
			if i > 0 {
				sites[i] = emptySite(t)
			}
			sites[i].prepare = m.enter
			configure(t, i, sites[i])
			if i > 0 { // signalbox init needs the others
				start(i)
			}
		}
	}}
	first := newFixture(t, s)
	start(0)
	team.fixtures = []*fixture{first}
	for _, own := range sites[1:] {
		f := first.member(t, own)
		f.git(t, "init", "-q", "-b", "main")
		f.git(t, "pull", "-q", first.project, "main")
		f.write(t, f.file("signalbox.yaml"),
			own.settings+scriptedAgents(f.diary, f.script)+s.settings)
		f.write(t, f.file(".gitignore"), "*\n")
		team.fixtures = append(team.fixtures, f)
	}
	return team
}

// member returns the fixture of another machine that works on the same plan.
func (f *fixture) member(t testing.TB, own *site) *fixture {
	t.Helper()
	m := &fixture{site: own, plan: f.plan, script: f.script, diary: f.diary,
		sessions: map[string]bool{}, checked: f.checked}
	m.publicKey = f.publicKey
	t.Cleanup(m.killAll)
	return m
}

// owner returns the number of the machine whose crew a session belongs to, or -1.
func (team *team) owner(session string) int {
	return slices.IndexFunc(team.fixtures,
		func(f *fixture) bool { return slices.Contains(f.owners(), ownerOf(session)) })
}

// gatedPlan returns a plan of n tasks; most are blocked by the third, the gate.
func gatedPlan(n int) string {
	tasks := []string{"T1", "T2", "T3"}
	for i := 4; i <= n; i++ {
		tasks = append(tasks, fmt.Sprintf("T%d: T3", i))
	}
	return planOf(tasks...)
}

// gatedAgents wait forever on T1 the first time, and on the tasks from T4 on until the file back
// is in the diary. The gate itself, T3, waits for the file open.
const gatedAgents = `
on developer T1 attempt 1:
    touch $DIARY/here
    wait for $DIARY/never

on developer T1:
    run mkdir -p part && echo good >part/$SIGNALBOX_WORK.txt
    signal READY_FOR_REVIEW: {task}

on developer T2:
    run mkdir -p part && echo good >part/$SIGNALBOX_WORK.txt
    signal READY_FOR_REVIEW: {task}

on developer T3:
    wait for $DIARY/open
    run mkdir -p part && echo good >part/$SIGNALBOX_WORK.txt
    signal READY_FOR_REVIEW: {task}

on developer *:
    wait for $DIARY/back
    run mkdir -p part && echo good >part/$SIGNALBOX_WORK.txt
    signal READY_FOR_REVIEW: {task}
` + judges

// slotsOfEach is how many sessions each of three machines runs at once. Two of them cannot do all
// the tasks behind the gate, so that the third one must take some.
const slotsOfEach = "2"

// unpluggedSettings returns settings with a lease that is long enough for a busy machine to end its
// agents in time, and short enough to wait for.
func unpluggedSettings() string {
	return fmt.Sprintf("grace: 1s\nlease: {ttl: %s}\nslots: 6\nroles: {developer: {slots: 6}}\n",
		sized("20s", "60s"))
}

// TestMachinesOnPostgres lets three machines carry out a plan together, with the ledger in a
// PostgreSQL database on a fourth. One machine is unplugged in the middle and comes back.
func TestMachinesOnPostgres(t *testing.T) {
	t.Parallel()
	inNetwork(t, sharedPostgres, func(t *testing.T, n *network, postgres string) {
		tasks := sized(9, 30)
		team, _ := newPostgresTeam(t, n, postgres,
			scenario{plan: gatedPlan(tasks), script: gatedAgents,
				settings: unpluggedSettings() + partsCheck})
		team.unplugInTheMiddle(t, tasks)
	})
}

// newPostgresTeam returns three machines whose ledger is in PostgreSQL, and a fourth machine with
// the database.
func newPostgresTeam(t *testing.T, n *network, socket string, s scenario) (*team, *machine) {
	t.Helper()
	machines := []*machine{n.add(t), n.add(t), n.add(t)}
	database := n.add(t)
	database.relay(5432, socket)
	journal := withSchema(fmt.Sprintf("postgres://signalbox@%s:5432/postgres?sslmode=disable",
		database.address))
	configure := func(t testing.TB, _ int,
		s *site) {
		s.configureWith(t, fmt.Sprintf("journal: %q\n", journal))
	}
	return newTeam(t, machines, s, configure, false), database
}

// newClusterTeam returns three machines that keep the ledger themselves.
func newClusterTeam(t *testing.T, n *network, s scenario) *team {
	t.Helper()
	var addresses []string
	for range 3 {
		addresses = append(addresses, n.add(t).address+":7420")
	}
	return newTeam(t, n.machines, s, newClusterNodes(addresses...).configure, true)
}

// TestMachinesInCluster is TestMachinesOnPostgres with the ledger on the three machines themselves.
func TestMachinesInCluster(t *testing.T) {
	if !isFull() {
		t.Skip("it takes long: make fault runs it")
	}
	t.Parallel()
	inNetwork(t, nil, func(t *testing.T, n *network, _ string) {
		tasks := sized(9, 30)
		team := newClusterTeam(t, n, scenario{plan: gatedPlan(tasks), script: gatedAgents,
			settings: unpluggedSettings() + partsCheck})
		team.unplugInTheMiddle(t, tasks)
	})
}

// unplugInTheMiddle carries out the plan, and unplugs the machine whose agent waits forever.
func (team *team) unplugInTheMiddle(t *testing.T, tasks int) {
	t.Helper()
	first := team.fixtures[0]
	processes := []*crewProcess{nil}
	for _, f := range team.fixtures[1:] {
		processes = append(processes, f.start(t, "worker", "--plain", "--slots", slotsOfEach))
	}
	run := first.startRun(t, "--slots", slotsOfEach)
	processes[0] = run
	first.diary.await(t, "here")
	held := run.await(0, "the lease", granted(signalbox.RoleDeveloper, "T1"))
	unplugged := team.owner(held.Session)
	if unplugged < 0 {
		t.Fatalf("no machine has the session %s", held.Session)
	}
	t.Logf("machine %d is unplugged", unplugged+1)
	machine, process := team.machines[unplugged], processes[unplugged]
	machine.unplug()
	// The others get its work. If its agent is still alive then, the next agent notices and writes
	// that to the diary.
	again := run.await(held.Seq, "the lease of another machine",
		granted(signalbox.RoleDeveloper, "T1"))
	if owner := team.owner(again.Session); owner == unplugged {
		t.Errorf("event %d gives T1 to the machine that is unplugged", again.Seq)
	}
	if process.hasEnded() {
		t.Fatalf("the process on the machine that was unplugged ended: %v",
			process.cmd.ProcessState)
	}
	run.await(again.Seq, "the completion of T1", completed("T1"))
	machine.plug()
	process.until("it knows what happened in the meantime",
		func() bool { return strings.Contains(process.output(), "T1   merged") })
	first.diary.create(t, "open")
	back := run.await(again.Seq, "a lease of the machine that was unplugged",
		func(e *signalbox.Event) bool {
			return e.Type == rules.TypeLeaseGranted && team.owner(e.Session) == unplugged
		})
	t.Logf("machine %d works again from event %d on", unplugged+1, back.Seq)
	awaitDoctor(t, first.site, "ahead of (+) or behind (-) that of the database: ")
	first.diary.create(t, "back")
	run.end(0)
	for _, p := range processes[1:] {
		check(t, p.cmd.Process.Signal(syscall.SIGINT))
		p.end(0)
	}
	team.checkDone(t, tasks)
}

// checkDone checks the ledger and the clones after the plan is complete.
func (team *team) checkDone(t *testing.T, tasks int) {
	t.Helper()
	events := team.fixtures[0].mustVerify(t)
	checkOneLease(t, events)
	for i := range tasks {
		task, times := fmt.Sprintf("T%d", i+1), 0
		for i := range events {
			if completed(task)(&events[i]) {
				times++
			}
		}
		if times != 1 {
			t.Errorf("%s was completed %d times", task, times)
		}
	}
	team.fixtures[0].diary.checkNoOverlaps(t)
	base := team.fixtures[0].git(t, "rev-parse", "main")
	for i, f := range team.fixtures {
		if own := f.git(t, "rev-parse", "main"); own != base {
			t.Errorf("the base of machine %d is %s, and that of machine 1 is %s", i+1, own, base)
		}
		f.checkRepository(t, false)
		f.checkClean(t)
		f.checkParts(t, tasksIn(gatedPlan(tasks))...)
		if merges := f.checkBase(t); len(merges) != tasks {
			t.Errorf("the base of machine %d has %d tasks, want %d: %v", i+1, len(merges), tasks,
				merges)
		}
		if v := f.verifyCommand(t, 0, "--key", f.publicKey); v.Events != uint64(len(events)) {
			t.Errorf("machine %d has %d events, want %d", i+1, v.Events, len(events))
		}
		f.checkNoProcesses(t)
	}
}

// checkOneLease checks that no lease was granted while another one for the same work was live.
func checkOneLease(t testing.TB, events []signalbox.Event) {
	t.Helper()
	held := map[string]uint64{}
	for i := range events {
		switch e := &events[i]; e.Type {
		case rules.TypeLeaseGranted:
			if held[e.Work] != 0 {
				t.Errorf("event %d grants %s, which event %d had granted", e.Seq, e.Work,
					held[e.Work])
			}
			held[e.Work] = e.Seq
		case rules.TypeLeaseReleased, rules.TypeLeaseExpired:
			delete(held, e.Work)
		}
	}
}

// completed returns a function that matches the completion of a task.
func completed(task string) func(*signalbox.Event) bool {
	return func(e *signalbox.Event) bool {
		return e.Type == rules.TypePhaseChanged && e.Work == task &&
			data[rules.PhaseChanged](e).To == signalbox.PhaseCompleted
	}
}
