package box

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/durable"
)

// publishTimeout is how long a destination may take to accept a checkpoint.
const publishTimeout = 10 * time.Second

// PublishError means that a checkpoint was signed but not delivered to every destination.
type PublishError struct{ Err error }

func (e *PublishError) Error() string { return e.Err.Error() }
func (e *PublishError) Unwrap() error { return e.Err }

// SignAndPublish signs a checkpoint if the ledger has grown, and publishes it. The error is
// ErrNoKey, an error of Sign, or a *PublishError.
func (b *Box) SignAndPublish(ctx context.Context) error {
	checkpoint, err := b.Sign(ctx)
	if err != nil || !checkpoint.New {
		return err
	}
	if err := Publish(ctx, b.Config.Checkpoint, checkpoint.Signed); err != nil {
		return &PublishError{err}
	}
	return nil
}

// Publish sends a signed checkpoint to the configured destinations. A checkpoint that exists only
// beside the ledger could be rolled back together with it. Publish tries all destinations; the
// error lists those that failed.
func Publish(ctx context.Context, to config.Checkpoint, signed []byte) error {
	var faults []string
	failed := func(destination string, err error) {
		if err != nil {
			faults = append(faults, destination+" ("+err.Error()+")")
		}
	}
	if to.File != "" {
		failed("the file "+to.File, durable.Replace(to.File, signed, 0o644))
	}
	if len(to.Command) > 0 {
		failed("the command "+to.Command[0], RunWith(ctx, to.Command, signed))
	}
	if to.Webhook != "" {
		failed("the webhook", Post(ctx, to.Webhook, "text/plain; charset=utf-8", signed))
	}
	if len(faults) == 0 {
		return nil
	}
	return &signalbox.Error{Code: signalbox.CodeFailed,
		Err: errors.New("the checkpoint could not be published to " +
			strings.Join(faults, ", nor to ")),
		Hint: "check the setting checkpoint in the box's " + config.FileName +
			"; the next checkpoint is sent to all destinations again"}
}

// RunWith runs a command, without a shell, with input as its standard input. The error includes the
// output.
func RunWith(ctx context.Context, command []string, input []byte) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
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

// Post sends body to a URL with a POST request, and returns an error unless the status is 2xx.
func Post(ctx context.Context, address, contentType string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := http.DefaultClient.Do(req)
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		return wrapped.Err // without the address, which may be secret
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the server answered %s", resp.Status)
	}
	return nil
}
