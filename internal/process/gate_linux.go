package process

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"signalbox/internal/sandbox"
)

// connectGate returns the two ends of the connection with a keeper.
func connectGate() (ours, theirs *os.File, err error) { return connectBoth() }

// Support returns what this system can enforce. The first call tries it, which takes some
// milliseconds.
var Support = sync.OnceValue(func() sandbox.Support {
	s := sandbox.Detect()
	s.Namespaces = true
	policy := &sandbox.Policy{Mode: sandbox.Warn, Read: []string{"/usr"}}
	if err := tryKeeper(policy, s); err != nil {
		s.Namespaces = false
		if s.Why == "" {
			s.Why = "namespaces: " + err.Error()
		}
	}
	group, err := sandbox.NewGroup(sandbox.Limits{}, sandbox.AllGroups)
	if err == nil {
		group.Remove()
	} else if !s.Namespaces {
		s.Why += "; control groups: " + err.Error()
	}
	s.Groups = err == nil
	return s
})

// Try reports why a program cannot be started under a policy, nil if it can. It takes some
// milliseconds.
func Try(policy *sandbox.Policy) error {
	if err := Support().Check(policy); err != nil {
		return err
	}
	return tryKeeper(policy, Support())
}

// tryKeeper prepares a sandbox and starts nothing in it.
func tryKeeper(policy *sandbox.Policy, s sandbox.Support) error {
	cmd := keeperCommand(policy, s)
	cmd.Env = []string{}
	ours, theirs, err := connectBoth()
	if err != nil {
		return err
	}
	defer ours.Close()
	cmd.ExtraFiles = []*os.File{theirs}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return err
	}
	g := newGate(ours)
	err = g.send(order{Sandbox: policy, Support: s})
	if err == nil {
		err = g.started(cmd.Process, startLimit)
	}
	if errors.Is(err, errNotReady) {
		go cmd.Wait()
		return err
	}
	return errors.Join(err, cmd.Wait())
}

// gateCommand returns the command of the keeper of a program.
func gateCommand(spec Spec, _ string) (*exec.Cmd, error) {
	support := spec.support()
	if err := support.Check(spec.Sandbox); err != nil {
		return nil, err
	}
	if spec.forwards() {
		if _, err := proxyFor(spec.Sandbox.Network.Server, spec.Env); err != nil {
			return nil, err
		}
	}
	return keeperCommand(spec.Sandbox, support), nil
}

// support returns what the system can enforce for the program. Without a sandbox it does not look.
func (s Spec) support() sandbox.Support {
	switch {
	case !s.Sandbox.Restricted():
		return sandbox.Support{}
	case s.simulated != nil:
		return *s.simulated
	}
	return Support()
}

func keeperCommand(policy *sandbox.Policy, support sandbox.Support) *exec.Cmd {
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{keeperName}}
	// a new session is also a new process group, without a terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if policy.Restricted() && support.Namespaces {
		cmd.SysProcAttr.Cloneflags = sandbox.Namespaces(policy)
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(),
			HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(),
			HostID: os.Getegid(), Size: 1}}
		// The first process of a user namespace has all capabilities in it, which only root keeps
		// when it executes a program.
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN,
			unix.CAP_NET_BIND_SERVICE}
		// the system works in a folder of mode 0, with the rights of the one who mounts them
		if len(policy.Layers) > 0 {
			cmd.SysProcAttr.AmbientCaps = append(cmd.SysProcAttr.AmbientCaps, unix.CAP_DAC_OVERRIDE)
		}
	}
	return cmd
}

// gate is the connection with a keeper.
type gate struct {
	socket *os.File
	reader *gateReader
	in     *json.Decoder
	// forwarder is nil unless the program may reach one server only.
	forwarder *forwarder
	group     *sandbox.Group // nil if the program has none
	// entered means that the keeper was started in the group, and watched are the limits that the
	// group does not enforce.
	entered bool
	watched sandbox.Limits
	places  []*placeholder
	exited  *syscall.WaitStatus // of the program; nil if the keeper did not report it
	// exceeded is the limit for which the keeper killed the program.
	exceeded string
}

