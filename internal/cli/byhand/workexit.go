package byhand

import (
	"context"
	"errors"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agentsocket"
	"signalbox/internal/run/exitsignal"
	"signalbox/transcript"
)

type workExitCommand struct {
	cli.BoxFlag
	cli.AnswerFlag
	Session cli.NonEmpty `placeholder:"S" help:"The session that submits it."`
	Epoch   uint64       `placeholder:"E" help:"The epoch of the lease. Default: the only live lease of the session."`
	Ref     cli.NonEmpty `placeholder:"REF" help:"The branch, tag or commit that has the work, for its checks. Only in the phase IMPLEMENTATION. Default: the one that was named before."`
	File    *string      `arg:"" optional:"" help:"The file with the exit signal. Default: standard input, like -."`
}

func (workExitCommand) Help() string {
	return `Submits an exit signal under the lease of a session. If it is accepted, the work moves to its next phase and the lease ends, in one step. The phase_completed of the signal must be the phase of the work. Submitting the same signal again gives the same answer. If the lease has ended, the exit status is 4; for any other refusal it is 1. Refusals are recorded too. Exit signals are off by default: set the environment variable AGENT_EXIT_PROTOCOL_ENABLED to true, 1 or yes.

An agent of a run submits to the run, which records the signal when the agent's turn ends and its work is saved. A signal that the agent writes itself counts more.

Examples:

    export AGENT_EXIT_PROTOCOL_ENABLED=true
    signalbox work exit --session s-0123456789ab exit.json
    signalbox work exit --session s-0123456789ab --ref feature/counter exit.json
    my-agent --last-message | signalbox work exit --session s-0123456789ab --epoch 7 --json`
}

// exited is the answer: the signal and the new phase of the work.
type exited struct {
	Work           string               `json:"work"`
	PhaseCompleted signalbox.Phase      `json:"phase_completed"`
	ExitReason     signalbox.ExitReason `json:"exit_reason"`
	NextPhase      *signalbox.Phase     `json:"next_phase"`
	// Seq is 0 if the signal is recorded later.
	Seq uint64 `json:"seq"`
	// Pending means that a run accepted the signal and records it when the agent's turn ends.
	Pending bool `json:"pending,omitempty"`
}

func (c *workExitCommand) Run(p *cli.Program) error {
	session, err := sessionOf(p, c.Session)
	if err != nil {
		return err
	}
	data, err := readExitSignal(p, c.File, p.Socket() != "")
	if err != nil {
		return err
	}
	done, err := c.submit(p, session, data)
	if refused := (*rules.RefusedError)(nil); errors.As(err, &refused) &&
		refused.Reason == signalbox.ReasonMalformed {
		if _, invalid := transcript.ParseExit(data); invalid != nil {
			return invalidExit(invalid, data)
		}
	}
	if err != nil {
		return err
	}
	if done.Pending && !c.JSON {
		p.Notef("it is recorded when your turn ends: end it now")
	}
	return nil
}

// submit submits the signal over the socket of an agent's session, or to the box, and prints the
// answer.
func (c *workExitCommand) submit(p *cli.Program, session string,
	data []byte) (done exited, err error) {
	ctx := context.Background()
	if p.Socket() != "" {
		request, accepted := p.SocketRequest(agentsocket.CallExit, session, c.Epoch),
			agentsocket.Exit{}
		request.Exit, request.Ref = data, string(c.Ref)
		if err := agentsocket.Invoke(ctx, p.Socket(), request, &accepted); err != nil {
			return done, err
		}
		done = exited{accepted.Work, accepted.PhaseCompleted, accepted.ExitReason, accepted.NextPhase, 0, true}
		return done, c.Print(p, done)
	}
	err = p.WithBox(ctx, c.BoxFlag, func(b *box.Box) error {
		answer, err := exitsignal.Submit(ctx, b,
			exitsignal.Submission{Session: session, Epoch: c.Epoch, Data: data, Ref: string(c.Ref),
				Caller: callerOf(p)})
		if err != nil {
			return err
		}
		completed := answer.Completed
		done = exited{completed.WorkID, completed.PhaseCompleted, completed.ExitReason, completed.NextPhase, answer.Seq, false}
		return c.Print(p, done)
	})
	return done, err
}
