package crew

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/contain"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/agentsocket"
	"signalbox/internal/run/turnprompt"
	"signalbox/internal/run/workspace"
	"signalbox/internal/team"
	"signalbox/internal/text"
	"signalbox/internal/tree/treeruns"
	"signalbox/transcript"
)

// maxSteering is how many files that steer agents are recorded, and named to an agent.
const maxSteering = 50

// lastTurn is what the next prompt says about the previous turn.
type lastTurn struct {
	cleanupNote string
	advice      string
	output      string
	again       bool
	progressed  bool // it had signals, but no result
	parked      bool
	// noResume means that a new session of the program must be started.
	noResume bool
	// steering are the files of the folder that are as on the base, and not as in the commit.
	steering []string
}

// turn is the result of one run of an agent's program.
type turn struct {
	exit  process.Exit
	cause rules.FailCause // why signalbox ended the program; "" if it ended by itself
	// lingered reports that signalbox ended the program after the end of its turn. Its exit status
	// means nothing then.
	lingered bool
	// progressed reports that the turn only has signals that acted while it ran.
	progressed bool
	// stoppedToWait reports that the program was to end because the agent must wait for what it
	// asked for.
	stoppedToWait bool
	// gaveUp reports that the program was ended because it kept sending no valid signal.
	gaveUp bool
	limit  string    // the limit that it exceeded, for people
	cap    rules.Cap // the limit that ended the program
	used   measured
	signal signalbox.Signal // what the turn says
	// submitted is the JSON of signal if the agent submitted it over its socket.
	submitted []byte
	listener  *listener
	took      time.Duration
	commit    string // what the agent changed; "" if it has no branch
	output    signalbox.Hash
	advice    string
	remedy    string // what a person can do if the program cannot be started
	// loginRefused are changes to the copy of the program's login that were not copied to the
	// user's file.
	loginRefused []string
	// head and tail are the start and the end of the agent's own text.
	head, tail string
}

// ending is what the end of a turn means for its session.
type ending int

const (
	endReported    ending = iota // the rules decide about what it said
	endInterrupted               // the session is being ended, whatever the turn said
	endCapped                    // a cap ended it
	// signalbox ended the program with the lease, which is not a failure to report
	endLeaseLost
	// the program did not continue its session, so a new one is started
	endNotResumed
)

// ending returns what the end of a turn means. over is why the session is being ended; nil if it is
// not. resumed means that the program was to continue its session.
func (t *turn) ending(over error, resumed bool) ending {
	_, crashed := t.crashed()
	lost := errors.Is(over, errLeaseLost)
	switch {
	case over != nil && !lost:
		return endInterrupted
	case t.cap != "" && !t.listener.parked && t.signal.Name != signalbox.NameExpertRequest:
		return endCapped
	case lost && (crashed || t.signal.Name == signalbox.NameUnknown):
		return endLeaseLost
	case resumed && t.didNotResume():
		return endNotResumed
	}
	return endReported
}

// runTurn runs the agent's program once, saves what it changed, and reports what it said to the
// rules.
func (s *session) runTurn(ctx context.Context, ws *sessionWorkspace, remaining time.Duration,
	last lastTurn) (rules.Answer, *turn, error) {
	t, resumed, err := s.startTurn(ctx, ws, remaining, last)
	if err != nil {
		return rules.Answer{}, nil, err
	}
	// whatever the turn said, and whatever is in its working copy
	if left := leftBy(t.exit.Err); left != nil {
		ended := t.result()
		s.unreported = &ended
		return rules.Answer{}, nil, left
	}
	// Save before reporting, so that the work is there when others read that it is ready.
	if err := s.saveTurn(ctx, ws, t); err != nil {
		return rules.Answer{}, nil, err
	}
	over := context.Cause(ctx)
	switch t.ending(over, resumed) {
	case endInterrupted:
		if err := s.recordInterruption(t); err != nil && !errors.Is(err, errLeaseLost) {
			s.crew.log.Warn("cannot record an interrupted turn", "work", s.work, "error", err)
		}
		return rules.Answer{}, nil, over
	case endCapped:
		return rules.Answer{}, t, s.recordInterruption(t)
	case endLeaseLost:
		return rules.Answer{}, nil, errLeaseLost
	case endNotResumed:
		_, err := s.submit(rules.EndTurn{Session: s.id, Epoch: s.epoch, Turn: t.result()})
		return rules.Answer{}, t, errors.Join(asLeaseLost(err), errNotResumed)
	}
	answer, err := s.report(t)
	return answer, t, err
}

