package process

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"signalbox/internal/sandbox"
)

// connectGate returns the two ends of the connection with a keeper.
func connectGate() (ours, theirs *os.File, err error) { return connectBoth() }

// Support returns what this system can enforce. The first call tries it, which takes some milliseconds.
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
	return s
})

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
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a new session is also a new process group, without a terminal
	if policy.Restricted() && support.Namespaces {
		cmd.SysProcAttr.Cloneflags = sandbox.Namespaces(policy)
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		// The first process of a user namespace has all capabilities in it, which only root keeps when it executes a program.
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN}
	}
	return cmd
}

// gate is the connection with a keeper.
type gate struct {
	socket *os.File
	in     *json.Decoder
	group  *sandbox.Group // nil if the program has none
	places []*placeholder
	exited *syscall.WaitStatus // of the program; nil if the keeper did not report it
	// exceeded is the limit for which the keeper killed the program.
	exceeded string
}

func newGate(socket *os.File) gate {
	return gate{socket: socket, in: json.NewDecoder(bufio.NewReader(socket))}
}

// open makes the keeper start the program, and waits until it has.
func (g *gate) open(p *Process, spec Spec, file, dir string) error {
	if err := g.holdPlaces(spec); err != nil {
		return startError(spec, err)
	}
	watched := g.limit(p.id.PID, spec.Sandbox, !spec.watchLimits)
	argv := append([]string{file}, spec.Argv[1:]...)
	err := g.send(order{File: file, Argv: argv, Dir: dir, Sandbox: spec.Sandbox, Support: spec.support(), Watched: watched})
	if err == nil {
		err = g.started(p.cmd.Process, cmp.Or(spec.startLimit, startLimit))
	}
	if err != nil {
		return startError(spec, err)
	}
	if g.group != nil {
		_ = g.group.Release(p.id.PID) // the keeper must work even if the program leaves it no room
	}
	return nil
}

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

// limit makes the system enforce the limits of a policy for a keeper and what it starts. It returns those that the keeper must watch,
// because the system grants no control groups.
func (g *gate) limit(keeper int, policy *sandbox.Policy, groups bool) (watched sandbox.Limits) {
	if policy == nil || policy.Limits == (sandbox.Limits{}) {
		return sandbox.Limits{}
	}
	for _, limits := range attempts(policy.Limits) {
		if !groups {
			break
		}
		if group, err := sandbox.NewGroup("signalbox-"+strconv.Itoa(keeper)+"-"+rand.Text(), limits); err == nil {
			if group.Add(keeper) == nil {
				g.group = group
				return sandbox.Limits{}
			}
			group.Remove()
		}
	}
	return sandbox.Limits{Memory: policy.Limits.Memory, Processes: policy.Limits.Processes}
}

// attempts returns the limits to try a control group with: all, and those that most systems grant, which do not include the processor.
func attempts(all sandbox.Limits) []sandbox.Limits {
	most := all
	most.CPU = 0
	if most == all || most == (sandbox.Limits{}) {
		return []sandbox.Limits{all}
	}
	return []sandbox.Limits{all, most}
}

// MissingLimits returns which limits this system does not enforce, one sentence for each.
func MissingLimits(limits sandbox.Limits) []string {
	return missingLimits(limits, func(limits sandbox.Limits) error {
		group, err := sandbox.NewGroup("signalbox-"+rand.Text(), limits)
		if err == nil {
			group.Remove()
		}
		return err
	})
}

func missingLimits(limits sandbox.Limits, try func(sandbox.Limits) error) (missing []string) {
	if limits == (sandbox.Limits{}) {
		return nil
	}
	err := try(limits)
	if err == nil {
		return nil
	}
	if limits.CPU > 0 {
		missing = append(missing, fmt.Sprintf("limits.cpu has no effect, because the system grants no control group for it (%v)", err))
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
			missing = append(missing, fmt.Sprintf("limits.%s is only looked at every %s, because the system grants no control group for it (%v)", l.name, watchPause, err))
		}
	}
	return missing
}

func (g *gate) send(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := g.socket.Write(append(line, '\n')); err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		return err
	}
	return nil // if the keeper was ended in the meantime, that is noticed when it is read from
}

// startLimit is how long a keeper may take to start a program. It takes some milliseconds, and longer on a busy machine.
const startLimit = 30 * time.Second

// errNotReady means that a keeper did not start its program in time, for example because a file system that the sandbox shows does not answer.
// The keeper is killed, and must not be waited for.
var errNotReady = errors.New("the process that starts it is not ready")

// started waits until the keeper reports that the program runs.
func (g *gate) started(keeper *os.Process, limit time.Duration) error {
	_ = g.socket.SetReadDeadline(time.Now().Add(limit)) // sockets have deadlines
	var m message
	switch err := g.in.Decode(&m); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		_ = keeper.Kill()
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

func (g *gate) signal(_ *Process, sig unix.Signal) { _ = g.send(message{Signal: sig}) }

// waitForProgram waits until the keeper reports that the program has ended, or has ended itself.
func (g *gate) waitForProgram(p *Process) {
	for g.exited == nil {
		var m message
		if err := g.in.Decode(&m); err != nil {
			waitForExit(p.id.PID)
			return
		}
		g.exited, g.exceeded = m.Exited, m.Exceeded
	}
}

// endLeftovers makes the keeper end what the program left behind, and waits for it.
func (g *gate) endLeftovers(p *Process) {
	_ = g.send(message{End: true, Grace: p.grace})
	kill := time.AfterFunc(p.grace+killTime, func() { _ = unix.Kill(p.id.PID, unix.SIGKILL) }) // it is not reaped yet
	waitForExit(p.id.PID)
	kill.Stop()
	// If the keeper was killed, what it kept may still run.
	endAll(p.members, func(sig unix.Signal) { signalAll(p.id.PID, p.members(), sig) }, p.grace)
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
	if g.group != nil {
		exit.Exceeded = g.group.Exceeded()
		g.group.Remove()
	}
	return exit
}
