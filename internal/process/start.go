//go:build linux || darwin

package process

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"signalbox"
)

// Process is a program that was started. It is safe for concurrent use.
type Process struct {
	id      ID
	session string
	grace   time.Duration
	speaks  bool // see Spec
	// restricted means that it has a sandbox.
	restricted bool
	cmd        *exec.Cmd
	gate       gate
	in         *inputQueue // nil without input
	out        []*outputCopier
	done       chan struct{} // closed when exit is set
	exit       Exit
	// killTime is how long processes may take to disappear after SIGKILL.
	killTime time.Duration

	mu       sync.Mutex // guards the fields below
	reaped   bool       // from then on its pid may belong to another process
	stopping bool
	killer   *time.Timer // nil before the first Stop
	killAt   time.Time
}

// Start starts a program in its own process group. It calls started, if not nil, with the identity
// of the program, on Linux of its keeper, before the program runs; if started fails, or if this
// process dies before it returns, the program never runs. Errors that a person can fix are
// *signalbox.Error. Calling Wait is optional.
func Start(spec Spec, started func(ID) error) (*Process, error) {
	if len(spec.Argv) == 0 {
		spec.Argv = []string{""}
	}
	if spec.Env == nil {
		spec.Env = Environ()
	}
	file, err := Find(spec.Argv[0], spec.Dir, spec.Env)
	if err != nil {
		return nil, err
	}
	p := &Process{session: Getenv(spec.Env, SessionVariable), grace: cmp.Or(spec.Grace, defaultGrace), speaks: spec.Speaks, restricted: spec.Sandbox.Restricted(),
		done: make(chan struct{}), killTime: cmp.Or(spec.killTime, killTime)}
	if p.cmd, err = gateCommand(spec, file); err != nil {
		return nil, err
	}
	p.cmd.Dir, p.cmd.Env = spec.Dir, spec.programEnviron()
	dir, err := filepath.Abs(spec.Dir)
	if err == nil {
		// some programs trust it more than the system
		p.cmd.Env = append(slices.Clip(p.cmd.Env), "PWD="+dir)
	}
	if err := p.startGate(spec); err != nil {
		return nil, err
	}
	if started != nil {
		err = started(p.id)
	}
	if err == nil {
		err = p.gate.open(p, spec, file, dir)
	}
	p.in.start()
	go p.reap()
	if err != nil {
		p.gate.close()
		p.Stop(0)
		if !errors.Is(err, errNotReady) { // such a process may not end, whatever is done to it
			p.Wait()
		}
		return nil, err
	}
	return p, nil
}

// startGate starts the gate: a process that waits until it is opened, and then runs the program. If
// this process dies first, the program never runs.
func (p *Process) startGate(spec Spec) (err error) {
	var theirs []*os.File // the program's ends of the pipes
	var ours []*os.File
	defer func() {
		closeAll(theirs)
		if err != nil {
			closeAll(ours)
		}
	}()
	open := func(d direction, socket bool) (our, their *os.File) {
		if err == nil {
			our, their, err = connect(d, socket)
			ours, theirs = append(ours, our), append(theirs, their)
		}
		return our, their
	}
	if spec.Stdin != nil || spec.Interactive {
		our, their := open(toProgram, spec.Speaks && spec.Interactive)
		p.cmd.Stdin, p.in = their, newInputQueue(our, spec.Stdin, spec.Interactive)
	}
	if spec.Stdout != nil {
		our, their := open(fromProgram, spec.Speaks)
		p.cmd.Stdout = their
		p.out = append(p.out, newOutputCopier(our, spec.Stdout))
	}
	switch {
	case spec.Stderr == nil:
	case sameWriter(spec.Stdout, spec.Stderr):
		p.cmd.Stderr = p.cmd.Stdout
	default:
		our, their := open(fromProgram, spec.Speaks)
		p.cmd.Stderr = their
		p.out = append(p.out, newOutputCopier(our, spec.Stderr))
	}
	var opener, waiting *os.File
	if err == nil {
		opener, waiting, err = connectGate()
		ours, theirs = append(ours, opener), append(theirs, waiting)
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", spec.Argv[0], err)
	}
	p.gate = newGate(opener)
	p.cmd.ExtraFiles = []*os.File{waiting}
	if p.id.Group, err = p.gate.prepare(spec, p.cmd); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		p.gate.cleanUp()
		return startError(spec, err)
	}
	p.id.PID = p.cmd.Process.Pid
	info, ok := lookUp(p.id.PID)
	if !ok {
		p.cmd.Process.Kill() // it has started nothing
		p.cmd.Wait()
		p.gate.cleanUp()
		return fmt.Errorf("start %s: cannot read the start time of process %d", spec.Argv[0],
			p.id.PID)
	}
	p.id.Started = info.started
	for _, d := range p.out {
		go d.run()
	}
	return nil
}

