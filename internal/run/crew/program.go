package crew

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/workspace"
	"signalbox/internal/text"
)

// runProgram starts the program, listens to it, and returns when it has ended.
func (s *session) runProgram(ctx context.Context, command agent.Command, key string,
	values agent.Values, contained *contain.Program, remaining time.Duration) (*turn, error) {
	if command.Interactive {
		values.Prompt = dotTerminated(values.Prompt)
	}
	spec, cleanup, err := command.Build(values)
	defer cleanup()
	if err != nil {
		return nil, err
	}
	spec.Sandbox = contained.Policy
	left, _ := s.allowance()
	spec.Argv = append(spec.Argv, s.crew.costArguments(ctx, command, spec, left.CostMicros)...)
	l, err := newListener(s, command.Format, command.Interactive, key)
	if err != nil {
		return nil, err
	}
	l.resumable, l.dir = command.Resume != nil, values.Dir
	defer l.close()
	s.listening.Store(l)
	defer s.listening.Store(nil)
	spec.Stdout, spec.Stderr, spec.Grace = l, l.stderr(), s.crew.box.Config.Grace
	began := time.Now()
	running, err := s.startProgram(ctx, spec)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		t := &turn{cause: rules.FailStart, advice: workspace.Explain(err), listener: l}
		if signalbox.CodeOf(err) != 0 && !process.Transient(err) { // it fails for every task
			t.cause, t.advice, t.remedy = rules.FailProgram, text.OneLine(err.Error()),
				signalbox.HintOf(err)
		}
		return t, nil
	}
	sup := s.supervise(running, l, cmp.Or(s.crew.opts.delays.linger, command.Linger))
	measuring, stop := context.WithCancel(ctx)
	defer stop()
	sup.tooLarge = contained.WatchSize(measuring, s.crew.opts.delays.size)
	contained.WatchLogins(measuring)
	sup.meter = &meter{session: s, listener: l, prompt: len(values.Prompt), model: values.Model,
		thread: s.workItem().Task.Thread, env: spec.Env, contained: contained, began: began}
	t := &turn{listener: l, cause: sup.wait(ctx, remaining)}
	t.gaveUp, t.limit, t.cap, t.stoppedToWait = sup.gaveUp, sup.limit, sup.cap, sup.mustWait
	t.exit = running.Wait()
	t.loginRefused = s.renewLogins(contained)
	if sup.exceeded {
		t.limit = s.exceededSize(contained)
	}
	t.lingered = sup.lingered && t.exit.Stopped
	s.crew.unregister(s.id, t.exit.Err)
	t.took = time.Since(began)
	if err := l.finish(ctx, t); err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	left, _ = s.allowance()
	t.used = sup.meter.measure(left)
	t.used.spent.Time = t.took.Round(time.Millisecond)
	if l.stream.Failed && l.stream.Error == budgetError { // the program knew its cap
		t.cap = sup.meter.submit(t.used)
	}
	return t, nil
}

// budgetError is the subtype of the result of claude if it has used what it may.
const budgetError = "error_max_budget_usd"

// startProgram starts the program. It retries a failure that may pass, such as too many open files.
func (s *session) startProgram(ctx context.Context, spec process.Spec) (program, error) {
	delays := s.crew.opts.delays.start
	for try := 0; ; try++ {
		running, err := s.crew.start(spec,
			func(id process.ID) error { return s.crew.owner.Add(s.id, id) })
		if err == nil || signalbox.CodeOf(err) != 0 && !process.Transient(err) ||
			try == len(delays) {
			return running, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(delays[try]):
		}
	}
}

// renewLogins copies the tokens that a program has renewed to the user's logins. It returns what
// was not copied.
func (s *session) renewLogins(contained *contain.Program) (refused []string) {
	refused, err := contained.RenewLogins()
	if err != nil {
		s.crew.log.Warn("the login of an agent", "work", s.work, "error", err)
	}
	return refused
}

// contain returns what the session's agent may do in its workspace. The caller finishes it.
func (s *session) contain(name string, configured config.Agent, command agent.Command,
	ws *sessionWorkspace) *contain.Program {
	p := s.crew.site.Agent(contain.Agent{Name: name, Config: configured, Role: string(s.role),
		Work: s.work, Temp: s.temp, Dir: ws.dir,
		Argv: command.Argv, Env: command.Env, Ports: s.crew.checks.Ports(ws.dir), Diff: ws.diff,
		Cache: s.crew.checks.Cache()})
	for ws.tooLarge && p.TreeExceeds() {
		p.Limit *= 2 // so that the agent has time to clean it up
	}
	return p
}

// exceededSize describes what a program has written too much of, after it has ended, and removes it
// if that is its home folder.
func (s *session) exceededSize(p *contain.Program) string {
	c := s.crew.box.Config
	if p.TreeExceeds() {
		return tooLarge(c).Error()
	}
	if err := p.EmptyHome(); err != nil {
		s.crew.log.Warn("cannot remove the home folder of an agent", "work", s.work, "error", err)
	}
	return fmt.Sprintf("its working copy, home folder and temporary files are larger than %s together (limits.tree)", c.Limits.Tree)
}