// saveTurn saves and publishes what an author changed. If only an agent can make that possible, the
// turn says so.
func (s *session) saveTurn(ctx context.Context, ws *sessionWorkspace, t *turn) error {
	err := s.retry(ctx, workspace.NeedsAgent, func() (err error) {
		if t.commit, err = ws.save(context.WithoutCancel(ctx), s.saveMessage(t)); err != nil {
			return err
		}
		if err = s.crew.exchange.PublishSaved(ctx, s.work, t.commit); err != nil &&
			ctx.Err() != nil {
			t.commit, err = "", nil // it stays here, and the turn is recorded without it
		}
		return err
	})
	if !workspace.NeedsAgent(err) {
		return err
	}
	if t.cause == "" { // otherwise the next agent is told what to clean up
		t.rejectWorkspace(err)
	}
	return nil
}

// startTurn runs the agent's program once, with the prompt of the turn. resumed reports whether the
// program was to continue its session.
func (s *session) startTurn(ctx context.Context, ws *sessionWorkspace, remaining time.Duration,
	last lastTurn) (t *turn, resumed bool, err error) {
	name := s.agentName()
	configured := s.crew.box.Config.AgentNamed(name)
	command, err := agent.CommandFor(s.role, configured)
	if err != nil {
		return nil, false, err
	}
	if ws.steer != nil { // before each turn: what the agent tries out can change files
		if last.steering, err = ws.steer(ctx); err != nil {
			return nil, false, err
		}
	}
	key := s.crew.newKey()
	thread := s.resumable(ctx, ws, name, command, last)
	var prompt []byte
	err = s.crew.box.Engine.WhenAvailable(ctx, func() (err error) {
		prompt, s.told, err = s.crew.prompts.Build(ctx, turnprompt.Turn{Role: s.role, Work: s.work,
			Key: key,
			Dir: ws.dir, Diff: ws.diff, Steering: firstSteering(last.steering),
			CleanupNote: last.cleanupNote,
			Again:       last.again, Progressed: last.progressed, Output: last.output,
			Advice: showKey(last.advice, key), Resumed: thread != "", Parked: last.parked})
		return err
	})
	if err != nil {
		return nil, false, err
	}
	digest, err := s.put([]byte(hideKey(string(prompt), key)))
	if err != nil {
		return nil, false, err
	}
	contained := s.contain(name, configured, command, ws)
	finish := sync.OnceFunc(func() { s.finish(name, contained) })
	defer finish()
	recorded, err := s.job().Recorded(contained.Policy)
	if err != nil {
		return nil, false, err
	}
	if err := contained.Prepare(); err != nil {
		return nil, false, err
	}
	defer s.renewLogins(contained) // if the program does not start
	started, err := s.crew.box.Engine.DoPatiently(ctx, nil,
		rules.StartAgent{Session: s.id, Epoch: s.epoch, Agent: name, Prompt: digest,
			Sandbox: recorded, Resumes: thread, Format: command.Format})
	if err != nil {
		return nil, false, asLeaseLost(err)
	}
	s.started = true
	t, err = s.runProgram(ctx, command, key, agent.Values{
		Prompt: prompt, Dir: ws.dir, Start: s.startFolder(command, contained), Role: string(s.role),
		Task: s.work, Session: s.id, Model: configured.Model, Resume: thread,
		ScratchDir: s.temp, Base: contained.Base,
		Env: slices.Concat(contained.Env, s.environment(started.Attempt, ws)),
	}, contained, remaining)
	finish()
	if err != nil {
		// what the agent changed is kept, although its turn cannot be recorded
		if errors.Is(err, journal.ErrUnavailable) {
			_, saveErr := ws.save(context.WithoutCancel(ctx), s.work+
				": changes of an interrupted agent")
			err = errors.Join(err, saveErr)
		}
		return nil, false, err
	}
	return t, thread != "", nil
}

// environment tells the agent, and the programs it starts, who it is.
func (s *session) environment(attempt int, ws *sessionWorkspace) []string {
	all := []string{
		"SIGNALBOX_SESSION=" + s.id, "SIGNALBOX_BOX=" + s.crew.box.Dir,
		"SIGNALBOX_ROLE=" + string(s.role),
		"SIGNALBOX_SECRET=" + s.secret, "SIGNALBOX_WORK=" + s.work,
		fmt.Sprintf("SIGNALBOX_EPOCH=%d", s.epoch),
		fmt.Sprintf("SIGNALBOX_ATTEMPT=%d", attempt),
		agentsocket.Variable + "=" + s.socket,
		"GIT_NO_REPLACE_OBJECTS=1", // a reviewer's git shows the commits as they are
	}
	if ws.diff != "" {
		all = append(all, DiffVariable+"="+ws.diff)
	}
	if copied := s.crew.box.Config.Team; copied != "" {
		all = append(all, team.Variable+"="+copied)
	}
	return all
}

