package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"

	"signalbox"
)

const goalResident = 32 // MB

// residentMode as the first argument makes this program a child that scans one input and tells its peak memory. A
// process of its own, because the peak of a process never falls.
const residentMode = "measure-resident"

type residentCase struct {
	name   string
	title  string
	format signalbox.Format
	// long tells whether size is that of a single line.
	long bool
	open func(size int64) *input
}

// input is made while it is read. planted is filled in by the end.
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
	{"claude-tool", "one claude tool result, then a signal", signalbox.FormatClaude, true, longToolResult},
}

func generated(format signalbox.Format) func(int64) *input {
	return func(size int64) *input {
		blocks := newGenerator(seed, size, rare)
		return &input{newStream(blocks, format), &blocks.planted}
	}
}

const lastWords = "READY_FOR_REVIEW: last-1\n\nSummary: done\n"

var plantedLastWords = []planted{{dialect: signalbox.DialectLine, name: "ready_for_review", task: "last-1"}}

// longText is a claude stream whose only text ends in a signal.
func longText(size int64) *input {
	e := envelope{format: signalbox.FormatClaude}
	return &input{io.MultiReader(
		joined(e.begin(nil), e.claudeText(nil)),
		repeat(appendEscaped(nil, []byte("Each line of this text is short,\n\tand \"quoted\" in part.\n")), size),
		joined(appendEscaped(nil, []byte(lastWords)), []byte(claudeTextEnd), e.end(nil)),
	), &plantedLastWords}
}

// longToolResult is a claude stream with a tool result that quotes a signal, and a text that signals.
func longToolResult(size int64) *input {
	e := envelope{format: signalbox.FormatClaude}
	quoted := appendEscaped(nil, []byte("AUDIT_PASSED: quoted-1\n"))
	return &input{io.MultiReader(
		joined(e.begin(nil), e.claudeResult(nil), quoted),
		repeat(appendEscaped(nil, []byte("--- PASS: TestOne (0.00s)\n=== RUN   TestTwo\n")), size),
		joined(quoted, []byte(claudeResultEnd), e.wrap(nil, block{agentVoice, []byte(lastWords)}), e.end(nil)),
	), &plantedLastWords}
}

func joined(all ...[]byte) io.Reader {
	return bytes.NewReader(bytes.Join(all, nil))
}

// residentReport is what the child prints. Resident is 0 where the system does not tell.
type residentReport struct {
	Bytes    int64 `json:"bytes"`
	Heard    int   `json:"heard"`
	Resident int64 `json:"resident"`
}

func (r *residentReport) peak() string {
	if r.Resident == 0 {
		return "not measured"
	}
	return fmt.Sprintf("%.1f", float64(r.Resident)/megabyte)
}

func (r *residentReport) verdict() string {
	if r.Resident == 0 {
		return ""
	}
	return verdict(fmt.Sprintf("≤ %d MB", goalResident), r.Resident <= goalResident*megabyte)
}

func measureResident(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%s: want a case and a size", residentMode)
	}
	size, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	for _, c := range residentCases {
		if c.name == args[0] {
			report, err := c.measure(size)
			if err != nil {
				return fmt.Errorf("%s: %w", c.title, err)
			}
			return json.NewEncoder(os.Stdout).Encode(report)
		}
	}
	return fmt.Errorf("no case %q", args[0])
}

func (c *residentCase) measure(size int64) (report residentReport, err error) {
	in := c.open(size)
	var l listener
	report.Bytes, err = listen(in, c.format, make([]byte, pieceSize), func(signals []signalbox.Signal) {
		l.want = *in.planted
		l.take(signals)
	})
	if err != nil {
		return report, err
	}
	if err := l.verdict(); err != nil {
		return report, err
	}
	report.Heard = l.heard
	report.Resident, err = peakResident()
	return report, err
}

func compareResident(s settings) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var t table
	t.row("input", "MB", "signals", "peak resident MB", "goal")
	var wrong []error
	for _, c := range residentCases {
		size := s.stream
		if c.long {
			size = s.line
		}
		progress("resident memory: %s", c.title)
		var report residentReport
		cmd := exec.Command(self, residentMode, c.name, strconv.FormatInt(size, 10))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(out, &report)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("resident memory, %s: %w", c.title, err))
			t.row(c.title, fmt.Sprint(size/megabyte), "", "", "wrong result")
			continue
		}
		t.row(c.title, fmt.Sprint(report.Bytes/megabyte), fmt.Sprint(report.Heard), report.peak(), report.verdict())
	}
	t.print("Resident memory of a process that scans a stream")
	return errors.Join(wrong...)
}
