package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"signalbox"
	"signalbox/brief"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/serve/mcpserver/files"
	"signalbox/internal/serve/mcpserver/schema"
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
	Work      string              `json:"work"`
	Session   string              `json:"session"`
	Signal    string              `json:"signal"`
	Phase     signalbox.Phase     `json:"phase"`
	NextPhase *signalbox.Phase    `json:"next_phase"`
	Lease     *shownLease         `json:"lease"`
	Questions schema.List[string] `json:"questions"`
	Seq       uint64              `json:"seq"`
	Repeated  bool                `json:"repeated" jsonschema:"changed nothing"`
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
		description: "Ends a phase of work under the session's lease: if it counts, the work moves on and the lease is over, in one step. " +
			"Handing in the same again gives the same answer. For work outside a plan; works only where the operator has enabled exit signals.",
		input: schema.Object(
			sessionArgument(),
			schema.Sequence("epoch", "Of the lease; none is the only live one."),
			schema.Choice("phase_completed", signalbox.Phases(), "That the work is in, done or not.").Must(),
			schema.Choice("exit_reason", signalbox.ExitReasons(), "completed, or why not.").Must(),
			schema.Text("pr_url", 2048, "The https:// address of the pull request."),
			schema.Text("evidence_bundle_ref", 4096, "A relative path in the workspace."),
			schema.Text("notes", 1<<15, "For whoever comes next."),
			schema.Text("version", 32, "The version of the exit protocol.").Or("1.0.0"),
		),
	}, s.submitExit)
}

func (s *Server) submitExit(ctx context.Context, in exitInput) (moved movedSnapshot, _ *files.Rest, err error) {
	moved.Signal = signalbox.NameExit
	session, err := s.session(in.Session)
	if err != nil {
		return moved, nil, err
	}
	if !s.exitEnabled() {
		return moved, nil, s.exitDisabled()
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

func (s *Server) exitEnabled() bool { return transcript.ExitEnabled(s.opts.ExitFlag) }

// enableExits is what the operator has to do so that work outside a plan can be handed in.
const enableExits = "whoever runs the server sets " + signalbox.ExitFlag + "=true in its environment (env in the client's configuration) and starts it anew"

func (s *Server) exitDisabled() error {
	if s.opts.ExitFlag == "" {
		return problemf("exit_disabled", enableExits, "exit signals are off, because %s is not set", signalbox.ExitFlag)
	}
	return problemf("exit_disabled", enableExits, "exit signals are off, because %s is '%s'", signalbox.ExitFlag, line(s.opts.ExitFlag, 20))
}

// exitWarning is for who has or could claim work that cannot be handed in.
func exitWarning() brief.Flag {
	return brief.Flag{Flag: "exit_disabled", Severity: brief.Warning, Message: "Work outside a plan cannot be handed in, because exit signals are off: " + enableExits}
}

// howToEnd says what to do with work that a session holds when it is done.
func (s *Server) howToEnd(planned bool) string {
	switch {
	case s.opts.Crew:
		return "renew in time, then end your turn with its signal"
	case planned:
		return "renew in time, then say with emit_signal how it ended"
	case s.exitEnabled():
		return "renew in time, then hand in with submit_exit how it ended"
	}
	return "but exit signals are off, so nothing can be handed in: tell the operator first"
}

// endsTurn tells the agent of a crew to say at the end of its turn what it wanted to say here. The crew keeps what the agent did
// before anybody hears that it is done.
func endsTurn(words string) error {
	return problemf("say_it_at_the_end", words, "your crew hears this at the end of your turn: write it as your last words, at the start of a line")
}
