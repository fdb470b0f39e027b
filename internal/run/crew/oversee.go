package crew

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/prompts"
)

// overseer watches over a program that runs.
type overseer struct {
	session *session
	running *process.Process
	heard   *hearer
	linger  time.Duration

	lingered <-chan time.Time // then it is ended, and that is no failure
	givenUp  bool             // it was ended since it does not learn
}

// watch waits for the program to end and ends it if need be; it returns why it had to.
func (o *overseer) watch(ctx context.Context, left time.Duration) rules.FailCause {
	over := make(chan struct{})
	go func() {
		o.running.Wait()
		close(over)
	}()
	config := o.session.crew.box.Config
	timeout := time.NewTimer(left)
	defer timeout.Stop()
	stalled := config.RoleOf(o.session.role).Checkpoint * time.Duration(config.Limits.CheckpointsMissed)
	stall := time.NewTimer(stalled)
	defer stall.Stop()
	if stalled <= 0 {
		stall.Stop()
	}
	for {
		select {
		case <-over:
			return ""
		case <-ctx.Done():
			o.running.Stop(config.Grace)
			return ""
		case <-timeout.C:
			o.running.Stop(config.Grace)
			return rules.FailTimeout
		case <-stall.C:
			o.running.Stop(config.Grace)
			return rules.FailStall
		case <-o.heard.checkpointed:
			if stalled > 0 {
				stall.Reset(stalled)
			}
		case <-o.heard.turnOver:
			if cause := o.turnOver(ctx, over); cause != "" {
				o.running.Stop(config.Grace)
				return cause
			}
		case <-o.heard.parked: // it has said what it needs, and waits; a program cannot
			o.running.CloseInput()
			o.lingered = time.After(o.session.crew.opts.pauses.park)
		case <-o.lingered:
			o.running.Stop(config.Grace)
			return ""
		}
	}
}

// turnOver is what follows when the stream says that the turn is over. A program that can be talked to is asked again if
// it said nothing that counts; otherwise it has a little time to end.
func (o *overseer) turnOver(ctx context.Context, over <-chan struct{}) rules.FailCause {
	if o.heard.interactive {
		if counts, said := o.heard.verdict(); !counts {
			return o.askAgain(ctx, over, said)
		}
		o.running.CloseInput()
	}
	if o.linger > 0 && o.lingered == nil {
		o.lingered = time.After(o.linger)
	}
	return ""
}

// askAgain asks a running agent for a checkpoint, to see whether it hears, and then for its signal. One that does not answer
// in time is gone.
func (o *overseer) askAgain(ctx context.Context, over <-chan struct{}, said rules.SignalFields) rules.FailCause {
	s := o.session
	if s.lastChance() { // the lease ends with what is handed in then, and that has to be the turn
		o.givenUp = true
		o.running.Stop(s.crew.box.Config.Grace)
		return ""
	}
	answer, err := s.order(rules.ReportSignal{Session: s.id, Epoch: s.epoch, Signal: signalbox.NameUnknown, Fields: said})
	if err != nil || !answer.Again { // it failed, or the lease is gone: either way this agent's time is over
		s.cancel(errLeaseLost)
		return ""
	}
	for len(o.heard.checkpointed) > 0 {
		<-o.heard.checkpointed
	}
	if o.running.Say(fmt.Sprintf("Nothing you wrote counts as a signal. Send this line now, bare, at column 0: CHECKPOINT: %s", s.work)) != nil {
		return ""
	}
	select {
	case <-o.heard.checkpointed:
	case <-over:
		return ""
	case <-ctx.Done():
		return ""
	case <-time.After(s.crew.box.Config.Limits.CheckpointAnswer):
		return rules.FailTimeout
	}
	var lines []string
	for _, sig := range prompts.SignalsFor(s.role, s.work) {
		lines = append(lines, sig.Line)
	}
	o.running.Say(strings.TrimSpace(said.Advice + " Now send your signal again, as a line of its own. One of: " + strings.Join(lines, " | ")))
	return ""
}

// lastChance tells whether another turn that says nothing that counts is the last of the lease.
func (s *session) lastChance() bool {
	return s.role == signalbox.RoleHealthAuditor || s.view().Task.Counts.Unknown+1 >= s.crew.box.Config.Limits.Unknown
}

// dotted ends a prompt with a line that is a single full stop, so that an interactive program knows where it ends. A line of
// the prompt that is one gets another.
func dotted(prompt []byte) []byte {
	var text []byte
	for line := range bytes.Lines(prompt) {
		if string(bytes.TrimRight(line, "\r\n")) == "." {
			text = append(text, '.')
		}
		text = append(text, line...)
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	return append(text, ".\n"...)
}
