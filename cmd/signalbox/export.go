package main

import (
	"context"
	"encoding/json"
	"strconv"

	"signalbox"
	"signalbox/internal/core/box"
)

type ledgerExportCommand struct {
	boxFlag
	After uint64 `default:"0" help:"Only events after this sequence."`
}

func (ledgerExportCommand) Help() string {
	return `Writes all events as CloudEvents 1.0 in JSON, one a line, for other systems to take in. The id is the sequence, the subject is the work; session, actor, prev and hash are extensions.

Examples:

    signalbox ledger export > events.jsonl
    signalbox ledger export --after 1000`
}

// cloudEvent is an event in the form of the CloudEvents specification, JSON format.
type cloudEvent struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject,omitempty"`
	Time            string          `json:"time"`
	DataContentType string          `json:"datacontenttype"`
	Session         string          `json:"session,omitempty"`
	Actor           string          `json:"actor,omitempty"`
	Prev            signalbox.Hash  `json:"prev"`
	Hash            signalbox.Hash  `json:"hash"`
	Data            json.RawMessage `json:"data"`
}

func (c *ledgerExportCommand) Run(p *program) error {
	return p.withLedger(c.boxFlag, func(ctx context.Context, l *box.Ledger) error {
		for e, err := range l.Events(ctx, c.After) {
			if err == nil {
				err = p.printJSON(cloudEventFrom(l.ID(), e), "")
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func cloudEventFrom(box string, e *signalbox.Event) cloudEvent {
	return cloudEvent{
		SpecVersion: "1.0", ID: strconv.FormatUint(e.Seq, 10), Source: "signalbox/" + box, Type: "signalbox." + e.Type,
		Subject: e.Work, Time: e.Time.Format(signalbox.EventTime), DataContentType: "application/json",
		Session: e.Session, Actor: e.Actor, Prev: e.Prev, Hash: e.Hash, Data: e.Data,
	}
}
