// Package checkrun runs the commands of checks, each in its sandbox, and finds out why one cannot
// work: a program, a file or a variable that it needs and does not get.
package checkrun

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/internal/contain"
	"signalbox/internal/process"
	"signalbox/internal/sandbox"
)

const (
	defaultCheckTimeout = 10 * time.Minute
	// checkGrace is the time between SIGTERM and SIGKILL when a check is ended.
	checkGrace = 5 * time.Second
	// sizePause is how often the size of what a check writes is looked at.
	sizePause = 10 * time.Second
	// outputLimit bounds how much of a check's output is kept.
	outputLimit = 256 << 10
)

// Check is a command that a workspace must pass.
type Check struct {
	Name string
	// Command is run by sh.
	Command string
	// Timeout is how long it may run; zero means ten minutes.
	Timeout time.Duration
	// Environments are the names of the environments it runs in; empty means all.
	Environments []string
}

// Environment is where checks run.
type Environment struct {
	Name string
	// Run is a program with arguments, such as docker run --rm -v {workspace}:/w -w /w golang. sh,
	// -c and the check's command are appended, and {workspace} is replaced by the folder. Empty
	// means that checks run on this machine.
	Run []string
	// Env is added to the environment of the program.
	Env map[string]string
}

// Result is the result of a check in an environment.
type Result struct {
	Check, Environment string
	// Exit is the exit status; 128 plus the signal number if a signal ended it.
	Exit     int
	Passed   bool
	TimedOut bool
	Duration time.Duration
	// Output is what it wrote, at most 256 KiB: if it wrote more, the beginning and the end with a
	// mark in between.
	Output []byte
	// Sandbox is what it was allowed to do; nil means everything.
	Sandbox *sandbox.Policy
}

// Options configure Run.
type Options struct {
	// Environments are those that checks run in. None means one without a name, on this machine.
	Environments []Environment
	// Env is added to the environment of every check, after that of its Environment.
	Env []string
	// Contain returns what a check of a new session may do, and the environment that it gets from
	// this process. Nil means that it may do what this process may, with all of its environment but
	// signalbox's own variables.
	Contain func(check Check, environment Environment, session string) *contain.Program
	// Register, if not nil, is called with the session and the identity of each check before it
	// runs, so that the check can be found if this process is killed. The returned function, which
	// may be nil, is called when the check and everything that it started have ended.
	Register func(session string, id process.ID) (done func(), err error)
	// Grace is the time between SIGTERM and SIGKILL when a check is ended because ctx is done; 0,
	// and more than five seconds, mean five.
	Grace time.Duration
	// Started, if not nil, is called with a function that ends the check that was started, whatever
	// time it was given to end before. What it returns is called when the check has ended.
	Started func(stop func(grace time.Duration)) (ended func() bool)
	// Start starts a check; nil means process.Start.
	Start func(process.Spec, func(process.ID) error) (Running, error)
	// SizePause is how often the size of what a check writes is looked at; zero means every ten
	// seconds.
	SizePause time.Duration
	// Each, if not nil, is called after every check.
	Each func(Result)
}

// Running is a check that runs; *process.Process is one.
type Running interface {
	Wait() process.Exit
	Stop(grace time.Duration)
}

// Run runs each check in each of its environments in a folder, one after the other. A check
// that fails or times out is a result, not an error; a check that cannot be started is an error.
// When ctx is done, the running check is ended with everything it started, and the error is that of
// ctx. If processes of a check do not end, the error is a *process.LeftError, whatever the check
// said. The results so far are always returned.
//
// The environment of a check is what Contain returns, then that of the Environment, then Env. Each
// check has a session of its own, even if Env sets one; processes that carry it are ended with the
// check.
func Run(ctx context.Context, dir string, checks []Check,
	opts Options) (results []Result, err error) {
	environments := opts.Environments
	if len(environments) == 0 {
		environments = []Environment{{}}
	}
	if opts.Register == nil {
		opts.Register = func(string, process.ID) (func(), error) { return nil, nil }
	}
	if opts.Start == nil {
		opts.Start = func(spec process.Spec, started func(process.ID) error) (Running, error) {
			return process.Start(spec, started)
		}
	}
	for _, check := range checks {
		for _, environment := range environments {
			if len(check.Environments) > 0 &&
				!slices.Contains(check.Environments, environment.Name) {
				continue
			}
			result, err := runCheck(ctx, dir, check, environment, &opts)
			if err != nil {
				return results, err
			}
			results = append(results, result)
			if opts.Each != nil {
				opts.Each(result)
			}
		}
	}
	return results, nil
}

