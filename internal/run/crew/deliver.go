package crew

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/workspace"
	"signalbox/transcript"
)

// deliver has an agent do what the lease is for: turn after turn, until what it said moves the work, or it fails.
func (s *session) deliver(ctx context.Context) error {
	return s.inPlace(ctx, func(p place) error {
		left := s.crew.timeout(s.role, s.view().Task.Expert)
		last := lastTurn{conflicts: p.conflicts, disorder: p.disorder}
		for {
			began := time.Now()
			answer, outcome, err := s.turn(ctx, p, left, last)
			left -= time.Since(began)
			switch {
			case err != nil:
				return err
			case answer.Parked:
				if err := s.park(ctx); err != nil {
					return err
				}
				last = lastTurn{}
			case answer.Again:
				last = lastTurn{advice: outcome.advice, output: outcome.tail, again: true}
			default:
				return nil
			}
		}
	})
}

// lastTurn is what the turn before left for this one.
type lastTurn struct {
	conflicts []string
	disorder  string
	advice    string
	output    string
	again     bool
}

// ended is what came of one run of an agent's program.
type ended struct {
	exit  process.Exit
	cause rules.FailCause // "" if the program ended by itself
	// givenUp says that the program was ended because it never said anything that counts.
	givenUp bool
	said    signalbox.Signal
	heard   *hearer
	took    time.Duration
	output  signalbox.Hash
	advice  string
	// head and tail are how the output begins and ends.
	head, tail string
}

// turn runs the agent once and hands in what it said.
func (s *session) turn(ctx context.Context, p place, left time.Duration, last lastTurn) (rules.Answer, ended, error) {
	prompt, err := s.crew.prompt(ctx, s.role, s.work, p.dir, last)
	if err != nil {
		return rules.Answer{}, ended{}, err
	}
	digest, err := s.crew.box.Engine.PutBlob(ctx, bytes.NewReader(prompt))
	if err != nil {
		return rules.Answer{}, ended{}, err
	}
	name, command, err := s.crew.command(s.role, s.view().Task.Expert)
	if err != nil {
		return rules.Answer{}, ended{}, err
	}
	begun, err := s.crew.box.Engine.Do(ctx, rules.StartAgent{Session: s.id, Epoch: s.epoch, Agent: name, Prompt: digest})
	if err != nil {
		return rules.Answer{}, ended{}, lost(err)
	}
	s.begun = true
	e, err := s.runAgent(ctx, command, agent.Fill{
		Prompt: prompt, Dir: p.dir, Role: string(s.role), Task: s.work, Session: s.id, Model: s.crew.model(s.role, s.view().Task.Expert),
		ScratchDir: s.crew.file("tmp"), Env: s.environment(begun.Attempt),
	}, left)
	if err != nil {
		return rules.Answer{}, e, err
	}
	// What was done is kept before anything is said about it: whoever hears that it is ready must find it.
	err = s.persist(ctx, workspace.Disorderly, func() error { return p.after(context.WithoutCancel(ctx), fmt.Sprintf("%s: %s", s.work, s.role)) })
	if err != nil && !e.disorder(err) {
		return rules.Answer{}, e, err
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errLeaseLost) {
		return rules.Answer{}, e, context.Cause(ctx)
	}
	answer, err := s.handIn(&e)
	return answer, e, err
}

// disorder tells whether an error says that the agent left its tree so that only it can bring it into order: then it is told, and
// what it said does not count.
func (e *ended) disorder(err error) bool {
	if !workspace.Disorderly(err) {
		return false
	}
	e.said, e.heard.asks = signalbox.Signal{Name: signalbox.NameUnknown, Handler: signalbox.HandlerClarify}, nil
	e.advice = "What you left cannot be kept: " + detail(err) + "."
	return true
}

