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

// gate waits for a line on descriptor 3 and then becomes the program. Its pid is the program's, and if this process
// dies there is no line.
const gate = `read -r _ <&3 && exec "$@" 3<&-`

// Process is a program that was started. Its methods may be called by several at once.
type Process struct {
	id      ID
	session string
	grace   time.Duration
	cmd     *exec.Cmd
	in      *feed // nil without input
	out     []*drain
	done    chan struct{} // closed when exit is set
	exit    Exit

	mu       sync.Mutex // guards what follows
	reaped   bool       // its pid may belong to another from now on
	stopping bool
	killer   *time.Timer // nil before the first Stop
	killAt   time.Time
}

// Start starts a program in a group of its own. It calls started, which must succeed, before the program begins: if this
// process dies before that, the program never does. Nil is a caller who need not know. Errors that people can do
// something about are *signalbox.Error. Whoever calls Start need not call Wait.
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
	p := &Process{session: lookup(spec.Env, SessionVariable), grace: spec.Grace, done: make(chan struct{})}
	if p.grace == 0 {
		p.grace = defaultGrace
	}
	p.cmd = exec.Command("/bin/sh", append([]string{"-c", gate, "sh", file}, spec.Argv[1:]...)...)
	p.cmd.Dir, p.cmd.Env = spec.Dir, spec.Env
	if dir, err := filepath.Abs(spec.Dir); err == nil {
		p.cmd.Env = append(slices.Clip(spec.Env), "PWD="+dir) // some programs believe it more than the system
	}
	// A session of its own is a group of its own that has no terminal.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}

	opener, err := p.begin(spec)
	if err != nil {
		return nil, err
	}
	if started != nil {
		err = started(p.id)
	}
	if err == nil {
		_, err = opener.Write([]byte("\n"))
		if errors.Is(err, syscall.EPIPE) {
			err = nil // it was ended meanwhile, which Wait tells
		}
	}
	opener.Close()
	p.in.start()
	go p.mind()
	if err != nil {
		p.Stop(0)
		p.Wait()
		return nil, err
	}
	return p, nil
}

// begin starts the gate, and returns what opens it.
func (p *Process) begin(spec Spec) (opener *os.File, err error) {
	var theirs []*os.File // the program's ends of the pipes
	var ours []*os.File
	defer func() {
		closeAll(theirs)
		if err != nil {
			closeAll(ours)
		}
	}()
	pipe := func() (r, w *os.File) {
		if err != nil {
			return nil, nil
		}
		r, w, err = os.Pipe()
		return r, w
	}
	if spec.Stdin != nil || spec.Interactive {
		r, w := pipe()
		p.cmd.Stdin, p.in = r, newFeed(w, spec.Stdin, spec.Interactive)
		theirs, ours = append(theirs, r), append(ours, w)
	}
	if spec.Stdout != nil {
		r, w := pipe()
		p.cmd.Stdout = w
		p.out = append(p.out, newDrain(r, spec.Stdout))
		theirs, ours = append(theirs, w), append(ours, r)
	}
	switch {
	case spec.Stderr == nil:
	case same(spec.Stdout, spec.Stderr):
		p.cmd.Stderr = p.cmd.Stdout
	default:
		r, w := pipe()
		p.cmd.Stderr = w
		p.out = append(p.out, newDrain(r, spec.Stderr))
		theirs, ours = append(theirs, w), append(ours, r)
	}
	waiting, opener := pipe()
	theirs, ours = append(theirs, waiting), append(ours, opener)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Argv[0], err)
	}
	p.cmd.ExtraFiles = []*os.File{waiting}
	if err := p.cmd.Start(); err != nil {
		return nil, startError(spec, err)
	}
	p.id.PID = p.cmd.Process.Pid
	seen, ok := look(p.id.PID)
	if !ok {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		return nil, fmt.Errorf("start %s: the system does not say when process %d started", spec.Argv[0], p.id.PID)
	}
	p.id.Started = seen.started
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
			Hint: "the folder in which it is to run must exist"}
	}
	switch {
	case errors.Is(err, syscall.E2BIG):
		hint = "its arguments and environment are too long; pass long text on standard input or in a file"
	case Transient(err):
		hint = "the system has no room for another process; run fewer at a time"
	}
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("start %s: %w", spec.Argv[0], err), Hint: hint}
}

// ID is the identity that started was called with.
func (p *Process) ID() ID { return p.id }

// Say gives the program a line on its standard input, after all that was given before. It does not wait until the
// program reads it. It fails if the program has ended, or was not started with Interactive.
func (p *Process) Say(text string) error {
	if p.in == nil || !p.in.say(text) {
		return fmt.Errorf("process %d does not listen", p.id.PID)
	}
	return nil
}

// CloseInput ends the standard input of an interactive program after all that was said.
func (p *Process) CloseInput() {
	if p.in != nil {
		p.in.end()
	}
}

// Stop asks the program and its whole group to end, with TERM, and ends them with KILL if they are still there after
// grace. It returns at once; Wait returns when they are gone. Of several calls the one whose grace ends first counts.
// After the end it does nothing.
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

// signal sends a signal to all, unless they are gone.
func (p *Process) signal(sig unix.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		signalAll(p.id.PID, p.members(), sig)
	}
}

func (p *Process) members() []member { return members(p.id.PID, p.session) }

// Wait waits until the program has ended, what it left behind was ended, and its output was passed on. Several may wait.
func (p *Process) Wait() Exit {
	<-p.done
	return p.exit
}

// mind sees to the end of the program.
func (p *Process) mind() {
	// Until it is reaped, its pid, and so the number of its group, cannot become those of others.
	awaitEnd(p.id.PID)
	endAll(p.members, p.signal, p.grace)
	p.in.close()
	outputs := errors.Join(waitDrains(p.out, p.grace)...)

	p.mu.Lock()
	if p.killer != nil {
		p.killer.Stop()
	}
	err := p.cmd.Wait()
	p.reaped = true
	p.mu.Unlock()

	p.exit = exitOf(p.cmd.ProcessState, err)
	p.exit.Err = errors.Join(p.exit.Err, outputs)
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
