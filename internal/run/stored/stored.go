// Package stored reads the texts that the ledger keeps as blobs: what a task asks for, the fields
// of signals, findings, notes, and the words of the human. It reads only, and text that was
// redacted is missing or replaced by a note.
package stored

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/plan"
	"signalbox/internal/run/prompts"
)

// TaskText returns what a task of a plan asks for, in Markdown: its sections in the plan, and the
// specification of the business analyst if there is one. Text that was redacted is left out, and
// other work has none.
func TaskText(ctx context.Context, b *box.Box, w *rules.Work) (string, error) {
	if w.Task == nil || w.Task.Kind != rules.KindTask {
		return "", nil
	}
	text, err := read(ctx, b, w.Task.Text)
	if err != nil {
		return "", err
	}
	sections := string(text)
	var task plan.Task
	if json.Unmarshal(text, &task) == nil {
		sections = task.Sections()
	}
	text, err = read(ctx, b, w.Task.Specification)
	if err != nil {
		return "", err
	}
	specification := string(text)
	if fields := Body(text); fields != nil {
		specification = FieldsText(fields)
	}
	if specification != "" {
		specification = "**Specification**\n\n" + specification
	}
	return strings.TrimSpace(sections + "\n\n" + specification), nil
}

// ReadNotes replaces the beginning of long notes by all of them, unless they were redacted.
func ReadNotes(ctx context.Context, b *box.Box, w *rules.WorkView) error {
	text, err := read(ctx, b, w.NotesBlob)
	if err == nil && text != nil {
		all := string(text)
		w.Notes = &all
	}
	return err
}

// Words returns a text of the human: short, or the blob if there is one.
func Words(ctx context.Context, b *box.Box, short string, body signalbox.Hash) (string, error) {
	if body == (signalbox.Hash{}) {
		return short, nil
	}
	text, err := Blob(ctx, b, body)
	return string(text), err
}

// NewestCorrection returns the sequence of the event with which the human last sent a task back, 0
// if there is none.
func NewestCorrection(t *rules.Task) uint64 {
	if n := len(t.Corrections); n > 0 {
		return t.Corrections[n-1].Seq
	}
	return 0
}

// Findings returns findings with their texts: first those of the human, the newest first, then the
// others in the order in which they came. newest is the sequence of the newest one of the human.
func Findings(ctx context.Context, b *box.Box, findings []rules.Finding, newest uint64) (
	list prompts.Findings, err error) {
	var others prompts.Findings
	for _, f := range findings {
		if f.Cause == rules.FindingHuman {
			text, err := Words(ctx, b, f.Summary, f.Body)
			if err != nil {
				return nil, err
			}
			list = slices.Insert(list, 0, prompts.Finding{Cause: f.Cause, Summary: text,
				Actor: f.Actor, Older: f.Seq < newest})
			continue
		}
		text, err := SignalText(ctx, b, f.Body)
		if err != nil {
			return nil, err
		}
		others = append(others, prompts.Finding{Cause: f.Cause, Work: f.Work, Summary: f.Summary,
			Text: text})
	}
	return append(list, others...), nil
}

// SignalText returns the body of a stored signal as text, and any other blob unchanged.
func SignalText(ctx context.Context, b *box.Box, digest signalbox.Hash) (string, error) {
	text, err := Blob(ctx, b, digest)
	if err != nil {
		return "", err
	}
	if fields := Body(text); fields != nil {
		return FieldsText(fields), nil
	}
	return string(text), nil
}

// Blob returns the content of a blob, nil for the zero digest, and a note instead of the content if
// it was redacted.
func Blob(ctx context.Context, b *box.Box, digest signalbox.Hash) ([]byte, error) {
	text, err := read(ctx, b, digest)
	if text == nil && err == nil && digest != (signalbox.Hash{}) {
		return []byte("(this text was redacted)"), nil
	}
	return text, err
}

// read returns a blob, nil for the zero digest, or if it was redacted.
func read(ctx context.Context, b *box.Box, digest signalbox.Hash) ([]byte, error) {
	if digest == (signalbox.Hash{}) {
		return nil, nil
	}
	r, err := b.Journal.GetBlob(ctx, digest)
	if errors.Is(err, journal.ErrNoBlob) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// MaxShown bounds how much of a check's output is shown.
const MaxShown = 8 << 10

// EndOf returns the end of a check's output.
func EndOf(output []byte) string {
	return strings.ToValidUTF8(string(output[max(0, len(output)-MaxShown):]), "\ufffd")
}