func newGate(socket *os.File) gate {
	reader := &gateReader{socket: socket}
	return gate{socket: socket, reader: reader, in: json.NewDecoder(bufio.NewReader(reader))}
}

// open makes the keeper start the program, and waits until it has.
func (g *gate) open(p *Process, spec Spec, file, dir string) error {
	if err := g.holdPlaces(spec); err != nil {
		return startError(spec, err)
	}
	if g.group != nil && !g.entered {
		if err := g.group.Add(p.id.PID); err != nil {
			return startError(spec, err)
		}
	}
	argv := append([]string{file}, spec.Argv[1:]...)
	err := g.send(order{File: file, Argv: argv, Dir: dir, Sandbox: spec.Sandbox,
		Support: spec.support(), Watched: g.watched,
		Grouped: len(p.cmd.ExtraFiles) > 1})
	if err == nil {
		err = g.started(p.cmd.Process, cmp.Or(spec.startLimit, startLimit))
	}
	if err == nil {
		err = g.forward(spec)
	}
	if err != nil {
		return startError(spec, err)
	}
	switch limits := spec.limits(); {
	case g.group == nil:
	case limits != (sandbox.Limits{}) && limits != defaultLimits:
		_ = g.group.Release(p.id.PID) // the keeper must work even if the program leaves it no room
	default:
		time.AfterFunc(releasePause,
			func() { p.unlessReaped(func() { _ = g.group.Release(p.id.PID) }) })
	}
	return nil
}

// releasePause is after what time a keeper leaves the group of its program. Moving a process takes
// the system about 10 ms, for which a program that ends at once need not wait. A keeper that must
// kill the group before that ends with it, which does no harm.
const releasePause = 50 * time.Millisecond

// defaultLimits are the limits if none are configured.
var defaultLimits = sandbox.Limits{Processes: sandbox.DefaultProcesses}

func (s Spec) limits() sandbox.Limits {
	if s.Sandbox == nil {
		return sandbox.Limits{}
	}
	return s.Sandbox.Limits
}

// prepare gives the program a control group, if that is of use and the system grants one, and
// returns its folder. It fails if the sandbox needs one.
func (g *gate) prepare(spec Spec, cmd *exec.Cmd) (folder string, err error) {
	support, limits := spec.support(), spec.limits()
	// its processes end with their namespace
	contained := spec.Sandbox.Restricted() && support.Namespaces
	g.watched = sandbox.Limits{Memory: limits.Memory, Processes: limits.Processes}
	for _, a := range attempts(limits, contained) {
		if spec.noGroups {
			break
		}
		if g.group, err = sandbox.NewGroup(a.limits, a.kinds); err == nil {
			if a.limits != (sandbox.Limits{}) {
				g.watched = sandbox.Limits{}
			}
			break
		}
	}
	if g.group == nil {
		support.Groups = false
		return "", support.Check(spec.Sandbox)
	}
	if g.entered = g.group.Unified() && canEnter(); g.entered {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(g.group.Folder().Fd())
	}
	if !contained { // the keeper needs it to end the processes
		cmd.ExtraFiles = append(cmd.ExtraFiles, g.group.Folder())
	}
	return g.group.Folder().Name(), nil
}

// canEnter reports whether the system starts processes in a group of version 2. Otherwise they must
// be moved there.
var canEnter = sync.OnceValue(func() bool {
	group, err := sandbox.NewGroup(sandbox.Limits{}, sandbox.Unified)
	if err != nil {
		return false
	}
	defer group.Remove()
	_, err = os.StartProcess("/", nil,
		&os.ProcAttr{Sys: &syscall.SysProcAttr{UseCgroupFD: true,
			CgroupFD: int(group.Folder().Fd())}})
	return errors.Is(err, syscall.EACCES) // a process was started, but a folder cannot be executed
})

// holdPlaces makes folders in place of what the program must not create.
func (g *gate) holdPlaces(spec Spec) error {
	if !spec.Sandbox.Restricted() || !spec.support().Namespaces {
		return nil
	}
	for _, name := range spec.Sandbox.Fixed {
		place, err := holdPlace(name)
		if err != nil {
			return err
		}
		if place != nil {
			g.places = append(g.places, place)
		}
	}
	return nil
}

