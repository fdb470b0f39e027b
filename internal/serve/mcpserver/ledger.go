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
	"signalbox/internal/text"
	"signalbox/ledger"
)

type verifyInput struct {
	Checkpoint string `json:"checkpoint"`
	Key        string `json:"key"`
}

// verifySnapshot is the result of verifying the ledger.
type verifySnapshot struct {
	head
	OK       bool    `json:"ok"`
	Events   uint64  `json:"events"`
	Head     string  `json:"head"`
	FirstBad *uint64 `json:"first_bad" jsonschema:"the first invalid event"`
	Reason   *string `json:"reason"`
	Signed   uint64  `json:"signed" jsonschema:"events covered by the checkpoint"`
	Signer   *string `json:"signer"`
	Judged   bool    `json:"judged" jsonschema:"the events were also replayed"`
	Blobs    uint64  `json:"blobs"`

	redacted uint64
}

func (s *verifySnapshot) flags() (flags []brief.Flag) {
	switch {
	case s.Problem != nil:
		return nil
	case s.Signer == nil:
		flags = append(flags, brief.Flag{Flag: "no_checkpoint", Severity: brief.Warning,
			Message: "There is no checkpoint: events may have been removed from the end"})
	case s.Signed < s.Events:
		flags = append(flags, brief.Flag{Flag: "partly_signed", Severity: brief.Info,
			Message: fmt.Sprintf("The first %d of %d events are signed", s.Signed, s.Events)})
	default:
		flags = append(flags, brief.Flag{Flag: "all_signed", Severity: brief.Success,
			Message: "All events are signed"})
	}
	if !s.Judged {
		flags = append(flags, brief.Flag{Flag: "not_judged", Severity: brief.Warning,
			Message: "The hash chain is intact, but not all events could be replayed"})
	}
	if s.redacted > 0 {
		flags = append(flags, brief.Flag{Flag: "redacted", Severity: brief.Info,
			Message: text.Count(int(s.redacted), "blob") + " redacted"})
	}
	return flags
}

func (s *Server) addVerifyLedger() {
	add(s, definition{
		name: "verify_ledger", title: "Verify the ledger", readOnly: true,
		description: "Verifies the ledger's hash chain, replays its events, checks blobs, and compares with a signed checkpoint to find removed events. " +
			"The box's own checkpoint is next to the ledger: pass one kept elsewhere.",
		input: schema.Object(
			schema.Text("checkpoint", 1<<16,
				"The text of a signed checkpoint. Default: the box's own."),
			schema.Text("key", 1024,
				"The public key, as printed by signalbox ledger key. Default: the box's own."),
		),
	}, func(ctx context.Context,
		in verifyInput) (verified verifySnapshot, err error) {
		opts := box.VerifyOptions{PublicKey: strings.TrimSpace(in.Key)}
		if _, err := ledger.KeyName(opts.PublicKey); opts.PublicKey != "" && err != nil {
			return verified,
				&schema.ArgumentError{Reason: "key is not a valid public key: pass it as printed by signalbox ledger key"}
		}
		if in.Checkpoint != "" {
			opts.Checkpoint = []byte(in.Checkpoint)
		}
		var report box.Verified
		err = s.withLedger(ctx, func(l *box.Ledger) error {
			report, err = l.Verify(ctx, opts)
			return err
		})
		if errors.Is(err, journal.ErrDamaged) { // it cannot be opened
			report, err = box.Verified{Report: ledger.Report{FirstBad: 1, Reason: err.Error()}}, nil
		}
		if err != nil {
			return verified, err
		}
		verified.fill(report)
		if !report.OK {
			return verified, notVerified(report)
		}
		verified.Verdict = fmt.Sprintf(
			"The ledger is intact: %d events verified, %d of them signed", verified.Events,
			verified.Signed)
		return verified, nil
	})
}

func (s *verifySnapshot) fill(r box.Verified) {
	s.OK, s.Events, s.Head, s.Judged = r.OK, r.Events, r.Head.String(), r.NotReplayed == nil
	if r.FirstBad != 0 {
		s.FirstBad = &r.FirstBad
	}
	if !r.OK {
		reason := oneLine(r.Reason, 3*maxTitle)
		s.Reason = &reason
	}
	if r.Checkpoint != nil {
		s.Signed, s.Signer = r.Checkpoint.Size, &r.Checkpoint.Origin
	}
	if b := r.Blobs; b != nil {
		s.Blobs, s.redacted = b.Checked, b.Redacted+b.Remaining
	}
}

func notVerified(report box.Verified) error {
	from := ""
	if report.FirstBad > 0 && report.Blobs == nil {
		from = fmt.Sprintf(" from event %d", report.FirstBad)
	}
	hint := report.Hint
	if hint == "" {
		hint = "stop, do not rely on it, and tell the operator"
	}
	return problemf("not_verified", hint, "the ledger is not verified%s: %s", from, report.Reason)
}

type proveInput struct {
	Seq uint64 `json:"seq"`
}

// proveSnapshot is an event whose proof is in the file.
type proveSnapshot struct {
	head
	Seq     uint64 `json:"seq"`
	Type    string `json:"type"`
	Work    string `json:"work"`
	Session string `json:"session"`
	Actor   string `json:"actor"`
	Time    string `json:"time"`
	Hash    string `json:"hash"`
	Key     string `json:"key" jsonschema:"trust it only if you also know it from another source"`
}

func (s *Server) addProveEvent() {
	add(s, definition{
		name: "prove_event", title: "Prove an event", readOnly: true,
		description: "Writes a proof that an event is in the ledger: a file with the event, its Merkle proof, and a signed checkpoint. signalbox ledger check " +
			"verifies it with the public key alone.",
		input: schema.Object(schema.Sequence("seq", "The sequence number of the event.").Require()),
	}, func(ctx context.Context,
		in proveInput) (proven proveSnapshot, err error) {
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
			proven.attachment = &files.Attachment{Prefix: "proof", Result: proof.Format(),
				Required: true}
			return nil
		})
		if err == nil {
			proven.Verdict = fmt.Sprintf(
				"Event %d (%s) is in the ledger: the file and the public key are enough to verify it", in.Seq, proven.Type)
		}
		return proven, err
	})
}

func (s *proveSnapshot) fill(e *signalbox.Event) {
	s.Type, s.Work, s.Session, s.Actor = oneLine(e.Type, maxTitle), oneLine(e.Work, maxTitle),
		oneLine(e.Session, maxTitle), oneLine(e.Actor, maxTitle)
	s.Time, s.Hash = e.Time.Format(time.RFC3339Nano), e.Hash.String()
}

// unproven adds the flag to the error for an event that does not exist or is not signed yet.
func unproven(ctx context.Context, l *box.Ledger, seq uint64, err error) error {
	if signalbox.CodeOf(err) == signalbox.CodeUnverified {
		return err
	}
	last, headErr := l.Journal.Head(ctx)
	switch {
	case headErr != nil:
		return headErr
	case seq > last:
		return problemf("unknown_event", "use an existing sequence number",
			"unknown event %d: the ledger has %d", seq, last)
	}
	return &problem{"not_signed", err,
		"try again in a few seconds, or ask the operator to run signalbox ledger checkpoint"}
}
