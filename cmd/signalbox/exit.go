package main

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"signalbox"
	"signalbox/transcript"
)

type exitCommands struct {
	Check exitCheckCommand `cmd:"" help:"Validate one exit signal."`
}

func (exitCommands) Help() string {
	return `An exit signal is the JSON object with which an agent ends a work phase. Here it is checked; signalbox work exit hands it in.

Examples:

    signalbox exit check exit.json
    signalbox exit check --help`
}

type exitCheckCommand struct {
	answerFlag
	File *string `arg:"" optional:"" help:"The exit signal; - or none is standard input."`
}

func (exitCheckCommand) Help() string {
	return `Validates one exit signal, a JSON object with "protocol": "apm2_agent_exit", and prints it with the phase that the work would enter next ("next_phase", null when there is none). It stops at the first thing that is wrong and says what. Nothing is submitted. The environment variable AGENT_EXIT_PROTOCOL_ENABLED must be true, 1 or yes: exit signals are off until somebody decides otherwise.

Examples:

    export AGENT_EXIT_PROTOCOL_ENABLED=true
    signalbox exit check exit.json
    my-agent --last-message | signalbox exit check --json`
}

// checkedExit is the answer: the signal and where it would lead.
type checkedExit struct {
	*signalbox.ExitSignal
	NextPhase *signalbox.Phase `json:"next_phase"`
}

func (c *exitCheckCommand) Run(p *program) error {
	data, err := p.readExitSignal(c.File)
	if err != nil {
		return err
	}
	sig, err := transcript.ParseExit(data)
	if err != nil {
		return invalidExit(err, data)
	}
	answer := checkedExit{ExitSignal: sig}
	if next, ok := sig.NextPhase(); ok {
		answer.NextPhase = &next
	}
	return c.print(p, answer)
}

// readExitSignal reads the file with an exit signal. While exit signals are off it is an error, whatever the file holds.
func (p *program) readExitSignal(file *string) ([]byte, error) {
	in, err := p.open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if !transcript.ExitEnabled(p.getenv(signalbox.ExitFlag)) {
		return nil, &signalbox.Error{Code: signalbox.CodeFailed, Err: transcript.ErrExitDisabled,
			Hint: "set " + signalbox.ExitFlag + "=true, or ask whoever runs this system to"}
	}
	return readExit(in)
}

func invalidExit(err error, data []byte) error {
	hint := exitHint(err)
	if len(data) > transcript.MaxExitBytes {
		hint = "check that this is the file you meant; what is long belongs in the evidence bundle"
	}
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: err, Hint: hint}
}

// readExit reads what is enough for the parser, one byte over the limit if there is more. A byte order mark is an
// editor's doing, and dropped.
func readExit(in io.Reader) ([]byte, error) {
	const mark = "\ufeff"
	data, err := io.ReadAll(io.LimitReader(in, int64(len(mark)+transcript.MaxExitBytes+1)))
	return bytes.TrimPrefix(data, []byte(mark)), err
}

// exitHint says what the agent, or whoever runs it, should do about a refused exit signal.
func exitHint(err error) string {
	field := ""
	wrong := (*signalbox.ExitSignalError)(nil)
	if errors.As(err, &wrong) && !strings.HasPrefix(wrong.Msg, "invalid JSON") {
		field = wrong.Field // where the JSON itself is wrong, advice about the field's value would mislead
	}
	switch field {
	case "protocol":
		return `the protocol is always "` + signalbox.ExitProtocol + `"`
	case "version":
		return `use a version that begins with 1 and has three numbers, such as "1.0.0"`
	case "pr_url":
		return "give the https:// address of the pull request, or leave pr_url out"
	case "evidence_bundle_ref":
		return "give a relative path inside the workspace, or leave evidence_bundle_ref out"
	case "notes":
		return "shorten the notes; what is long belongs in the evidence bundle"
	}
	return "send one JSON object with the documented fields, correctly quoted, and nothing after it"
}
