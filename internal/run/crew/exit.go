package crew

import (
	"bytes"
	"context"

	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/transcript"
)

// ExitSubmission is an exit signal of a session that no crew runs.
type ExitSubmission struct {
	Session string
	// Epoch of the lease; 0 means the session's only live lease.
	Epoch uint64
	// Data is the JSON of the signal.
	Data []byte
	// Ref is the branch, tag or commit that has the work; "" leaves it as it is.
	Ref string
	// Caller must have the secret of the lease; nil means an operator.
	Caller *rules.Caller
}

// SubmitExit submits an exit signal. An invalid signal is refused, and the refusal is recorded. The signal is stored as a blob only if an
// event will refer to it, so that a session that repeats refused signals does not fill the disk.
func SubmitExit(ctx context.Context, b *box.Box, s ExitSubmission) (rules.Answer, error) {
	exit := rules.Exit{Session: s.Session, Epoch: s.Epoch, Ref: s.Ref, Caller: s.Caller}
	if signal, err := transcript.ParseExit(s.Data); err != nil {
		exit.Fault = err.Error()
	} else {
		exit.Signal = *signal
	}
	if len(s.Data) <= transcript.MaxExitBytes && b.Engine.WouldRecord(exit) {
		var err error
		if exit.Blob, err = b.Engine.PutBlob(ctx, bytes.NewReader(s.Data)); err != nil {
			return rules.Answer{}, err
		}
	}
	return b.Engine.Do(ctx, exit)
}
