package box

import (
	"encoding/json"
	"strconv"

	"signalbox"
)

// CloudEvent is an event in the JSON format of the CloudEvents specification 1.0. Session, actor,
// prev and hash are extension attributes.
type CloudEvent struct {
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

// CloudEvent returns an event of the ledger as a CloudEvent.
func (l *Ledger) CloudEvent(e *signalbox.Event) CloudEvent {
	return CloudEvent{
		SpecVersion: "1.0", ID: strconv.FormatUint(e.Seq, 10), Source: "signalbox/" + l.ID(),
		Type:    "signalbox." + e.Type,
		Subject: e.Work, Time: e.Time.Format(signalbox.EventTime),
		DataContentType: "application/json",
		Session:         e.Session, Actor: e.Actor, Prev: e.Prev, Hash: e.Hash, Data: e.Data,
	}
}