// startFolder returns the folder in which a program that judges is started if that must not be its
// workspace: its home folder, which is new. It is "" if the program can start in its workspace.
func (s *session) startFolder(command agent.Command, contained *contain.Program) string {
	if s.role.IsAuthor() || !command.Elsewhere {
		return ""
	}
	return contained.Home()
}

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

// renewLogins copies the tokens that a program has renewed to the user's logins. It returns what
// was not copied.
func (s *session) renewLogins(contained *contain.Program) (refused []string) {
	refused, err := contained.RenewLogins()
	if err != nil {
		s.crew.log.Warn("the login of an agent", "work", s.work, "error", err)
	}
	return refused
}

// budgetError is the subtype of the result of claude if it has used what it may.
const budgetError = "error_max_budget_usd"

// recordInterruption records the output and the cost of a turn that the end of the run or a cap cut
// short. Its signals do not count: the work is released, and what the agent changed stays in its
// working copy.
func (s *session) recordInterruption(t *turn) error {
	ended := t.result()
	ended.Interrupted, ended.Cap = true, t.cap
	_, err := s.submit(rules.EndTurn{Session: s.id, Epoch: s.epoch, Turn: ended})
	return asLeaseLost(err)
}

// result returns what the rules record of the turn.
func (t *turn) result() rules.Turn {
	return rules.Turn{Exit: t.exit.Code, Output: t.output, Bytes: t.listener.bytes,
		Spent: t.used.spent, InputTokens: t.used.input, OutputTokens: t.used.output,
		Commit:    t.commit,
		Estimated: t.used.estimated, Model: t.used.model, Thread: t.used.thread,
		LoginRefused: t.loginRefused}
}

// finish removes what was only for one start of the agent's program. Recorded runs of trees are
// kept.
func (s *session) finish(name string, contained *contain.Program) {
	if !s.role.IsAuthor() {
		if err := treeruns.Keep(s.crew.box.Dir, s.work,
			contain.AgentHome(string(s.role), name)); err != nil {
			s.crew.log.Warn("cannot keep the recorded runs of trees", "work", s.work, "error", err)
		}
	}
	if err := contained.Finish(); err != nil {
		s.crew.log.Warn("cannot remove the home folder of an agent", "work", s.work, "error", err)
	}
}

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

// rejectWorkspace replaces what the turn said. The agent left its worktree in a state that only an
// agent can clean up, and must do that first.
func (t *turn) rejectWorkspace(err error) {
	t.signal, t.progressed = signalbox.Signal{Name: signalbox.NameUnknown,
		Handler: signalbox.HandlerClarify}, false
	t.advice = "Your changes cannot be saved: " + workspace.Explain(err) + "."
}