// startError explains why the system did not start the gate.
func startError(spec Spec, err error) error {
	var hint string
	if _, gone := os.Stat(spec.Dir); spec.Dir != "" && gone != nil {
		return signalbox.CodeFailed.Errorf("create the folder in which it runs", "start %s: %w",
			spec.Argv[0], gone)
	}
	switch {
	case errors.Is(err, syscall.E2BIG):
		hint = "its arguments and environment are too long; pass long text on standard input or in a file"
	case errors.Is(err, errNotReady):
		hint = "a file system that it may read may not answer (see signalbox sandbox explain), or the machine is too busy"
	case Transient(err):
		hint = "the system cannot run another process; run fewer at a time"
	}
	return signalbox.CodeFailed.Errorf(hint, "start %s: %w", spec.Argv[0], err)
}

// ID returns the identity of the program, on Linux of its keeper.
func (p *Process) ID() ID { return p.id }

// WriteLine appends a line to the program's standard input. It does not wait until the program
// reads it. It fails if the program has ended or was not started with Interactive.
func (p *Process) WriteLine(line string) error {
	if p.in == nil || !p.in.add(line) {
		return fmt.Errorf("the input of process %d is closed", p.id.PID)
	}
	return nil
}

// CloseInput closes the standard input of an interactive program when its lines are written.
func (p *Process) CloseInput() {
	if p.in != nil {
		p.in.end()
	}
}

// Stop sends SIGTERM to the program and its group, and SIGKILL if they are still running after
// grace. It returns at once; Wait returns when they are gone. Of several calls, the earliest
// deadline applies. After the program has ended, Stop does nothing.
func (p *Process) Stop(grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	if !p.stopping {
		p.stopping = true
		p.gate.signal(p, unix.SIGTERM)
	}
	at := time.Now().Add(grace)
	if p.killer != nil && !at.Before(p.killAt) {
		return
	}
	if p.killer != nil {
		p.killer.Stop()
	}
	p.killAt = at
	p.killer = time.AfterFunc(grace, func() { p.signal(unix.SIGKILL) })
}

// signal sends a signal to all members, unless the program was reaped.
func (p *Process) signal(sig unix.Signal) { p.unlessReaped(func() { p.gate.signal(p, sig) }) }

// unlessReaped calls f while the pid of the program cannot belong to another process.
func (p *Process) unlessReaped(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		f()
	}
}

func (p *Process) members() []member { return members(p.id.PID, p.session) }

// Wait waits until the program and everything it left behind have ended, and all output is written.
// If processes do not end, it returns all the same, with a *LeftError.
func (p *Process) Wait() Exit {
	<-p.done
	return p.exit
}

// reap waits for the program to end, ends what it left behind, and sets exit.
func (p *Process) reap() {
	// Until it is reaped, the system cannot reuse its pid, nor the id of its group.
	p.gate.waitForProgram(p)
	p.mu.Lock()
	stopped := p.stopping
	p.mu.Unlock()
	atMost := p.grace
	if p.speaks {
		atMost = 0
		waitForOutput(p.out, atMost) // before processes that it left behind write more
	}
	left := p.gate.endLeftovers(p)
	p.in.close()
	outputs := errors.Join(waitForOutput(p.out, atMost)...)
	if len(left) > 0 {
		p.exit = p.gate.exit(nil, nil)
		gone := make(chan struct{})
		p.exit.Stopped, p.exit.Err = stopped, &LeftError{left, gone}
		close(p.done)
		p.gate.waitUntilGone(p)
		p.finish()
		p.gate.cleanUp()
		close(gone)
		return
	}
	err := p.finish()
	p.exit = p.gate.exit(p.cmd.ProcessState, err)
	p.exit.Stopped, p.exit.Err = stopped, errors.Join(p.exit.Err, outputs)
	p.gate.cleanUp()
	close(p.done)
}

// finish reaps the program or its keeper, which has ended.
func (p *Process) finish() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killer != nil {
		p.killer.Stop()
	}
	p.reaped = true
	err := p.cmd.Wait()
	p.gate.close()
	return err
}

func exitOf(state *os.ProcessState, err error) Exit {
	if state == nil {
		return Exit{Code: -1, Err: err}
	}
	return exitOfStatus(state.Sys().(syscall.WaitStatus))
}

func exitOfStatus(status syscall.WaitStatus) Exit {
	if status.Signaled() {
		return Exit{Code: 128 + int(status.Signal()), Signal: unix.SignalName(status.Signal())}
	}
	return Exit{Code: status.ExitStatus()}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
