package main

import (
	"bytes"
	"context"
	"errors"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/transcript"
)

type workExitCommand struct {
	boxFlag
	answerFlag
	Session given   `placeholder:"S" help:"The session that sends it."`
	Epoch   uint64  `placeholder:"E" help:"The lease's epoch; none is the session's only live lease."`
	File    *string `arg:"" optional:"" help:"The exit signal; - or none is standard input."`
}

func (workExitCommand) Help() string {
	return `Hands in an exit signal under a session's lease. If it counts, the work moves to its next phase and the lease is free, in one step. The signal's phase_completed must be the phase that the work is in. Handing in the same signal again gives the same answer. A lease that is over is exit status 4; any other refusal is 1; both are recorded. The environment variable AGENT_EXIT_PROTOCOL_ENABLED must be true, 1 or yes: exit signals are off until somebody decides otherwise.

Examples:

    export AGENT_EXIT_PROTOCOL_ENABLED=true
    signalbox work exit --session s-0123456789ab exit.json
    my-agent --last-message | signalbox work exit --session s-0123456789ab --epoch 7 --json`
}

// exited is the answer: what the signal said and where the work is now.
type exited struct {
	Work           string               `json:"work"`
	PhaseCompleted signalbox.Phase      `json:"phase_completed"`
	ExitReason     signalbox.ExitReason `json:"exit_reason"`
	NextPhase      *signalbox.Phase     `json:"next_phase"`
	Seq            uint64               `json:"seq"`
}

func (c *workExitCommand) Run(p *program) error {
	session, err := p.session(c.Session)
	if err != nil {
		return err
	}
	data, err := p.readExitSignal(c.File)
	if err != nil {
		return err
	}
	ctx := context.Background()
	return p.withBox(ctx, c.boxFlag, func(b *box.Box) error {
		exit := rules.Exit{Session: session, Epoch: c.Epoch}
		signal, invalid := transcript.ParseExit(data)
		if invalid != nil {
			exit.Fault = invalid.Error()
		} else {
			exit.Signal = *signal
		}
		// What nothing will name is not kept: a session that goes on sending what is refused does not fill the disk.
		if len(data) <= transcript.MaxExitBytes && b.Engine.WouldRecord(exit) {
			if exit.Blob, err = b.Engine.PutBlob(ctx, bytes.NewReader(data)); err != nil {
				return err
			}
		}
		answer, err := b.Engine.Do(ctx, exit)
		if refused := (*rules.RefusedError)(nil); invalid != nil && errors.As(err, &refused) && refused.Reason == signalbox.ReasonMalformed {
			return invalidExit(invalid, data)
		}
		if err != nil {
			return err
		}
		done := answer.Completed
		return c.print(p, exited{done.WorkID, done.PhaseCompleted, done.ExitReason, done.NextPhase, answer.Seq})
	})
}