// attempt is a control group to try.
type attempt struct {
	limits sandbox.Limits
	kinds  sandbox.Kinds
}

// attempts returns the control groups to try: with all limits, with those that most systems grant,
// which do not include the processor, and without limits, to end the processes of a program that is
// not contained in a namespace. The default limit is not worth the delay of groups of version 1.
func attempts(limits sandbox.Limits, contained bool) (all []attempt) {
	kinds := sandbox.AllGroups
	if limits == defaultLimits {
		kinds = sandbox.Unified
	}
	most := limits
	most.CPU = 0
	for _, limits := range []sandbox.Limits{limits, most} {
		if limits != (sandbox.Limits{}) && !slices.Contains(all, attempt{limits, kinds}) {
			all = append(all, attempt{limits, kinds})
		}
	}
	if !contained {
		all = append(all, attempt{kinds: sandbox.AllGroups})
	}
	return all
}

// MissingLimits returns which limits this system does not enforce, one sentence for each.
func MissingLimits(limits sandbox.Limits) []string {
	return missingLimits(limits, func(limits sandbox.Limits) error {
		group, err := sandbox.NewGroup(limits, sandbox.AllGroups)
		if err == nil {
			group.Remove()
		}
		return err
	})
}

func missingLimits(limits sandbox.Limits, try func(sandbox.Limits) error) (missing []string) {
	if limits.Processes == sandbox.DefaultProcesses {
		limits.Processes = 0 // it is enforced or watched, and no one asked for it
	}
	if limits == (sandbox.Limits{}) {
		return nil
	}
	err := try(limits)
	if err == nil {
		return nil
	}
	if limits.CPU > 0 {
		missing = append(missing,
			fmt.Sprintf("limits.cpu has no effect, because the system grants no control group for it (%v)", err))
	}
	limits.CPU = 0
	if limits == (sandbox.Limits{}) || missing != nil && try(limits) == nil {
		return missing
	}
	for _, l := range []struct {
		name string
		set  bool
	}{{"memory", limits.Memory > 0}, {"processes", limits.Processes > 0}} {
		if l.set {
			missing = append(missing,
				fmt.Sprintf("limits.%s is only looked at every %s, because the system grants no control group for it (%v)", l.name, watchPause, err))
		}
	}
	return missing
}

func (g *gate) send(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := g.socket.Write(append(line, '\n')); err != nil && !errors.Is(err, syscall.EPIPE) &&
		!errors.Is(err, syscall.ECONNRESET) {
		return err
	}
	return nil // if the keeper was ended in the meantime, that is noticed when it is read from
}

// startLimit is how long a keeper may take to start a program. It takes some milliseconds, and
// longer on a busy machine.
const startLimit = 30 * time.Second

// errNotReady means that a keeper did not start its program in time, for example because a file
// system that the sandbox shows does not answer. The keeper is killed, and must not be waited for.
var errNotReady = errors.New("the process that starts it is not ready")

// started waits until the keeper reports that the program runs.
func (g *gate) started(keeper *os.Process, limit time.Duration) error {
	_ = g.socket.SetReadDeadline(time.Now().Add(limit)) // sockets have deadlines
	var m message
	switch err := g.in.Decode(&m); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		if g.group != nil && g.group.Folder() != nil {
			_ = sandbox.KillGroup(int(g.group.Folder().Fd())) // the keeper is in it
		}
		// otherwise it ends the program as soon as it finds that the socket is closed
		if len(descendants(keeper.Pid)) == 0 {
			_ = keeper.Kill()
		}
		return fmt.Errorf("%w after %s", errNotReady, limit)
	case err != nil:
		return nil // it was ended in the meantime, which Wait reports
	case m.Err != "":
		return &keeperError{m.Err, m.Errno}
	}
	return g.socket.SetReadDeadline(time.Time{})
}

// keeperError is an error that a keeper reported.
type keeperError struct {
	text  string
	errno syscall.Errno // zero if unknown
}

func (e *keeperError) Error() string { return e.text }

func (e *keeperError) Unwrap() error {
	if e.errno == 0 {
		return nil
	}
	return e.errno
}

func (g *gate) close() { g.socket.Close() }

