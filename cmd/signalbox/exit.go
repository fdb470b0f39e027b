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
	return `An exit signal is the JSON object with which an agent ends a work phase. There is one thing to do with it so far: check it.

Examples:

    signalbox exit check exit.json
    signalbox exit check --help`
}

type exitCheckCommand struct {
	JSON bool    `name:"json" help:"Print the answer on one line."`
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
	in, err := p.open(c.File)
	if err != nil {
		return err
	}
	defer in.Close()
	var data []byte
	flag := p.getenv(signalbox.ExitFlag)
	if transcript.ExitEnabled(flag) {
		if data, err = readExit(in); err != nil {
			return err
		}
	}
	sig, err := transcript.ParseExitIfEnabled(data, flag)
	if err != nil {
		hint := exitHint(err)
		if len(data) > transcript.MaxExitBytes {
			hint = "check that this is the file you meant; what is long belongs in the evidence bundle"
		}
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: err, Hint: hint}
	}
	answer := checkedExit{ExitSignal: sig}
	if next, ok := sig.NextPhase(); ok {
		answer.NextPhase = &next
	}
	indent := "  "
	if c.JSON {
		indent = ""
	}
	return p.printJSON(answer, indent)
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
	if errors.Is(err, transcript.ErrExitDisabled) {
		return "set " + signalbox.ExitFlag + "=true, or ask whoever runs this system to"
	}
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