// report tells the rules how the turn ended and what it said.
func (s *session) report(t *turn) (rules.Answer, error) {
	l := t.listener
	result := t.result()
	ended := &result
	ended.Messages = s.told
	refusals := l.refusals(t.signal)
	name := t.signal.Name
	failure, crashed := t.crashed()
	until, limited := l.rateLimit(time.Now())
	trouble, message := t.trouble()
	limited = limited || trouble == agent.TroubleLimit
	hasVerdict := t.cause == "" && name != signalbox.NameUnknown && !crashed
	fail := func(f rules.ReportFailure) (rules.Answer, error) {
		ended.Messages = nil // the next agent gets them
		f.Session, f.Epoch, f.Turn = s.id, s.epoch, ended
		_, err := s.submit(f)
		return rules.Answer{}, asLeaseLost(err)
	}
	report := rules.ReportSignal{Session: s.id, Epoch: s.epoch, Blob: t.output, Refused: refusals,
		Turn: ended}
	switch {
	case l.parked: // the signal was reported while the agent ran
		_, err := s.submit(rules.EndTurn{Session: s.id, Epoch: s.epoch, Turn: *ended,
			Refused: refusals})
		return rules.Answer{Parked: true}, asLeaseLost(err)
	case name == signalbox.NameExpertRequest: // signalbox ends an agent that keeps running
		return s.reportSignal(report, t.signal)
	case !hasVerdict && limited:
		return fail(rules.ReportFailure{Cause: rules.FailRateLimit, Until: until})
	case !hasVerdict && trouble != "":
		configured := s.crew.box.Config.AgentNamed(s.agentName())
		return fail(rules.ReportFailure{Cause: rules.FailCause(trouble),
			Detail: hideKey(message, l.key),
			Advice: agent.Advice(configured.Preset, configured.BaseURL, trouble)})
	case t.cause == rules.FailProgram:
		return fail(rules.ReportFailure{Cause: t.cause, Detail: t.advice, Advice: t.remedy})
	case t.cause != "":
		return fail(rules.ReportFailure{Cause: t.cause, Detail: t.advice})
	case crashed:
		return fail(rules.ReportFailure{Cause: rules.FailCrash, Detail: t.describeCrash(failure)})
	case t.progressed && s.mayContinue():
		_, err := s.submit(rules.EndTurn{Session: s.id, Epoch: s.epoch, Turn: *ended,
			Refused: refusals})
		return rules.Answer{Again: true}, asLeaseLost(err)
	case name == signalbox.NameUnknown:
		t.progressed = false
		return s.reportUnknown(report, t)
	case t.signal.Dialect == signalbox.DialectExit:
		exit, err := s.exit(t)
		if err != nil {
			return rules.Answer{}, err
		}
		exit.Turn, exit.Refused = ended, refusals
		answer, err := s.submit(*exit)
		if refused := (*rules.RefusedError)(nil); errors.As(err, &refused) &&
			refused.Reason != signalbox.ReasonStaleLease {
			t.advice = refused.Msg
			return s.reportUnknown(report, t)
		}
		return answer, asLeaseLost(err)
	}
	if advice := missingFindings(t.signal); advice != "" {
		t.advice = advice
		return s.reportUnknown(report, t)
	}
	if t.signal.Exit != nil {
		var err error
		if report.Exit, err = s.exit(t); err != nil {
			return rules.Answer{}, err
		}
	}
	return s.reportSignal(report, t.signal)
}

// exit returns the command for the turn's exit signal, and stores what it refers to.
func (s *session) exit(t *turn) (*rules.Exit, error) {
	exit := &rules.Exit{Session: s.id, Epoch: s.epoch, Signal: *t.signal.Exit, Blob: t.output}
	for _, sig := range t.listener.signals {
		if sig.Exit == t.signal.Exit {
			exit.Offset = sig.Offset
		}
	}
	var err error
	if t.submitted != nil {
		if exit.Blob, err = s.put(t.submitted); err != nil {
			return nil, err
		}
	}
	if notes, _ := rules.LongNotes(t.signal.Exit); notes != nil {
		exit.Notes, err = s.put(notes)
	}
	return exit, err
}

// missingFindings returns what to tell a reviewer who rejects work without a reason, "" if there is
// a reason. A developer could do nothing with it.
func missingFindings(sig signalbox.Signal) string {
	switch sig.Name {
	case signalbox.NameReviewFailed, signalbox.NameAuditFailed:
		if len(sig.Body) == 0 && strings.TrimSpace(sig.Title) == "" {
			row, _ := signalbox.LineSignalNamed(sig.Name)
			return fmt.Sprintf("%s has no findings. Send it again and list what must be fixed below it, as `Issues Found:` and a list.", row.Text)
		}
	}
	return ""
}

// reportSignal reports a signal with its body.
func (s *session) reportSignal(report rules.ReportSignal,
	sig signalbox.Signal) (rules.Answer, error) {
	report.Signal, report.Named, report.Offset = sig.Name, sig.TaskID, sig.Offset
	if err := s.addBody(&report, sig); err != nil {
		return rules.Answer{}, err
	}
	answer, err := s.submit(report)
	return answer, asLeaseLost(err)
}

// reportUnknown reports that the turn had no valid signal.
func (s *session) reportUnknown(report rules.ReportSignal, t *turn) (rules.Answer, error) {
	report.Signal, report.Fields = signalbox.NameUnknown,
		rules.SignalFields{Summary: t.head, Advice: t.advice,
			Confirm: t.signal.Refused == signalbox.ReasonTextAfter}
	answer, err := s.submit(report)
	return answer, asLeaseLost(err)
}

