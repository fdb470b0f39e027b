//go:build linux || darwin

package process

import (
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

// gate waits for a line on descriptor 3 and then becomes the program, with the same pid. If this process dies first, the line never
// comes and the program never runs.
const gate = `read -r _ <&3 && exec "$@" 3<&-`

// Process is a program that was started. It is safe for concurrent use.
type Process struct {
	id      ID
	session string
	grace   time.Duration
	speaks  bool // see Spec
	cmd     *exec.Cmd
	in      *inputQueue // nil without input
	out     []*outputCopier
	done    chan struct{} // closed when exit is set
	exit    Exit

	mu       sync.Mutex // guards the fields below
	reaped   bool       // from then on its pid may belong to another process
	stopping bool
	killer   *time.Timer // nil before the first Stop
	killAt   time.Time
}

// Start starts a program in its own process group. It calls started, if not nil, with the program's identity before the program runs;
// if started fails, or if this process dies before it returns, the program never runs. Errors that a person can fix are
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
	p := &Process{session: lookup(spec.Env, SessionVariable), grace: spec.Grace, speaks: spec.Speaks, done: make(chan struct{})}
	if p.grace == 0 {
		p.grace = defaultGrace
	}
	p.cmd = exec.Command("/bin/sh", append([]string{"-c", gate, "sh", file}, spec.Argv[1:]...)...)
	p.cmd.Dir, p.cmd.Env = spec.Dir, spec.Env
	if dir, err := filepath.Abs(spec.Dir); err == nil {
		p.cmd.Env = append(slices.Clip(spec.Env), "PWD="+dir) // some programs trust it more than the system
	}
	// A new session is also a new process group, without a terminal.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}

	opener, err := p.startGate(spec)
	if err != nil {
		return nil, err
	}
	if started != nil {
		err = started(p.id)
	}
	if err == nil {
		_, err = opener.Write([]byte("\n"))
		if errors.Is(err, syscall.EPIPE) {
			err = nil // the program was ended in the meantime, which Wait reports
		}
	}
	opener.Close()
	p.in.start()
	go p.reap()
	if err != nil {
		p.Stop(0)
		p.Wait()
		return nil, err
	}
	return p, nil
}

// startGate starts the gate, and returns the pipe that opens it.
func (p *Process) startGate(spec Spec) (opener *os.File, err error) {
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
	opener, waiting := open(toProgram, false)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Argv[0], err)
	}
	p.cmd.ExtraFiles = []*os.File{waiting}
	if err := p.cmd.Start(); err != nil {
		return nil, startError(spec, err)
	}
	p.id.PID = p.cmd.Process.Pid
	info, ok := lookUp(p.id.PID)
	if !ok {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		return nil, fmt.Errorf("start %s: cannot read the start time of process %d", spec.Argv[0], p.id.PID)
	}
	p.id.Started = info.started
	for _, d := range p.out {
		go d.run()
	}
	return opener, nil
}

// startError explains why the system did not start the gate.
func startError(spec Spec, err error) error {
	var hint string
	if _, gone := os.Stat(spec.Dir); spec.Dir != "" && gone != nil {
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("start %s: %w", spec.Argv[0], gone),
			Hint: "create the folder in which it runs"}
	}
	switch {
	case errors.Is(err, syscall.E2BIG):
		hint = "its arguments and environment are too long; pass long text on standard input or in a file"
	case Transient(err):
		hint = "the system cannot run another process; run fewer at a time"
	}
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("start %s: %w", spec.Argv[0], err), Hint: hint}
}

// ID returns the identity of the program.
func (p *Process) ID() ID { return p.id }

// WriteLine appends a line to the program's standard input. It does not wait until the program reads it. It fails if the program has
// ended or was not started with Interactive.
func (p *Process) WriteLine(line string) error {
	if p.in == nil || !p.in.add(line) {
		return fmt.Errorf("the input of process %d is closed", p.id.PID)
	}
	return nil
}

// CloseInput closes the standard input of an interactive program after all lines are written.
func (p *Process) CloseInput() {
	if p.in != nil {
		p.in.end()
	}
}

// Stop sends SIGTERM to the program and its group, and SIGKILL if they are still running after grace. It returns at once; Wait returns
// when they are gone. Of several calls, the earliest deadline applies. After the program has ended, Stop does nothing.
func (p *Process) Stop(grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	if !p.stopping {
		p.stopping = true
		signalAll(p.id.PID, p.members(), unix.SIGTERM)
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
func (p *Process) signal(sig unix.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		signalAll(p.id.PID, p.members(), sig)
	}
}

func (p *Process) members() []member { return members(p.id.PID, p.session) }

// Wait waits until the program and everything it left behind have ended, and all output is written.
func (p *Process) Wait() Exit {
	<-p.done
	return p.exit
}

// reap waits for the program to end, ends what it left behind, and sets exit.
func (p *Process) reap() {
	// Until it is reaped, the system cannot reuse its pid, nor the id of its group.
	waitForExit(p.id.PID)
	p.mu.Lock()
	stopped := p.stopping
	p.mu.Unlock()
	atMost := p.grace
	if p.speaks {
		atMost = 0
		waitForOutput(p.out, atMost) // before processes that it left behind write more
	}
	endAll(p.members, p.signal, p.grace)
	p.in.close()
	outputs := errors.Join(waitForOutput(p.out, atMost)...)

	p.mu.Lock()
	if p.killer != nil {
		p.killer.Stop()
	}
	err := p.cmd.Wait()
	p.reaped = true
	p.mu.Unlock()

	p.exit = exitOf(p.cmd.ProcessState, err)
	p.exit.Stopped, p.exit.Err = stopped, errors.Join(p.exit.Err, outputs)
	close(p.done)
}

func exitOf(state *os.ProcessState, err error) Exit {
	if state == nil {
		return Exit{Code: -1, Err: fmt.Errorf("wait: %w", err)}
	}
	if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
		return Exit{Code: 128 + int(status.Signal()), Signal: unix.SignalName(status.Signal())}
	}
	return Exit{Code: state.ExitCode()}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
