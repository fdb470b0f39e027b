package crew

import (
	"bytes"
	"context"

	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/transcript"
)

// SubmitExit submits the JSON of an exit signal under a lease of a session that no crew runs. An epoch of zero means the session's only live
// lease. A caller must have the secret of the lease; nil means an operator. An invalid signal is refused, and the refusal is recorded. The signal is stored as a blob only if an event will refer to it, so that
// a session that repeats refused signals does not fill the disk.
func SubmitExit(ctx context.Context, b *box.Box, session string, epoch uint64, data []byte, caller *rules.Caller) (rules.Answer, error) {
	exit := rules.Exit{Session: session, Epoch: epoch, Caller: caller}
	if signal, err := transcript.ParseExit(data); err != nil {
		exit.Fault = err.Error()
	} else {
		exit.Signal = *signal
	}
	if len(data) <= transcript.MaxExitBytes && b.Engine.WouldRecord(exit) {
		var err error
		if exit.Blob, err = b.Engine.PutBlob(ctx, bytes.NewReader(data)); err != nil {
			return rules.Answer{}, err
		}
	}
	return b.Engine.Do(ctx, exit)
}