func runCheck(ctx context.Context, dir string, check Check, environment Environment,
	opts *Options) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	session := checkSession()
	output := newClippedBuffer(outputLimit)
	contained := &contain.Program{Base: process.Environ()}
	if opts.Contain != nil {
		contained = opts.Contain(check, environment, session)
	}
	if err := contained.Prepare(); err != nil {
		return Result{}, fmt.Errorf("check %s: %w", check.Name, err)
	}
	defer contained.Clean() // files that stay are removed with the leftovers of a crew
	env := environment.environ(contained, opts.Env, session)
	spec := process.Spec{Argv: environment.argv(dir, check.Command), Dir: dir, Env: env,
		Stdout: output, Stderr: output, Grace: checkGrace,
		Sandbox: contained.Policy}
	done := func() {}
	began := time.Now()
	p, err := opts.Start(spec, func(id process.ID) error {
		registered, err := opts.Register(session, id)
		if registered != nil {
			done = registered
		}
		return err
	})
	if err != nil {
		return Result{}, fmt.Errorf("check %s: %w", check.Name, err)
	}
	var timedOut atomic.Bool
	timer := time.AfterFunc(check.timeout(), func() {
		timedOut.Store(true)
		p.Stop(checkGrace)
	})
	defer timer.Stop()
	defer context.AfterFunc(ctx,
		func() { p.Stop(min(checkGrace, cmp.Or(opts.Grace, checkGrace))) })()
	if opts.Started != nil {
		defer opts.Started(p.Stop)()
	}
	measuring, stop := context.WithCancel(ctx)
	defer stop()
	ended, tooLarge := make(chan struct{}), false
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-ended:
		case <-contained.WatchSize(measuring, cmp.Or(opts.SizePause, sizePause)):
			tooLarge = true
			p.Stop(checkGrace)
		}
	})
	exit := p.Wait()
	close(ended)
	watching.Wait()
	if left := (*process.LeftError)(nil); errors.As(exit.Err, &left) {
		go func() {
			<-left.Gone
			done()
		}()
		return Result{}, fmt.Errorf("check %s: %w", check.Name, left)
	}
	done()
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	if tooLarge {
		exit.Exceeded, exit.Code = "tree", cmp.Or(exit.Code, 1)
		if err := contained.EmptyHome(); err != nil {
			return Result{}, fmt.Errorf("check %s: %w", check.Name, err)
		}
	}
	if exit.Exceeded != "" && exit.Code != 0 {
		fmt.Fprintf(output, "\nsignalbox: it exceeded limits.%s\n", exit.Exceeded)
	}
	if exit.Err != nil {
		return Result{}, fmt.Errorf("check %s: %w", check.Name, exit.Err)
	}
	return Result{
		Check: check.Name, Environment: environment.Name, Exit: exit.Code, Passed: exit.Code == 0 &&
			!timedOut.Load(),
		TimedOut: timedOut.Load(), Duration: time.Since(began), Output: output.bytes(),
		Sandbox: contained.Policy,
	}, nil
}

// Prefix begins the names of the sessions of checks.
const Prefix = "check-"

// checkSession returns a new unique session.
func checkSession() string {
	random := make([]byte, 6)
	rand.Read(random) // never fails
	return Prefix + hex.EncodeToString(random)
}

func (c Check) timeout() time.Duration {
	if c.Timeout == 0 {
		return defaultCheckTimeout
	}
	return c.Timeout
}

func (e Environment) argv(dir, command string) (argv []string) {
	for _, argument := range e.Run {
		argv = append(argv, strings.ReplaceAll(argument, "{workspace}", dir))
	}
	return append(argv, "sh", "-c", command)
}

func (e Environment) environ(contained *contain.Program, extra []string, session string) []string {
	env := slices.Concat(contained.Base, contained.Env)
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		env = append(env, name+"="+e.Env[name])
	}
	return append(append(env, extra...), process.SessionVariable+"="+session)
}

// clippedBuffer keeps the beginning and the end of what is written to it, within a limit.
type clippedBuffer struct {
	limit   int
	head    []byte
	tail    []byte // a ring buffer once it is full
	next    int    // index of the next byte in the ring
	written int64
}

// clipMark replaces the omitted bytes. clipRoom has room for the longest number.
const clipMark = "\n[… %d bytes omitted …]\n"

const clipRoom = len(clipMark) + 20

func newClippedBuffer(limit int) *clippedBuffer { return &clippedBuffer{limit: limit} }

func (c *clippedBuffer) Write(p []byte) (int, error) {
	n := len(p)
	c.written += int64(n)
	if room := c.limit/2 - len(c.head); room > 0 {
		room = min(room, len(p))
		c.head, p = append(c.head, p[:room]...), p[room:]
	}
	size := c.limit - c.limit/2
	if len(p) > size {
		p = p[len(p)-size:]
	}
	if room := size - len(c.tail); room > 0 {
		room = min(room, len(p))
		c.tail, p = append(c.tail, p[:room]...), p[room:]
	}
	for len(p) > 0 {
		copied := copy(c.tail[c.next:], p)
		c.next, p = (c.next+copied)%size, p[copied:]
	}
	return n, nil
}

func (c *clippedBuffer) bytes() []byte {
	tail := append(append([]byte{}, c.tail[c.next:]...), c.tail[:c.next]...)
	if c.written <= int64(c.limit) {
		return append(append([]byte{}, c.head...), tail...)
	}
	tail = tail[clipRoom:] // for the mark
	omitted := c.written - int64(len(c.head)+len(tail))
	return append(fmt.Appendf(append([]byte{}, c.head...), clipMark, omitted), tail...)
}
