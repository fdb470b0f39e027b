package forge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"signalbox"
	"signalbox/internal/text"
)

// command is a program of the user's. The package comment describes what it reads and prints.
type command struct{ *program }

// order is what a command reads.
type order struct {
	Do     string `json:"do"`
	Remote string `json:"remote,omitempty"`
	Head   string `json:"head,omitempty"`
	Base   string `json:"base,omitempty"`
	Title  string `json:"title,omitempty"`
	Body   string `json:"body,omitempty"`
	URL    string `json:"url,omitempty"`
}

// commandStatus is what a command prints about a request.
type commandStatus struct {
	Head      string `json:"head"`
	State     State  `json:"state"`
	Merged    string `json:"merged"`
	Pending   bool   `json:"pending"`
	Conflicts bool   `json:"conflicts"`
	Findings  []struct {
		ID      string `json:"id"`
		Summary string `json:"summary"`
		Body    string `json:"body"`
	} `json:"findings"`
}

func (c *command) call(ctx context.Context, o order) (string, error) {
	input, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	return c.run(ctx, append(input, '\n'))
}

func (c *command) Open(ctx context.Context, r Request) (string, error) {
	r, err := r.clean()
	if err != nil {
		return "", err
	}
	out, err := c.call(ctx, order{Do: "open", Remote: r.Remote, Head: r.Head, Base: r.Base,
		Title: r.Title, Body: r.Body})
	if err != nil {
		return "", err
	}
	var made struct {
		URL string `json:"url"`
	}
	if err := decode(commandSetting, out, &made, "url"); err != nil {
		return "", explain(err, out)
	}
	// The forge may be on another host than the remote: the command is the user's, and knows.
	_, err = webAddress(made.URL)
	return made.URL, err
}

func (c *command) Look(ctx context.Context, url string) (Status, error) {
	if _, err := webAddress(url); err != nil {
		return Status{}, err
	}
	out, err := c.call(ctx, order{Do: "look", URL: url})
	if err != nil {
		return Status{}, err
	}
	status, err := readCommandStatus(out)
	return status, explain(err, out)
}

// commandSetting is what errors call the command.
const commandSetting = "deliver.command"

// explain adds to an error in what the command printed how to correct the command.
func explain(err error, out string) error {
	e, ok := errors.AsType[*signalbox.Error](err)
	if !ok {
		return err
	}
	return &signalbox.Error{Code: e.Code, Err: e.Err, Hint: fmt.Sprintf(
		"it must print what docs/how-to/delivery.md says, and printed '%s'",
		text.Shorten(text.Printable(text.OneLine(out)), 100))}
}

func readCommandStatus(out string) (Status, error) {
	var from commandStatus
	if err := decode(commandSetting, out, &from, "head", "state"); err != nil {
		return Status{}, err
	}
	s := Status{Head: from.Head}
	switch from.State {
	case Open:
		s.State, s.Pending, s.Conflicts = Open, from.Pending, from.Conflicts
	case Closed:
		s.State = Closed
	case Merged:
		s.State, s.Merged = Merged, from.Merged
	}
	if err := s.check(commandSetting, string(from.State)); err != nil || s.State == Merged {
		return s, err
	}
	var findings []Finding
	for _, f := range from.Findings {
		summary := text.Shorten(text.OneLine(clean(f.Summary)), maxSummary)
		if f.ID == "" || summary == "" {
			return Status{}, refusedf("", "the answer of "+commandSetting+
				" has a finding without an id or a summary")
		}
		findings = append(findings, Finding{ID: digest(kindFinding, f.ID, f.Summary, f.Body),
			Summary: summary, Body: bounded(clean(f.Body))})
	}
	s.add(nil, findings)
	return s, nil
}
