package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"signalbox"
)

const goalResident = 32 // MB

// residentCase is an input whose scan is measured in its own process, because the peak memory of a
// process never falls.
type residentCase struct {
	name   string
	title  string
	format signalbox.Format
	// long means that size is that of a single line.
	long bool
	open func(size int64) *input
}

// input is generated while it is read. planted is complete at its end.
type input struct {
	io.Reader
	planted *[]planted
}

var residentCases = []residentCase{
	{"plain", "plain text", signalbox.FormatPlain, false, generated(signalbox.FormatPlain)},
	{"claude", "claude stream", signalbox.FormatClaude, false, generated(signalbox.FormatClaude)},
	{"plain-line", "one plain line", signalbox.FormatPlain, true, func(size int64) *input {
		return &input{repeat([]byte("no end of this line, "), size), new([]planted)}
	}},
	{"claude-text", "one claude text, a signal at its end", signalbox.FormatClaude, true, longText},
	{"claude-tool", "one claude tool result, then a signal", signalbox.FormatClaude, true,
		longToolResult},
}

func generated(format signalbox.Format) func(int64) *input {
	return func(size int64) *input {
		blocks := newGenerator(seed, size, rare)
		return &input{newStream(blocks, format), &blocks.planted}
	}
}

const lastWords = "READY_FOR_REVIEW: last-1\n\nSummary: done\n"

var plantedLastWords = []planted{{dialect: signalbox.DialectLine, name: signalbox.NameReadyForReview, task: "last-1"}}

// longText is a claude stream whose only text ends in a signal.
func longText(size int64) *input {
	e := envelope{format: signalbox.FormatClaude}
	return &input{io.MultiReader(
		joined(e.begin(nil), e.claudeText(nil)),
		repeat(appendEscaped(nil,
			[]byte("Each line of this text is short,\n\tand \"quoted\" in part.\n")), size),
		joined(appendEscaped(nil, []byte(lastWords)), []byte(claudeTextEnd), e.end(nil)),
	), &plantedLastWords}
}

// longToolResult is a claude stream with a tool result that quotes a signal, and a text with a
// signal.
func longToolResult(size int64) *input {
	e := envelope{format: signalbox.FormatClaude}
	quoted := appendEscaped(nil, []byte("AUDIT_PASSED: quoted-1\n"))
	return &input{io.MultiReader(
		joined(e.begin(nil), e.claudeResult(nil), quoted),
		repeat(appendEscaped(nil, []byte("--- PASS: TestOne (0.00s)\n=== RUN   TestTwo\n")), size),
		joined(quoted, []byte(claudeResultEnd), e.wrap(nil, block{fromAgent, []byte(lastWords)}),
			e.end(nil)),
	), &plantedLastWords}
}

func joined(all ...[]byte) io.Reader {
	return bytes.NewReader(bytes.Join(all, nil))
}

// scanTask scans the resident case with the given name.
func scanTask(name string, size int, send func(report) error) error {
	for _, c := range residentCases {
		if c.name == name {
			r, err := c.measure(int64(size))
			if err != nil {
				return fmt.Errorf("%s: %w", c.title, err)
			}
			return send(r)
		}
	}
	return fmt.Errorf("no case %q", name)
}

func (c *residentCase) measure(size int64) (r report, err error) {
	in := c.open(size)
	if r.Bytes, r.Signals, err = scan(in, c.format, in.planted); err != nil {
		return r, err
	}
	r.Resident, err = peakResident()
	return r, err
}

func compareResident(s settings) error {
	var t table
	t.row("input", "MB", "signals", "peak resident MB", "goal")
	var wrong []error
	for _, c := range residentCases {
		size := s.stream
		if c.long {
			size = s.line
		}
		progress("resident memory: %s", c.title)
		r, _, err := runChild("scan", c.name, int(size))
		if err != nil {
			wrong = append(wrong, fmt.Errorf("resident memory, %s: %w", c.title, err))
			t.row(c.title, fmt.Sprint(size/megabyte), "", "", "wrong result")
			continue
		}
		peak, goal := "not measured", ""
		if r.Resident > 0 {
			peak = fmt.Sprintf("%.1f", float64(r.Resident)/megabyte)
			goal = formatGoal(fmt.Sprintf("≤ %d MB", goalResident),
				r.Resident <= goalResident*megabyte)
		}
		t.row(c.title, fmt.Sprint(r.Bytes/megabyte), fmt.Sprint(r.Signals), peak, goal)
	}
	t.print("Resident memory of a process that scans a stream")
	return errors.Join(wrong...)
}