// addBody stores the signal and extracts what the rules need from its body.
func (s *session) addBody(report *rules.ReportSignal, sig signalbox.Signal) error {
	text, err := json.Marshal(sig)
	if err != nil {
		return err
	}
	if report.Body, err = s.put(text); err != nil {
		return err
	}
	report.Fields, err = extract(sig, s.put)
	return err
}

// failure returns how the turn failed, or "" if it did not. A failed turn has no passing verdict:
// whatever ended the agent may have written the verdict in its name. A failing verdict still
// counts, because the worst that a false one does is to cost another attempt.
func (t *turn) failure() string {
	stream := &t.listener.stream
	switch {
	case t.exit.Signal != "" && t.exit.Exceeded != "":
		return "ended because it exceeded limits." + t.exit.Exceeded
	case t.exit.Signal != "" && !t.lingered:
		return "ended by " + t.exit.Signal
	case t.exit.Code != 0 && !t.lingered && !t.listener.interactive && t.exit.Exceeded != "":
		return fmt.Sprintf("exit status %d; it exceeded limits.%s", t.exit.Code, t.exit.Exceeded)
	case t.exit.Code != 0 && !t.lingered &&
		!t.listener.interactive: // an interactive program ends when its input does, in any way
		return fmt.Sprintf("exit status %d", t.exit.Code)
	case t.exit.Err != nil:
		return t.exit.Err.Error()
	case stream.Failed:
		return "reported a failure"
	case t.signal.Passing() && stream.Format != signalbox.FormatPlain &&
		!stream.Ended: // a plain turn ends with the stream
		return "did not report the end of its turn"
	}
	return ""
}

// crashed reports whether the turn failed and has no verdict that counts nevertheless, and how it
// failed.
func (t *turn) crashed() (failure string, crashed bool) {
	failure = t.failure()
	// signalbox ends a program that it gives up
	unknown := t.signal.Name == signalbox.NameUnknown && !t.gaveUp
	return failure, failure != "" && (t.signal.Passing() || unknown)
}

// trouble returns why the program could not work, whatever its task, and what it said about that;
// "" if it could. Only the program's own word counts: the error that ended its turn, the last line
// of its standard error if it failed, or what it kept trying until it was ended. A model or a tool
// may write anything.
func (t *turn) trouble() (agent.Trouble, string) {
	stream := &t.listener.stream
	format := stream.Format
	if format == signalbox.FormatAuto || format == "" {
		format = t.listener.format
	}
	status, message := 0, ""
	switch {
	case t.cause == rules.FailTimeout || t.cause == rules.FailStall:
		message = stream.Retrying
	case t.cause != "" || t.limit != "" || t.exit.Signal != "" && !t.lingered:
	case stream.Failed:
		status, message = stream.ErrorStatus, stream.Error
	case t.exit.Code != 0 && !stream.Ended && !t.lingered:
		message = text.LastLine(t.listener.errors.String())
	}
	if message = text.OneLine(message); message == "" && status == 0 {
		return "", ""
	}
	trouble := agent.Diagnose(format, status, message)
	if trouble == agent.TroubleServer && t.exit.Unreachable != "" {
		// The program knows only that it got no answer.
		message += " (" + text.OneLine(t.exit.Unreachable) + ")"
	}
	return trouble, message
}

// describeCrash describes a failure for people: the verdict that does not count because of it, and
// what the program said about it.
func (t *turn) describeCrash(failure string) string {
	if t.signal.Passing() {
		said := "an exit signal"
		if row, known := signalbox.LineSignalNamed(t.signal.Name); known {
			said = row.Text
		}
		failure += " after " + said
	}
	if t.listener.stream.Error != "" {
		failure += ": " + t.listener.stream.Error
	} else if said := lastLines(t.listener.errors.String()); said != "" {
		failure += ": " + said
	}
	return hideKey(failure, t.listener.key)
}

// resolve picks the signal that decides the turn. Checkpoints and requests for files have acted
// while the agent ran, and are not a result.
func resolve(signals []signalbox.Signal, role signalbox.Role, work string) signalbox.Signal {
	decisive := transcript.Resolve(signals, role, work)
	switch {
	case decisive.Dialect == signalbox.DialectTurn, isProgress(decisive):
		decisive = signalbox.Signal{Name: signalbox.NameUnknown, Handler: signalbox.HandlerClarify}
	}
	if decisive.Name == signalbox.NameUnknown && decisive.Refused == "" {
		decisive.Detail = adviceFor(signals, role, work)
	}
	return decisive
}