// signal sends a signal to everything that the program started. A keeper that does not answer a
// while after SIGKILL is not waited for.
func (g *gate) signal(p *Process, sig unix.Signal) {
	_ = g.send(message{Signal: sig})
	if sig == unix.SIGKILL {
		_ = g.socket.SetReadDeadline(time.Now().Add(p.killTime))
	}
}

// waitForProgram waits until the keeper reports that the program has ended, has ended itself, or
// does not answer.
func (g *gate) waitForProgram(p *Process) {
	for g.exited == nil {
		var m message
		switch err := g.in.Decode(&m); {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return
		case err != nil:
			waitForExit(p.id.PID)
			return
		}
		g.exited, g.exceeded = m.Exited, m.Exceeded
	}
}

// endLeftovers makes the keeper end what the program left behind, and waits for it. It returns what
// did not end: a keeper that has something left is not killed, because that could not be found
// without it.
func (g *gate) endLeftovers(p *Process) []Left {
	_ = g.send(message{End: true, Grace: p.grace})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		waitForExit(p.id.PID)
	}()
	select {
	case <-ended:
		return g.endOrphans(p)
	case <-time.After(p.grace + p.killTime):
		return g.left(p)
	}
}

// endOrphans ends what a keeper kept that was killed itself. It returns what did not end.
func (g *gate) endOrphans(p *Process) []Left {
	if g.group != nil {
		if left := killGroup(g.group, p.killTime); len(left) > 0 || p.restricted {
			return left // without a sandbox, a process can leave the group
		}
	}
	signal := func(sig unix.Signal) { signalAll(p.id.PID, p.members(), sig) }
	_, left := endAll(p.members, signal, p.grace, p.killTime)
	return leftOf(left)
}

// left returns what a keeper that does not end has left.
func (g *gate) left(p *Process) []Left { return leftOf([]member{{pid: p.id.PID, keeper: true}}) }

// waitUntilGone waits until a keeper and everything that it kept have ended.
func (g *gate) waitUntilGone(p *Process) {
	waitForExit(p.id.PID)
	for len(g.endOrphans(p)) > 0 {
	}
}

// cleanUp removes the group of a program that has ended.
func (g *gate) cleanUp() {
	if g.group != nil {
		g.group.Remove()
	}
}

func (g *gate) exit(state *os.ProcessState, err error) Exit {
	for _, place := range g.places {
		place.release()
	}
	exit := exitOf(state, err)
	if g.exited != nil {
		exit = exitOfStatus(*g.exited)
	}
	exit.Exceeded = g.exceeded
	if err := g.forwarder.close(); err != nil {
		exit.Unreachable = err.Error()
	}
	if g.group != nil {
		exit.Exceeded = cmp.Or(exit.Exceeded, g.group.Exceeded())
	}
	return exit
}

// killGroup kills the processes of a group until there are none, and returns those that did not end
// in time.
func killGroup(group *sandbox.Group, atMost time.Duration) []Left {
	folder := int(group.Folder().Fd())
	find := func() (all []member) {
		pids, _ := sandbox.GroupProcesses(folder) // fails if the group is gone
		for _, pid := range pids {
			if s, ok := readStatus(pid); ok && !s.ended {
				all = append(all, member{pid: pid})
			}
		}
		return all
	}
	if len(find()) == 0 {
		return nil
	}
	return leftOf(waitUntilNone(find, atMost, func() { _ = sandbox.KillGroup(folder) }))
}

// endGroup ends what remains in the control group of an orphan, and removes it.
func endGroup(id ID) []Left {
	if id.Group == "" {
		return nil
	}
	group, err := sandbox.OpenGroup(id.Group)
	if err != nil {
		return nil // it is gone
	}
	left := killGroup(group, killTime)
	group.Remove()
	return left
}

// leftOf describes processes that did not end. In place of a keeper it returns what that keeps.
func leftOf(all []member) (left []Left) {
	for _, m := range all {
		pids := []int{m.pid}
		if kept := descendants(m.pid); m.keeper && len(kept) > 0 {
			pids = kept
		}
		for _, pid := range pids {
			name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
			left = append(left, Left{pid, strings.TrimSpace(string(name))})
		}
	}
	return left
}