// environment is what an agent, and what it starts, is told about itself.
func (s *session) environment(attempt int) []string {
	return []string{
		"SIGNALBOX_SESSION=" + s.id, "SIGNALBOX_BOX=" + s.crew.box.Dir, "SIGNALBOX_ROLE=" + string(s.role),
		"SIGNALBOX_WORK=" + s.work, fmt.Sprintf("SIGNALBOX_EPOCH=%d", s.epoch), fmt.Sprintf("SIGNALBOX_ATTEMPT=%d", attempt),
	}
}

// runAgent runs the program to its end, or ends it: when it takes too long, stalls, hangs after its last word, or the session
// is over.
func (s *session) runAgent(ctx context.Context, command agent.Command, fill agent.Fill, left time.Duration) (ended, error) {
	if command.Interactive {
		fill.Prompt = dotted(fill.Prompt)
	}
	spec, cleanup, err := command.Build(fill)
	defer cleanup()
	if err != nil {
		return ended{}, err
	}
	h, err := newHearer(s, command.Format, command.Interactive)
	if err != nil {
		return ended{}, err
	}
	defer h.close()
	spec.Stdout, spec.Stderr, spec.Grace = h, h.stderr(), s.crew.box.Config.Grace
	began := time.Now()
	running, err := s.startAgent(ctx, spec)
	if err != nil {
		if ctx.Err() != nil {
			return ended{}, context.Cause(ctx)
		}
		return ended{cause: rules.FailStart, advice: detail(err), heard: h}, nil
	}
	o := &overseer{session: s, running: running, heard: h, linger: cmp.Or(s.crew.opts.pauses.linger, command.Linger)}
	e := ended{heard: h, cause: o.watch(ctx, left), givenUp: o.givenUp}
	e.exit = running.Wait()
	s.crew.owner.Forget(s.id)
	e.took = time.Since(began)
	if errors.Is(context.Cause(ctx), errInterrupted) {
		return e, context.Cause(ctx)
	}
	return e, h.finish(&e)
}

// startAgent starts the program, and tries again a little later when that fails for no lasting reason.
func (s *session) startAgent(ctx context.Context, spec process.Spec) (*process.Process, error) {
	pauses, start := s.crew.opts.pauses.start, process.Start
	if s.crew.opts.start != nil {
		start = s.crew.opts.start
	}
	for try := 0; ; try++ {
		running, err := start(spec, func(id process.ID) error { return s.crew.owner.Note(s.id, id) })
		classed := (*signalbox.Error)(nil)
		if err == nil || errors.As(err, &classed) && !process.Transient(err) || try == len(pauses) {
			return running, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pauses[try]):
		}
	}
}

// handIn gives the rules what the turn said.
func (s *session) handIn(e *ended) (rules.Answer, error) {
	turn := &rules.Turn{Exit: e.exit.Code, Output: e.output, Bytes: e.heard.bytes, Spent: e.heard.spent(e.took)}
	refusals := e.heard.refusals()
	name := e.said.Name
	until, limited := e.heard.limit(time.Now())
	verdict := e.cause == "" && name != signalbox.NameUnknown
	switch {
	case e.heard.waits: // it acted while the agent ran
		_, err := s.order(rules.EndTurn{Session: s.id, Epoch: s.epoch, Turn: *turn, Refused: refusals})
		return rules.Answer{Parked: true}, lost(err)
	case e.heard.asks != nil:
		return s.ask(e, rules.ReportSignal{Blob: e.output, Refused: refusals, Turn: turn})
	case !verdict && limited:
		_, err := s.order(rules.ReportFailure{Session: s.id, Epoch: s.epoch, Cause: rules.FailRateLimit, Until: until, Turn: turn})
		return rules.Answer{}, lost(err)
	case e.cause != "":
		_, err := s.order(rules.ReportFailure{Session: s.id, Epoch: s.epoch, Cause: e.cause, Detail: e.advice, Turn: turn})
		return rules.Answer{}, lost(err)
	case name == signalbox.NameUnknown && !e.givenUp && (e.exit.Code != 0 || e.exit.Signal != ""):
		_, err := s.order(rules.ReportFailure{Session: s.id, Epoch: s.epoch, Cause: rules.FailCrash, Detail: e.crash(), Turn: turn})
		return rules.Answer{}, lost(err)
	case e.said.Dialect == signalbox.DialectExit:
		answer, err := s.order(rules.Exit{Session: s.id, Epoch: s.epoch, Signal: *e.said.Exit, Blob: e.output, Offset: e.said.Offset, Turn: turn})
		if moved := (*rules.RefusedError)(nil); errors.As(err, &moved) && moved.Reason != signalbox.ReasonStaleLease {
			e.advice = moved.Msg // it moved nothing, so the turn said nothing that counts
			answer, err = s.order(rules.ReportSignal{Session: s.id, Epoch: s.epoch, Signal: signalbox.NameUnknown, Blob: e.output,
				Fields: rules.SignalFields{Summary: e.head, Advice: moved.Msg}, Refused: refusals, Turn: turn})
		}
		return answer, lost(err)
	}
	hear := rules.ReportSignal{Session: s.id, Epoch: s.epoch, Signal: name, Named: e.said.TaskID, Blob: e.output, Offset: e.said.Offset, Refused: refusals, Turn: turn}
	if hear.Signal == signalbox.NameUnknown {
		hear.Fields = rules.SignalFields{Summary: e.head, Advice: e.advice}
	} else if err := s.describe(&hear, e.said); err != nil {
		return rules.Answer{}, err
	}
	answer, err := s.order(hear)
	return answer, lost(err)
}

