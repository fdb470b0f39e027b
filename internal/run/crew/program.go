package crew

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox"
	"signalbox/internal/contain"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/workspace"
	"signalbox/internal/text"
)

// runProgram starts the program, listens to it, and returns when it has ended.
func (r *turnRun) runProgram(ctx context.Context, values agent.Values) (*turn, error) {
	if r.command.Interactive {
		values.Prompt = dotTerminated(values.Prompt)
	}
	spec, cleanup, err := r.command.Build(values)
	defer cleanup()
	if err != nil {
		return nil, err
	}
	spec.Sandbox = r.contained.Policy
	left, _ := r.allowance()
	spec.Argv = append(spec.Argv, r.crew.costArguments(ctx, r.command, spec, left.CostMicros)...)
	l, err := newListener(r.agentRun, r.command.Format, r.command.Interactive, r.key)
	if err != nil {
		return nil, err
	}
	l.resumable, l.dir = r.command.Resume != nil, values.Dir
	defer l.close()
	r.socket.listening.Store(l)
	defer r.socket.listening.Store(nil)
	spec.Stdout, spec.Stderr, spec.Grace = l, l.stderr(), r.crew.box.Config.Grace
	began := time.Now()
	running, err := r.startProgram(ctx, spec)
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
	sup := r.supervise(running, l, cmp.Or(r.crew.opts.delays.linger, r.command.Linger))
	measuring, stop := context.WithCancel(ctx)
	defer stop()
	sup.tooLarge = r.contained.WatchSize(measuring, r.crew.opts.delays.size)
	r.contained.WatchLogins(measuring)
	sup.meter = &meter{run: r.agentRun, listener: l, prompt: len(values.Prompt), model: values.Model,
		thread: r.workItem().Task.Thread, env: spec.Env, contained: r.contained, began: began}
	if r.command.Format == signalbox.FormatOpencode { // it prints nothing about them
		dir := agent.StateDir(r.command.Format, spec.Env)
		sup.refusals = &agent.Refusals{Dir: dir, Workspace: values.Dir, Since: began}
		if _, private := r.contained.InHome(dir); private {
			sup.refusals.Home = r.contained.Home()
		}
	}
	t := &turn{listener: l, cause: sup.wait(ctx, r.remaining)}
	t.gaveUp, t.limit, t.cap, t.stoppedToWait = sup.gaveUp, sup.limit, sup.cap, sup.mustWait
	t.told = sup.told
	t.exit = running.Wait()
	if over := t.cause == rules.FailTimeout || t.cause == rules.FailStall; over && !t.exit.Stopped {
		t.cause, t.limit = "", "" // it had ended by itself when its time was over
	}
	t.loginRefused = r.renewLogins()
	if sup.exceeded {
		t.limit = r.exceededSize()
	}
	t.lingered = sup.lingered && t.exit.Stopped
	r.crew.unregister(r.id, t.exit.Err)
	t.took = time.Since(began)
	if err := l.finish(ctx, t); err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	left, _ = r.allowance()
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
func (r *turnRun) startProgram(ctx context.Context, spec process.Spec) (program, error) {
	delays := r.crew.opts.delays.start
	for try := 0; ; try++ {
		running, err := r.crew.start(spec,
			func(id process.ID) error { return r.crew.owner.Add(r.id, id) })
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
func (r *turnRun) renewLogins() (refused []string) {
	refused, err := r.contained.RenewLogins()
	if err != nil {
		r.crew.log.Warn("the login of an agent", "work", r.work, "error", err)
	}
	return refused
}

// contain returns what the session's agent may do in its workspace. The caller finishes it.
func (r *turnRun) contain() *contain.Program {
	dir := r.ws.dir
	p := r.crew.site.Agent(contain.Agent{Name: r.name, Config: r.configured, Role: string(r.role),
		Work: r.work, Temp: r.socket.temp, Dir: dir,
		Argv: r.command.Argv, Env: r.command.Env, Ports: r.crew.checks.Ports(dir), Diff: r.ws.diff,
		Cache: r.crew.checks.Cache(r.role)})
	for r.ws.tooLarge && p.TreeExceeds() {
		p.Limit *= 2 // so that the agent has time to clean it up
	}
	return p
}

// exceededSize describes what the program has written too much of, after it has ended, and removes
// it if that is its home folder.
func (r *turnRun) exceededSize() string {
	c := r.crew.box.Config
	if r.contained.TreeExceeds() {
		return tooLarge(c).Error()
	}
	if err := r.contained.EmptyHome(); err != nil {
		r.crew.log.Warn("cannot remove the home folder of an agent", "work", r.work, "error", err)
	}
	return fmt.Sprintf("its working copy, home folder and temporary files are larger than %s together (limits.tree)", c.Limits.Tree)
}
