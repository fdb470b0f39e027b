package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"

	"signalbox"
	"signalbox/brief"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/exitsignal"
	"signalbox/internal/serve/mcpserver/schema"
	"signalbox/transcript"
)

type exitInput struct {
	Session string `json:"session"`
	Secret  string `json:"secret"`
	Epoch   uint64 `json:"epoch"`
	Ref     string `json:"ref"`
	exitFields
}

// exitFields are the fields of an exit signal that an agent sets.
type exitFields struct {
	Protocol *string              `json:"protocol"`
	Version  string               `json:"version"`
	Phase    signalbox.Phase      `json:"phase_completed"`
	Reason   signalbox.ExitReason `json:"exit_reason"`
	PRURL    *string              `json:"pr_url"`
	Evidence *string              `json:"evidence_bundle_ref"`
	Notes    *string              `json:"notes"`
}

// signalSnapshot is the effect of a signal.
type signalSnapshot struct {
	head
	Work      string              `json:"work"`
	Session   string              `json:"session"`
	Signal    string              `json:"signal"`
	Phase     signalbox.Phase     `json:"phase"`
	NextPhase *signalbox.Phase    `json:"next_phase"`
	Lease     *leaseView          `json:"lease"`
	Questions schema.List[string] `json:"questions"`
	Seq       uint64              `json:"seq"`
	Repeated  bool                `json:"repeated" jsonschema:"changed nothing"`
}

func (s *signalSnapshot) flags() (flags []brief.Flag) {
	if s.Problem != nil {
		return nil
	}
	if s.Repeated {
		flags = append(flags, brief.Flag{Flag: "repeated", Severity: brief.Info,
			Message: "Repeated call: this is the first answer"})
	}
	if len(s.Questions) > 0 {
		flags = append(flags, brief.Flag{Flag: "human_asked", Severity: brief.Info,
			Message: "Question for the human: " + s.Questions[0]})
	}
	if s.Lease == nil && s.NextPhase != nil {
		flags = append(flags, brief.Flag{Flag: "lease_over", Severity: brief.Success,
			Message: "The work has moved and the lease has ended"})
	}
	return flags
}

func (s *signalSnapshot) fill(a rules.Answer) {
	s.Work, s.Session, s.Phase, s.Lease, s.Seq, s.Repeated = a.Work, a.Session, a.Phase,
		newLeaseView(a.Lease), a.Seq, a.Repeated
	s.Questions = a.Questions
}

func (s *Server) addSubmitExit() {
	add(s, definition{
		name: "submit_exit", title: "Submit an exit signal", destructive: true, idempotent: true,
		description: "Ends a phase of the held work: it moves to its next phase and the lease ends. " +
			"For work outside a plan, if exit signals are enabled.",
		input: schema.Object(
			sessionArgument(),
			secretArgument(),
			schema.Sequence("epoch", "Default: the only live lease."),
			schema.Choice("phase_completed", signalbox.Phases(),
				"The current phase of the work.").Require(),
			schema.Choice("exit_reason", signalbox.ExitReasons(),
				"completed, or why not.").Require(),
			schema.Text("ref", 255, "Branch or commit to check."),
			schema.Text("pr_url", 2048, "https:// URL."),
			schema.Text("evidence_bundle_ref", 4096, "Relative path."),
			schema.Text("notes", 1<<15, "For the next session."),
			schema.Text("version", 32, "Of the protocol.").Default("1.0.0"),
			schema.Text("protocol", 64, "apm2_agent_exit."),
		),
	}, s.submitExit)
}

func (s *Server) submitExit(ctx context.Context, in exitInput) (moved signalSnapshot, err error) {
	moved.Signal = signalbox.NameExit
	session, err := s.session(in.Session)
	if err != nil {
		return moved, err
	}
	if !s.exitEnabled() {
		return moved, s.exitDisabled()
	}
	protocol := signalbox.ExitProtocol
	if in.Protocol != nil {
		protocol = *in.Protocol
	}
	data, err := json.Marshal(signalbox.ExitSignal{Protocol: protocol, Version: in.Version,
		PhaseCompleted: in.Phase, ExitReason: in.Reason,
		PRURL: in.PRURL, EvidenceBundleRef: in.Evidence, Notes: in.Notes})
	if err != nil {
		return moved, err
	}
	if s.opts.Crew {
		return moved, sayAtEndOfTurn("the exit signal as one JSON object")
	}
	err = s.withBox(ctx, func(b *box.Box) (err error) {
		if err := s.checkSession(ctx, b, session); err != nil {
			return err
		}
		answer, err := exitsignal.Submit(ctx, b,
			exitsignal.Submission{Session: session, Epoch: in.Epoch, Data: data, Ref: in.Ref,
				Caller: s.caller(ctx, in.Secret)})
		moved.fill(answer)
		if answer.Completed != nil {
			moved.NextPhase = answer.Completed.NextPhase
		}
		b.Engine.View(func(state *rules.State) { err = withNotFoundFlag(state, err, "", session) })
		return err
	})
	if err == nil {
		moved.Verdict = fmt.Sprintf(
			"%s is now in %s and the lease has ended: stop, or claim other work", moved.Work,
			moved.Phase)
	}
	return moved, err
}

func (s *Server) exitEnabled() bool { return transcript.ExitEnabled(s.opts.ExitFlag) }

// enableExits is what the operator must do so that submit_exit works.
const enableExits = "set " + signalbox.ExitFlag +
	"=true in the environment of the server (env in the client's configuration) and restart it"

func (s *Server) exitDisabled() error {
	return problemf("exit_disabled", enableExits, "%v", transcript.ErrExitDisabled)
}

// exitWarning is for callers that hold, or could claim, work that cannot be submitted.
func exitWarning() brief.Flag {
	return brief.Flag{Flag: "exit_disabled", Severity: brief.Warning,
		Message: "Work outside a plan cannot be submitted, because exit signals are disabled: " +
			enableExits}
}

// howToEnd returns the advice for a session that holds work.
func (s *Server) howToEnd(planned bool) string {
	switch {
	case s.opts.Crew:
		return "renew the lease in time, then end your turn with a signal"
	case planned:
		return "renew the lease in time, then report the result with emit_signal"
	case s.exitEnabled():
		return "renew the lease in time, then report the result with submit_exit"
	}
	return "but exit signals are disabled, so that nothing can be submitted: tell the operator first"
}

// sayAtEndOfTurn tells the agent of a crew to write a signal at the end of its turn instead. The
// crew must save the agent's work before the signal takes effect.
func sayAtEndOfTurn(signal string) error {
	return problemf("say_it_at_the_end", signal,
		"your crew reads this at the end of your turn: write it as the last line of your answer, at the start of the line")
}