// ask hands in a request to an expert. What the agent did is kept by then, so the expert finds it.
func (s *session) ask(e *ended, hear rules.ReportSignal) (rules.Answer, error) {
	sig := *e.heard.asks
	hear.Session, hear.Epoch, hear.Signal, hear.Named, hear.Offset = s.id, s.epoch, sig.Name, sig.TaskID, sig.Offset
	if err := s.describe(&hear, sig); err != nil {
		return rules.Answer{}, err
	}
	answer, err := s.order(hear)
	return answer, lost(err)
}

// crash says how the program ended, for people.
func (e *ended) crash() string {
	text := fmt.Sprintf("exit status %d", e.exit.Code)
	if e.exit.Signal != "" {
		text = "ended by " + e.exit.Signal
	}
	if e.heard.report.Error != "" {
		text += ": " + e.heard.report.Error
	} else if e.heard.errors.Len() > 0 {
		text += ": " + lastLine(e.heard.errors.String())
	}
	return text
}

// describe puts into a hearing what the signal's body says.
func (s *session) describe(hear *rules.ReportSignal, said signalbox.Signal) error {
	text, err := json.Marshal(said)
	if err != nil {
		return err
	}
	if hear.Body, err = s.crew.put(text); err != nil {
		return err
	}
	hear.Fields, err = s.crew.said(said)
	return err
}

func (c *Crew) put(text []byte) (signalbox.Hash, error) {
	ctx, cancel := context.WithTimeout(context.Background(), orderTime)
	defer cancel()
	return c.box.Engine.PutBlob(ctx, bytes.NewReader(text))
}

// resolve picks what the turn said. What acts while the agent runs is no verdict.
func resolve(signals []signalbox.Signal, role signalbox.Role, work string) signalbox.Signal {
	var verdicts []signalbox.Signal
	var at []int
	for i := range signals {
		row, known := signalbox.LineSignalNamed(signals[i].Name)
		if urgent := known && row.Urgent && signals[i].Taken(); urgent {
			signals[i].Refused = transcript.Restrict(signals[i], role, work)
			continue
		}
		verdicts, at = append(verdicts, signals[i]), append(at, i)
	}
	said := transcript.Resolve(verdicts, role, work)
	for j, i := range at {
		signals[i] = verdicts[j]
	}
	if said.Dialect == signalbox.DialectTurn {
		return signalbox.Signal{Name: signalbox.NameUnknown, Handler: signalbox.HandlerClarify}
	}
	return said
}
