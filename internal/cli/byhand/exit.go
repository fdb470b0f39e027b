package byhand

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/transcript"
)

type ExitCommands struct {
	Check exitCheckCommand `cmd:"" help:"Validate an exit signal."`
}

func (ExitCommands) Help() string {
	return `An exit signal is the JSON object with which an agent ends a work phase. This command only checks it; signalbox work exit submits it.

Examples:

    signalbox exit check exit.json
    signalbox exit check --help`
}

type exitCheckCommand struct {
	cli.AnswerFlag
	File *string `arg:"" optional:"" help:"The file with the exit signal. Default: standard input, like -."`
}

func (exitCheckCommand) Help() string {
	return `Validates an exit signal, a JSON object with "protocol": "apm2_agent_exit", and prints it with the phase that the work would enter next ("next_phase", null if there is none). It reports the first error. Nothing is submitted. Exit signals are off by default: set the environment variable AGENT_EXIT_PROTOCOL_ENABLED to true, 1 or yes.

Examples:

    export AGENT_EXIT_PROTOCOL_ENABLED=true
    signalbox exit check exit.json
    my-agent --last-message | signalbox exit check --json`
}

// checkedExit is the answer: the signal and the next phase.
type checkedExit struct {
	*signalbox.ExitSignal
	NextPhase *signalbox.Phase `json:"next_phase"`
}

func (c *exitCheckCommand) Run(p *cli.Program) error {
	data, err := readExitSignal(p, c.File, false)
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
	return c.Print(p, answer)
}

// readExitSignal reads the file with an exit signal. It returns an error if exit signals are off,
// which may depend on a run.
func readExitSignal(p *cli.Program, file *string, run bool) ([]byte, error) {
	in, err := p.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if !run && !transcript.ExitEnabled(p.Getenv(signalbox.ExitFlag)) {
		return nil, &signalbox.Error{Code: signalbox.CodeFailed, Err: transcript.ErrExitDisabled,
			Hint: "set " + signalbox.ExitFlag + "=true, or ask your operator to"}
	}
	return readExit(in)
}

func invalidExit(err error, data []byte) error {
	hint := exitHint(err)
	if len(data) > transcript.MaxExitBytes {
		hint = "check that this is the right file; long texts belong in the evidence bundle"
	}
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: err, Hint: hint}
}

// readExit reads at most one byte over the limit, which is enough for the parser to refuse it. It
// drops a byte order mark, which some editors write.
func readExit(in io.Reader) ([]byte, error) {
	const mark = "\ufeff"
	data, err := io.ReadAll(io.LimitReader(in, int64(len(mark)+transcript.MaxExitBytes+1)))
	return bytes.TrimPrefix(data, []byte(mark)), err
}

// exitHint returns what to do about an invalid exit signal.
func exitHint(err error) string {
	field := ""
	wrong := (*signalbox.ExitSignalError)(nil)
	if errors.As(err, &wrong) && !strings.HasPrefix(wrong.Msg, "invalid JSON") {
		field = wrong.Field // for invalid JSON, a hint about the value of the field would mislead
	}
	switch field {
	case "protocol":
		return `the protocol is always "` + signalbox.ExitProtocol + `"`
	case "version":
		return `use a version with three numbers, the first of which is 1, such as "1.0.0"`
	case "pr_url":
		return "give the https:// address of the pull request, or leave pr_url out"
	case "evidence_bundle_ref":
		return "give a relative path inside the workspace, or leave evidence_bundle_ref out"
	case "notes":
		return "shorten the notes; long texts belong in the evidence bundle"
	}
	return "send one JSON object with the documented fields, correctly quoted, and nothing after it"
}
