package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"signalbox"
	"signalbox/brief"
	"signalbox/internal/box"
	"signalbox/internal/rules"
	"signalbox/transcript"
)

type exitInput struct {
	Session string `json:"session"`
	Epoch   uint64 `json:"epoch"`
	exitFields
}

// exitFields are those of an exit signal that an agent chooses.
type exitFields struct {
	Version  string               `json:"version"`
	Phase    signalbox.Phase      `json:"phase_completed"`
	Reason   signalbox.ExitReason `json:"exit_reason"`
	PRURL    *string              `json:"pr_url"`
	Evidence *string              `json:"evidence_bundle_ref"`
	Notes    *string              `json:"notes"`
}

// movedSnapshot is what came of something that a session said about its work.
type movedSnapshot struct {
	head
	Work      string           `json:"work"`
	Session   string           `json:"session"`
	Signal    string           `json:"signal" jsonschema:"what was said"`
	Phase     signalbox.Phase  `json:"phase" jsonschema:"the phase that the work is in now"`
	NextPhase *signalbox.Phase `json:"next_phase" jsonschema:"the phase that the signal moved it to; null if it moved nothing"`
	Lease     *shownLease      `json:"lease" jsonschema:"the lease while the session still has it; of a stale one that of who holds the work"`
	Questions list[string]     `json:"questions" jsonschema:"the questions that the human is asked"`
	Seq       uint64           `json:"seq" jsonschema:"the event that records it"`
	Repeated  bool             `json:"repeated" jsonschema:"whether it was said before, and changed nothing now"`
}

func (s *movedSnapshot) flags() (flags []brief.Flag) {
	if s.Problem != nil {
		return nil
	}
	if s.Repeated {
		flags = append(flags, brief.Flag{Flag: "repeated", Severity: brief.Info, Message: "It was said before: this is the first answer"})
	}
	if len(s.Questions) > 0 {
		flags = append(flags, brief.Flag{Flag: "human_asked", Severity: brief.Info, Message: "The human is asked: " + s.Questions[0]})
	}
	if s.Lease == nil && s.NextPhase != nil {
		flags = append(flags, brief.Flag{Flag: "lease_over", Severity: brief.Success, Message: "The work has moved on and the lease is over"})
	}
	return flags
}

func (s *movedSnapshot) fill(a rules.Answer) {
	s.Work, s.Session, s.Phase, s.Lease, s.Seq, s.Repeated = a.Work, a.Session, a.Phase, leaseFrom(a.Lease), a.Seq, a.Repeated
	s.Questions = a.Questions
}

func (s *Server) addSubmitExit() {
	add(s, definition{
		name: "submit_exit", title: "Hand in an exit signal", destroys: true, again: true,
		description: "Ends a phase of work under the session's lease: if it counts, the work moves to its next phase and the lease is over, in one step. " +
			"phase_completed must be the phase that the work is in. Handing in the same again gives the same answer. Works only where the operator has enabled the exit protocol.",
		input: object(
			sessionArgument(),
			sequence("epoch", "The epoch of the lease; none is the session's only live one."),
			choice("phase_completed", signalbox.Phases(), "The phase that the work is in, whether it is done or not.").must(),
			choice("exit_reason", signalbox.ExitReasons(), "completed, or why not.").must(),
			text("pr_url", 2048, "The https:// address of the pull request."),
			text("evidence_bundle_ref", 4096, "A relative path in the workspace."),
			text("notes", 1<<15, "What whoever comes next should know."),
			text("version", 32, "The version of the exit protocol.").or("1.0.0"),
		),
	}, s.submitExit)
}

func (s *Server) submitExit(ctx context.Context, in exitInput) (moved movedSnapshot, _ *attachment, err error) {
	moved.Signal = signalbox.NameExit
	session, err := s.session(in.Session)
	if err != nil {
		return moved, nil, err
	}
	if !transcript.ExitEnabled(s.opts.ExitFlag) {
		return moved, nil, transcript.ErrExitDisabled
	}
	data, err := json.Marshal(signalbox.ExitSignal{Protocol: signalbox.ExitProtocol, Version: in.Version, PhaseCompleted: in.Phase, ExitReason: in.Reason,
		PRURL: in.PRURL, EvidenceBundleRef: in.Evidence, Notes: in.Notes})
	if err != nil {
		return moved, nil, err
	}
	if s.opts.Crew {
		return moved, nil, endsTurn("the exit signal as one JSON object")
	}
	exit := rules.Exit{Session: session, Epoch: in.Epoch}
	if signal, invalid := transcript.ParseExit(data); invalid != nil {
		exit.Fault = invalid.Error()
	} else {
		exit.Signal = *signal
	}
	err = s.act(ctx, func(b *box.Box) (err error) {
		// What nothing will name is not kept: a session that goes on sending what is refused does not fill the disk.
		if len(data) <= transcript.MaxExitBytes && b.Engine.WouldRecord(exit) {
			if exit.Blob, err = b.Engine.PutBlob(ctx, bytes.NewReader(data)); err != nil {
				return err
			}
		}
		answer, err := b.Engine.Do(ctx, exit)
		moved.fill(answer)
		if answer.Completed != nil {
			moved.NextPhase = answer.Completed.NextPhase
		}
		b.Engine.View(func(state *rules.State) { err = missing(state, err, "", session) })
		return err
	})
	if err == nil {
		moved.Verdict = fmt.Sprintf("%s is in %s now and the lease is over: stop, or claim other work", moved.Work, moved.Phase)
	}
	return moved, nil, err
}

// endsTurn tells the agent of a crew to say at the end of its turn what it wanted to say here. The crew keeps what the agent did
// before anybody hears that it is done.
func endsTurn(words string) error {
	return problemf("say_it_at_the_end", words, "your crew hears this at the end of your turn: write it as your last words, at the start of a line")
}
