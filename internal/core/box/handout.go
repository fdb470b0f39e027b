package box

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/durable"
)

// handOutTime is how long a place may take to accept a checkpoint.
const handOutTime = 10 * time.Second

// HandOutError says that a checkpoint is signed, and did not reach all whom it is for.
type HandOutError struct{ Err error }

func (e *HandOutError) Error() string { return e.Err.Error() }
func (e *HandOutError) Unwrap() error { return e.Err }

// SignAndHandOut signs what is new in the ledger, and gives that to the places that the configuration names. The error is
// ErrNoKey, one of signing, or a *HandOutError.
func (b *Box) SignAndHandOut(ctx context.Context) error {
	checkpoint, err := b.Sign(ctx)
	if err != nil || !checkpoint.Fresh {
		return err
	}
	if err := HandOut(ctx, b.Config.Checkpoint, checkpoint.Signed); err != nil {
		return &HandOutError{err}
	}
	return nil
}

// HandOut gives a signed checkpoint to the places that the configuration names. Kept only beside the ledger, it could be
// cut short together with it. All places are tried; the error tells of those that failed.
func HandOut(ctx context.Context, places config.Checkpoint, signed []byte) error {
	var faults []string
	failed := func(place string, err error) {
		if err != nil {
			faults = append(faults, place+" ("+err.Error()+")")
		}
	}
	if places.File != "" {
		failed("the file "+places.File, durable.Replace(places.File, signed, 0o644))
	}
	if len(places.Command) > 0 {
		failed("the command "+places.Command[0], RunWith(ctx, places.Command, signed))
	}
	if places.Webhook != "" {
		failed("the webhook", Post(ctx, places.Webhook, "text/plain; charset=utf-8", signed))
	}
	if len(faults) == 0 {
		return nil
	}
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: errors.New("the checkpoint could not be handed to " + strings.Join(faults, ", nor to ")),
		Hint: "see checkpoint in the box's " + config.FileName + "; the next checkpoint goes to all places again"}
}

// RunWith runs a command, without a shell, with something on its standard input. The error has what it printed.
func RunWith(ctx context.Context, command []string, input []byte) error {
	ctx, cancel := context.WithTimeout(ctx, handOutTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin = bytes.NewReader(input)
	cmd.WaitDelay = time.Second
	output, err := cmd.CombinedOutput()
	if err != nil && len(output) > 0 {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(output[:min(len(output), 500)]))
	}
	return err
}

// Post posts something to an address, which must answer that it has it.
func Post(ctx context.Context, address, contentType string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, handOutTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("it answered %s", resp.Status)
	}
	return nil
}
