package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"time"

	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/run/outbound"
	"signalbox/internal/text"
)

// target is somebody who is notified.
type target struct {
	name   string // in the outbox
	title  string // for people
	events []config.NotifyEvent
	// send delivers a message. Its error contains no secrets, and is a *permanentError if trying
	// again soon cannot help.
	send func(ctx context.Context, m *Message) error

	// What a Sender knows about it; guarded by Sender.mu.
	busy     bool      // it is being notified
	due      time.Time // when it may be tried again
	failures int       // in a row
	err      error     // of the last delivery
}

// isDue reports whether the pause after its last failure is over.
func (t *target) isDue() bool { return !time.Now().Before(t.due) }

func (t *target) wants(event config.NotifyEvent) bool {
	return len(t.events) == 0 || slices.Contains(t.events, event)
}

// targetsOf returns the targets of a configuration. They use the client.
func targetsOf(c config.Notify, client *http.Client, o *Options) (targets []*target) {
	if c.Webhook.URL != "" {
		targets = append(targets, &target{name: "webhook", title: "the webhook",
			events: c.Webhook.Events, send: webhook{c.Webhook, client, o.Getenv}.send})
	}
	if len(c.Command.Run) > 0 {
		run := command{c.Command.Run, contain.OutsideEnviron(o.Environ, c.Command.EnvPass...)}
		targets = append(targets, &target{name: "command", title: "the command " + c.Command.Run[0],
			events: c.Command.Events, send: run.send})
	}
	if c.Ntfy.URL != "" {
		targets = append(targets, &target{name: "ntfy", title: "ntfy", events: c.Ntfy.Events,
			send: ntfy{c.Ntfy, client, o.Getenv}.send})
	}
	if c.Desktop.Enabled {
		targets = append(targets, &target{name: "desktop", title: "the desktop",
			events: c.Desktop.Events, send: desktop{contain.OutsideEnviron(o.Environ)}.send})
	}
	return targets
}

// Result is what happened to the test message of a target.
type Result struct {
	Target string `json:"target"`
	OK     bool   `json:"ok"`
	Error  string `json:"error,omitempty"`
}

// Test sends a test message to every target, whatever its events are, and returns the results.
func Test(ctx context.Context, c config.Notify, box string, o Options) []Result {
	client := outbound.NewClient()
	defer client.CloseIdleConnections()
	now := time.Now().UTC()
	m := Message{ID: fmt.Sprintf("%s-%d-%s", box, now.UnixNano(), eventTest), Event: eventTest,
		Box: box, Project: o.Project, Time: now.Truncate(time.Second),
		Title: "a test", Text: "This is a test of signalbox notify test."}
	results := []Result{}
	for _, t := range targetsOf(c, client, &o) {
		sending, cancel := context.WithTimeout(ctx, defaultDelays().send)
		result := Result{Target: t.title}
		if err := t.send(sending, &m); err != nil {
			result.Error = err.Error()
		} else {
			result.OK = true
		}
		cancel()
		results = append(results, result)
	}
	return results
}

// command is a program of the user. It runs outside of the sandbox.
type command struct {
	argv    []string
	environ []string
}

func (c command) send(ctx context.Context, m *Message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	err = run(ctx, c.argv, c.environ, append(body, '\n'))
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("%w (of your environment variables it gets the usual ones and those in notify.command.env_pass)", err)
	}
	return err
}

// run runs a program, without a shell. The error includes the end of its output.
func run(ctx context.Context, argv, environ []string, input []byte) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Env, cmd.WaitDelay = bytes.NewReader(input), environ, time.Second
	output, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrNotFound):
		return outbound.Permanentf("the program %s was not found in PATH", argv[0])
	case ctx.Err() != nil:
		return fmt.Errorf("%s did not end in time", argv[0])
	case len(output) > 0:
		return fmt.Errorf("%w: %s", err, line(text.Tail(string(output), 500), 500))
	}
	return err
}
