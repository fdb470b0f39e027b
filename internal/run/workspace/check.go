package workspace

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"signalbox/internal/process"
)

const (
	defaultCheckTimeout = 10 * time.Minute
	// checkGrace is how long a check has to end when it is told to.
	checkGrace = 5 * time.Second
	// outputLimit is how much of a check's output is kept.
	outputLimit = 256 << 10
)

// Check is a command that a workspace must pass.
type Check struct {
	Name string
	// Command is for sh.
	Command string
	// Timeout is how long it may take; zero is ten minutes.
	Timeout time.Duration
	// Environments are the names of those in which it runs; empty is all.
	Environments []string
}

// Environment is where checks run.
type Environment struct {
	Name string
	// Run is a program with arguments, after which sh, -c and the command of the check are put, such as docker run --rm -v
	// {workspace}:/w -w /w golang. {workspace} is replaced by the folder. Empty is here.
	Run []string
	// Env is set in the environment of what is started.
	Env map[string]string
}

// CheckResult is how a check ended in an environment.
type CheckResult struct {
	Check, Environment string
	// Exit is the exit status; 128 and the number if a signal ended it.
	Exit     int
	Passed   bool
	TimedOut bool
	Duration time.Duration
	// Output is what it wrote. If that is too long, it is the beginning and the end with a mark in between, at most 256 KiB.
	Output []byte
}

// RunChecks runs each check in each of its environments in a folder, one after the other and in order, and reports each as
// it ends; each may be nil. Without environments there is one, without a name, which is here. A check that fails, or takes
// too long, is a result and no error; one whose program cannot be started is an error. When ctx ends, so does the check
// that runs, with all that it started, and the error is ctx's. The results so far are always returned.
//
// Checks see the environment of this process without what is signalbox's own, then that of the Environment, then extraEnv.
// Each is a session of its own, whatever extraEnv says: what carries a check's session is ended with it.
//
// Noted, if not nil, gets the identity of each check, and its session, before it begins, so that it can be found if this
// process is killed; over, which may be nil, is called when the check has ended.
func RunChecks(ctx context.Context, dir string, checks []Check, environments []Environment, extraEnv []string,
	noted func(session string, id process.ID) (over func(), err error), each func(CheckResult)) (results []CheckResult, err error) {
	if len(environments) == 0 {
		environments = []Environment{{}}
	}
	if noted == nil {
		noted = func(string, process.ID) (func(), error) { return nil, nil }
	}
	for _, check := range checks {
		for _, environment := range environments {
			if len(check.Environments) > 0 && !slices.Contains(check.Environments, environment.Name) {
				continue
			}
			result, err := runCheck(ctx, dir, check, environment, extraEnv, noted)
			if err != nil {
				return results, err
			}
			results = append(results, result)
			if each != nil {
				each(result)
			}
		}
	}
	return results, nil
}

func runCheck(ctx context.Context, dir string, check Check, environment Environment, extraEnv []string,
	noted func(string, process.ID) (func(), error)) (CheckResult, error) {
	if err := ctx.Err(); err != nil {
		return CheckResult{}, err
	}
	session := checkSession()
	output := newClipped(outputLimit)
	spec := process.Spec{Argv: environment.argv(dir, check.Command), Dir: dir, Env: environment.environ(extraEnv, session),
		Stdout: output, Stderr: output, Grace: checkGrace}
	var over func()
	began := time.Now()
	p, err := process.Start(spec, func(id process.ID) (err error) {
		over, err = noted(session, id)
		return err
	})
	if err != nil {
		return CheckResult{}, fmt.Errorf("check %s: %w", check.Name, err)
	}
	if over != nil {
		defer over()
	}

	var timedOut atomic.Bool
	timer := time.AfterFunc(check.timeout(), func() {
		timedOut.Store(true)
		p.Stop(checkGrace)
	})
	defer timer.Stop()
	defer context.AfterFunc(ctx, func() { p.Stop(checkGrace) })()
	exit := p.Wait()
	if err := ctx.Err(); err != nil {
		return CheckResult{}, err
	}
	if exit.Err != nil {
		return CheckResult{}, fmt.Errorf("check %s: %w", check.Name, exit.Err)
	}
	return CheckResult{
		Check: check.Name, Environment: environment.Name, Exit: exit.Code, Passed: exit.Code == 0 && !timedOut.Load(),
		TimedOut: timedOut.Load(), Duration: time.Since(began), Output: output.bytes(),
	}, nil
}

// checkSession is a session that nothing else has.
func checkSession() string {
	random := make([]byte, 6)
	rand.Read(random) // never fails
	return "check-" + hex.EncodeToString(random)
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

func (e Environment) environ(extra []string, session string) []string {
	env := process.Environ()
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		env = append(env, name+"="+e.Env[name])
	}
	return append(append(env, extra...), process.SessionVariable+"="+session)
}

// clipped keeps the beginning and the end of what is written to it, and never more than its limit.
type clipped struct {
	limit   int
	head    []byte
	tail    []byte // a ring, once it is full
	next    int    // where in the ring the next byte goes
	written int64
}

// clipMark stands for what is left out; it leaves room for the longest number.
const clipMark = "\n[… %d bytes left out …]\n"

const clipRoom = len(clipMark) + 20

func newClipped(limit int) *clipped { return &clipped{limit: limit} }

func (c *clipped) Write(p []byte) (int, error) {
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

func (c *clipped) bytes() []byte {
	tail := append(append([]byte{}, c.tail[c.next:]...), c.tail[:c.next]...)
	if c.written <= int64(c.limit) {
		return append(append([]byte{}, c.head...), tail...)
	}
	tail = tail[clipRoom:] // for the mark
	left := c.written - int64(len(c.head)+len(tail))
	return append(fmt.Appendf(append([]byte{}, c.head...), clipMark, left), tail...)
}
