// Package exitsignal submits exit signals, with which agents end a phase of their work, to the
// rules.
package exitsignal

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/transcript"
)

// Submission is an exit signal of a session.
type Submission struct {
	Session string
	// Epoch of the lease; 0 means the session's only live lease.
	Epoch uint64
	// Data is the JSON of the signal.
	Data []byte
	// Ref is the branch, tag or commit that has the work; "" leaves it as it is.
	Ref string
	// Caller must have the secret of the lease; nil means an operator.
	Caller *rules.Caller
	// Contradicts is another exit signal of the same turn. If it is not nil, both are refused as
	// ambiguous.
	Contradicts *Submitted
}

// Submitted is an exit signal that was submitted, with its JSON.
type Submitted struct {
	Signal *signalbox.ExitSignal
	Data   []byte
}

// Submit submits an exit signal. An invalid signal is refused, and the refusal is recorded. The
// signal and its notes are stored as blobs only if an event will refer to them. So a session that
// repeats refused signals does not fill the disk, and nor does a caller without its secret.
func Submit(ctx context.Context, b *box.Box, s Submission) (rules.Answer, error) {
	exit := rules.Exit{Session: s.Session, Epoch: s.Epoch, Ref: s.Ref, Caller: s.Caller}
	if signal, err := transcript.ParseExit(s.Data); err != nil {
		exit.Fault = err.Error()
	} else {
		exit.Signal = *signal
	}
	if s.Contradicts != nil {
		digest := signalbox.Hash(sha256.Sum256(s.Contradicts.Data))
		exit.Contradicts = &digest
		exit.Fault = fmt.Sprintf(
			"ambiguous: '%s' and '%s' were submitted in one turn, and the signals differ",
			s.Contradicts.Signal.ExitReason, exit.Signal.ExitReason)
	}
	notes := []byte(nil)
	notes, exit.Notes = rules.LongNotes(&exit.Signal)
	if len(s.Data) <= transcript.MaxExitBytes {
		exit.Blob = sha256.Sum256(s.Data)
	}
	_, needed, err := b.Engine.Preview(exit)
	if err != nil {
		return rules.Answer{}, err
	}
	put := func(digest *signalbox.Hash, data []byte) (err error) {
		if !slices.Contains(needed, *digest) {
			*digest = signalbox.Hash{}
			return nil
		}
		*digest, err = b.Engine.PutBlob(ctx, bytes.NewReader(data))
		return err
	}
	if err := cmp.Or(put(&exit.Blob, s.Data), put(&exit.Notes, notes)); err != nil {
		return rules.Answer{}, err
	}
	if s.Contradicts != nil {
		if err := put(exit.Contradicts, s.Contradicts.Data); err != nil {
			return rules.Answer{}, err
		}
	}
	return b.Engine.Do(ctx, exit)
}
