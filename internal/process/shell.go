package process

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"
)

// KeyVariable is the environment variable with the key of a piece of work, which is the same for each try of it, so that a
// program can tell that it did it before.
const KeyVariable = "SIGNALBOX_TREE_KEY"

// Shell is a line for the shell whose output is wanted.
type Shell struct {
	Line string
	// Dir is where it runs. Empty: the folder of this process.
	Dir string
	// Env is its whole environment, but for the session. Nil: Environ().
	Env   []string
	Input []byte
	// Session names its processes. What another process has left running under that name is ended first: two programs
	// for one piece of work would get in each other's way. Empty: they have none.
	Session string
	// Limit is how much it may print before it is ended.
	Limit int
	// Grace is how long it has to end when it was asked to.
	Grace time.Duration
	// Stderr takes what it writes to standard error. Nil: nobody does.
	Stderr io.Writer
}

// Printed is what came of a Shell.
type Printed struct {
	Exit   Exit
	Output string
	// Over: there was more, and it was ended.
	Over bool
}

// Run runs the line to its end, in a process group of its own. When ctx ends it is ended with all that it started, and the
// error is that of ctx; another error says why it could not be run.
func (s Shell) Run(ctx context.Context) (Printed, error) {
	env := s.Env
	if env == nil {
		env = Environ()
	}
	if s.Session != "" {
		if _, err := EndSession(s.Session, s.Grace); err != nil {
			return Printed{}, err
		}
		env = append(env[:len(env):len(env)], SessionVariable+"="+s.Session)
	}
	if ctx.Err() != nil {
		return Printed{}, ctx.Err()
	}
	output := &beginning{limit: s.Limit, full: make(chan struct{})}
	stderr := s.Stderr
	if stderr == nil {
		stderr = io.Discard
	}
	p, err := Start(Spec{Argv: []string{"sh", "-c", s.Line}, Dir: s.Dir, Env: env, Stdin: s.Input, Stdout: output, Stderr: stderr, Grace: s.Grace}, nil)
	if err != nil {
		return Printed{}, err
	}
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-over:
			return
		case <-ctx.Done():
		case <-output.full: // it may print for ever
		}
		p.Stop(s.Grace)
	})
	exit := p.Wait()
	close(over)
	watch.Wait()
	return Printed{exit, output.String(), output.over}, ctx.Err()
}

// beginning keeps the first of what is written.
type beginning struct {
	bytes.Buffer
	limit int
	over  bool
	full  chan struct{} // closed when there is more than is kept
}

// Write takes all and never fails.
func (b *beginning) Write(p []byte) (int, error) {
	room := b.limit - b.Len()
	if len(p) > room && !b.over {
		b.over = true
		close(b.full)
	}
	b.Buffer.Write(p[:max(min(room, len(p)), 0)])
	return len(p), nil
}
