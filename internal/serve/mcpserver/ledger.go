package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"signalbox"
	"signalbox/brief"
	"signalbox/internal/core/box"
	"signalbox/internal/core/journal"
	"signalbox/internal/serve/mcpserver/files"
	"signalbox/internal/serve/mcpserver/schema"
	"signalbox/ledger"
)

type verifyInput struct {
	Checkpoint string `json:"checkpoint"`
	Key        string `json:"key"`
}

// verifySnapshot is whether the ledger is what it was.
type verifySnapshot struct {
	head
	OK       bool    `json:"ok"`
	Events   uint64  `json:"events"`
	Head     string  `json:"head"`
	FirstBad *uint64 `json:"first_bad" jsonschema:"an event"`
	Reason   *string `json:"reason"`
	Signed   uint64  `json:"signed" jsonschema:"events under the checkpoint"`
	Signer   *string `json:"signer"`
	Judged   bool    `json:"judged" jsonschema:"also their meaning was judged"`
}

func (s *verifySnapshot) flags() (flags []brief.Flag) {
	switch {
	case s.Problem != nil:
		return nil
	case s.Signer == nil:
		flags = append(flags, brief.Flag{Flag: "no_checkpoint", Severity: brief.Warning,
			Message: "There is no checkpoint: this does not show that nothing was cut off at the end"})
	case s.Signed < s.Events:
		flags = append(flags, brief.Flag{Flag: "partly_signed", Severity: brief.Info,
			Message: fmt.Sprintf("The first %d of %d events are signed", s.Signed, s.Events)})
	default:
		flags = append(flags, brief.Flag{Flag: "all_signed", Severity: brief.Success, Message: "All events are signed"})
	}
	if !s.Judged {
		flags = append(flags, brief.Flag{Flag: "not_judged", Severity: brief.Warning, Message: "The events are chained as they should be, but their meaning was not judged to the end"})
	}
	return flags
}

func (s *Server) addVerifyLedger() {
	add(s, definition{
		name: "verify_ledger", title: "Verify the ledger", reads: true,
		description: "Checks every sequence, time, link and hash of the ledger, what the events mean, and against a signed checkpoint that nothing was cut off. " +
			"The box's own lies beside the ledger: give one that was kept elsewhere to be sure.",
		input: schema.Object(
			schema.Text("checkpoint", 1<<16, "The text of a signed checkpoint; else the box's own."),
			schema.Text("key", 1024, "The public key, as signalbox ledger key prints it; else the box's own."),
		),
	}, func(ctx context.Context, in verifyInput) (verified verifySnapshot, _ *files.Rest, err error) {
		opts := box.VerifyOptions{PublicKey: strings.TrimSpace(in.Key)}
		if _, err := ledger.KeyName(opts.PublicKey); opts.PublicKey != "" && err != nil {
			return verified, nil, &schema.MisfitError{Why: "key is no public key, or a letter of it is wrong: give it as signalbox ledger key prints it"}
		}
		if in.Checkpoint != "" {
			opts.Checkpoint = []byte(in.Checkpoint)
		}
		var report box.Verified
		err = s.withLedger(ctx, func(l *box.Ledger) error {
			report, err = l.Verify(ctx, opts)
			return err
		})
		if errors.Is(err, journal.ErrDamaged) { // it cannot even be opened
			report, err = box.Verified{Report: ledger.Report{FirstBad: 1, Reason: err.Error()}}, nil
		}
		if err != nil {
			return verified, nil, err
		}
		verified.fill(report)
		if !report.OK {
			return verified, nil, notVerified(report)
		}
		verified.Verdict = fmt.Sprintf("The ledger is what it was: %d events verified, %d of them signed", verified.Events, verified.Signed)
		return verified, nil, nil
	})
}

func (s *verifySnapshot) fill(r box.Verified) {
	s.OK, s.Events, s.Head, s.Judged = r.OK, r.Events, r.Head.String(), r.NotReplayed == nil
	if r.FirstBad != 0 {
		s.FirstBad = &r.FirstBad
	}
	if !r.OK {
		reason := line(r.Reason, 3*maxTitle)
		s.Reason = &reason
	}
	if r.Checkpoint != nil {
		s.Signed, s.Signer = r.Checkpoint.Size, &r.Checkpoint.Origin
	}
}

func notVerified(report box.Verified) error {
	from := ""
	if report.FirstBad > 0 {
		from = fmt.Sprintf(" from event %d on", report.FirstBad)
	}
	hint := report.Hint
	if hint == "" {
		hint = "stop, rely on nothing in it, and tell the operator"
	}
	return problemf("not_verified", hint, "the ledger is not verified%s: %s", from, report.Reason)
}

type proveInput struct {
	Seq uint64 `json:"seq"`
}

// proveSnapshot is an event and what proves it.
type proveSnapshot struct {
	head
	Seq     uint64 `json:"seq"`
	Type    string `json:"type"`
	Work    string `json:"work"`
	Session string `json:"session"`
	Actor   string `json:"actor"`
	Time    string `json:"time"`
	Hash    string `json:"hash"`
	Key     string `json:"key" jsonschema:"trust it only if you know it from elsewhere"`
}

func (s *Server) addProveEvent() {
	add(s, definition{
		name: "prove_event", title: "Prove an event", reads: true,
		description: "Makes a proof that an event is in the ledger: a file with the event, the way from it to the root, and a signed checkpoint. signalbox ledger check " +
			"checks it with the public key alone.",
		input: schema.Object(schema.Sequence("seq", "The sequence of the event.").Must()),
	}, func(ctx context.Context, in proveInput) (proven proveSnapshot, rest *files.Rest, err error) {
		proven.Seq = in.Seq
		err = s.withLedger(ctx, func(l *box.Ledger) error {
			proof, err := l.Prove(ctx, in.Seq)
			if err != nil {
				return unproven(ctx, l, in.Seq, err)
			}
			if proven.Key, err = l.PublicKey(); err != nil {
				return err
			}
			proven.fill(&proof.Event)
			rest = &files.Rest{Prefix: "proof", Result: proof.Format(), Wanted: true}
			return nil
		})
		if err == nil {
			proven.Verdict = fmt.Sprintf("Event %d (%s) is in the ledger: hand the file and the public key to whoever wants to check it", in.Seq, proven.Type)
		}
		return proven, rest, err
	})
}

func (s *proveSnapshot) fill(e *signalbox.Event) {
	s.Type, s.Work, s.Session, s.Actor = line(e.Type, maxTitle), line(e.Work, maxTitle), line(e.Session, maxTitle), line(e.Actor, maxTitle)
	s.Time, s.Hash = e.Time.Format(time.RFC3339Nano), e.Hash.String()
}

// unproven gives an event that cannot be proven its flag: it is not there, or not signed yet.
func unproven(ctx context.Context, l *box.Ledger, seq uint64, err error) error {
	if is(err, signalbox.CodeUnverified) {
		return err
	}
	last, headErr := l.Journal.Head(ctx)
	switch {
	case headErr != nil:
		return headErr
	case seq > last:
		return problemf("unknown_event", "name one that is there", "there is no event %d, the ledger has %d", seq, last)
	}
	return &problem{"not_signed", err, "try again in a few seconds, or ask the operator for signalbox ledger checkpoint"}
}
