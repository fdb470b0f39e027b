package forge

import (
	"context"
	"encoding/json"

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
	if err := decode("the command", out, &made, "url"); err != nil {
		return "", err
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
	return readCommandStatus(out)
}

func readCommandStatus(out string) (Status, error) {
	var from commandStatus
	if err := decode("the command", out, &from, "head", "state"); err != nil {
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
	if err := s.check("the command", string(from.State)); err != nil || s.State == Merged {
		return s, err
	}
	var findings []Finding
	for _, f := range from.Findings {
		summary := text.Shorten(text.OneLine(clean(f.Summary)), maxSummary)
		if f.ID == "" || summary == "" {
			return Status{}, refusedf("",
				"the answer of the command has a finding without an id or a summary")
		}
		findings = append(findings, Finding{ID: digest(kindFinding, f.ID, f.Summary, f.Body),
			Summary: summary, Body: bounded(clean(f.Body))})
	}
	s.add(nil, findings)
	return s, nil
}
