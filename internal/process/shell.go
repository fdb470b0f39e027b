package process

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"

	"signalbox/internal/sandbox"
)

// KeyVariable is the environment variable with the idempotency key of a piece of work. It is the
// same for every attempt, so that a program can recognise work that it has already done.
const KeyVariable = "SIGNALBOX_TREE_KEY"

// Shell describes a shell command, or a program, whose output is wanted.
type Shell struct {
	Line string
	// Argv is a program and its arguments, which run without a shell; Line is then ignored.
	Argv []string
	// Dir is the working directory; "" means that of this process.
	Dir string
	// Env is the whole environment except for the session; nil means Environ().
	Env   []string
	Input []byte
	// Session identifies its processes; "" means none. Processes of that session that are still
	// running are ended first, because two programs for one piece of work would disturb each other.
	Session string
	// Limit is how many bytes it may print before it is ended.
	Limit int
	// Grace is the time between SIGTERM and SIGKILL when it is ended.
	Grace time.Duration
	// Stderr receives its standard error; nil discards it.
	Stderr io.Writer
	// Sandbox is that of Spec.
	Sandbox *sandbox.Policy
}

// ShellResult is the result of a Shell.
type ShellResult struct {
	Exit   Exit
	Output string
	// Truncated reports that it printed more than Limit and was ended.
	Truncated bool
}

// Run runs the command in its own process group and waits for it. When ctx is done, the command is
// ended with everything it started, and the error is that of ctx. Any other error means that the
// command could not be started.
func (s Shell) Run(ctx context.Context) (ShellResult, error) {
	env := s.Env
	if env == nil {
		env = Environ()
	}
	if s.Session != "" {
		if _, err := EndSession(s.Session, s.Grace); err != nil {
			return ShellResult{}, err
		}
		env = append(env[:len(env):len(env)], SessionVariable+"="+s.Session)
	}
	if ctx.Err() != nil {
		return ShellResult{}, ctx.Err()
	}
	output := &limitedBuffer{limit: s.Limit, overflow: make(chan struct{})}
	stderr := s.Stderr
	if stderr == nil {
		stderr = io.Discard
	}
	argv := s.Argv
	if argv == nil {
		argv = []string{"sh", "-c", s.Line}
	}
	p, err := Start(Spec{Argv: argv, Dir: s.Dir, Env: env, Stdin: s.Input, Stdout: output,
		Stderr: stderr, Grace: s.Grace,
		Sandbox: s.Sandbox}, nil)
	if err != nil {
		return ShellResult{}, err
	}
	exited := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-exited:
			return
		case <-ctx.Done():
		case <-output.overflow: // it might print forever
		}
		p.Stop(s.Grace)
	})
	exit := p.Wait()
	close(exited)
	watch.Wait()
	return ShellResult{exit, output.String(), output.full}, ctx.Err()
}

// limitedBuffer keeps the first limit bytes that are written to it.
type limitedBuffer struct {
	bytes.Buffer
	limit    int
	full     bool
	overflow chan struct{} // closed when more than limit bytes were written
}

// Write accepts everything and never fails.
func (b *limitedBuffer) Write(p []byte) (int, error) {
	room := b.limit - b.Len()
	if len(p) > room && !b.full {
		b.full = true
		close(b.overflow)
	}
	b.Buffer.Write(p[:max(min(room, len(p)), 0)])
	return len(p), nil
}
