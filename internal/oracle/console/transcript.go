package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/session"
	"signalbox/internal/text"
)

// Question is a question of a recorded conversation with its chunks.
type Question struct {
	Number int
	Text   string
	Chunks []chunk.Chunk
	// Error and Done are the end of the answer. A nil Done means that it was cut off.
	Error *chunk.Error
	Done  *chunk.Done
}

// Questions returns the questions of a recorded conversation.
func Questions(entries []session.Entry) []Question {
	all := []Question{}
	for _, e := range entries {
		if e.Kind == session.Question {
			all = append(all, Question{Number: e.Question, Text: e.Text,
				Chunks: oracle.Chunks(entries, e.Question)})
			continue
		}
		if len(all) == 0 {
			continue
		}
		switch last := &all[len(all)-1]; e.Kind {
		case session.RunStart: // the question may have been resumed after an error
			last.Error, last.Done = nil, nil
		case session.Answer:
			last.Error, last.Done = e.Error, e.Done
		}
	}
	return all
}

// Transcript writes a conversation to one writer, for people.
func Transcript(w io.Writer, all []Question, opts *Options) error {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.SameTerminal, o.Errors = true, true
	for i, q := range all {
		separator := "\n"
		if i == 0 {
			separator = ""
		}
		if _, err := fmt.Fprintf(w, "%s> %s\n\n", separator,
			strings.ReplaceAll(text.PrintableLines(q.Text), "\n", "\n> ")); err != nil {
			return err
		}
		t := New(w, w, &o)
		for _, c := range q.All() {
			if err := t.Show(c); err != nil {
				return err
			}
		}
		if q.Done == nil {
			t.note("!", "the answer was cut off here")
		}
	}
	return nil
}

// All returns the chunks of a question with its end, if it has one.
func (q *Question) All() []chunk.Chunk {
	all := q.Chunks[:len(q.Chunks):len(q.Chunks)]
	if q.Error != nil {
		all = append(all, *q.Error)
	}
	if q.Done != nil {
		all = append(all, *q.Done)
	}
	return all
}

// questionLine is the JSON line before the chunks of a question.
type questionLine struct {
	Type   string `json:"type"`
	Number int    `json:"question"`
	Text   string `json:"text"`
}

// TranscriptJSON writes a conversation as lines of JSON: for each question a line with its text,
// then its chunks.
func TranscriptJSON(w io.Writer, all []Question) error {
	for _, q := range all {
		var line bytes.Buffer
		enc := json.NewEncoder(&line)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(questionLine{"question", q.Number, q.Text}); err != nil {
			return err
		}
		if _, err := w.Write(text.PrintableJSON(line.Bytes())); err != nil {
			return err
		}
		for _, c := range q.All() {
			line, err := chunk.Line(c)
			if err != nil {
				return err
			}
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
	}
	return nil
}
