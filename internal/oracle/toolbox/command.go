package toolbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/process"
	"signalbox/internal/sandbox"
	"signalbox/internal/text"
)

// KeyVariable is the environment variable that holds the key of a call. Every attempt of a call has
// the same key, so that a program can recognise a repeated call. Tools of behaviour trees get the
// same variable.
const KeyVariable = process.KeyVariable

const (
	// maxPrinted is how many bytes a command may print before it is stopped. The model sees
	// MaxResult of them.
	maxPrinted = 1 << 20
	// maxComplaint is how many bytes of a failed command's output an error shows.
	maxComplaint = 2 << 10
	commandGrace = 3 * time.Second
)

// Command is a shell command that serves as a tool.
type Command struct {
	Line        string
	Description string
	// Parameters is the JSON schema of the arguments, which are an object. Nil allows any
	// arguments.
	Parameters json.RawMessage
	// ReadOnly and Timeout are those of Tool.
	ReadOnly bool
	Timeout  time.Duration
	// Dir is the working directory. Empty means that of this process.
	Dir string
	// Env is its environment, except for the key of a call. What the command prints is sent to a
	// model, so it should have no API keys. Nil means that of this process without signalbox's own
	// variables.
	Env []string
	// Sandbox is what the command may do; nil means what this process may do.
	Sandbox *sandbox.Policy
}

// FromCommand returns a tool that runs a shell command. The command reads the arguments as a JSON
// object from standard input and prints the result. If its exit status is not 0 the call fails, and
// the model sees the end of standard error. The command runs in its own process group and is
// stopped, with everything it started, on timeout, on cancellation, and before the same call is
// retried. It works on Linux and macOS; elsewhere every call fails with an error that says so.
func FromCommand(name string, c Command) Tool {
	schema := c.Parameters
	if len(bytes.TrimSpace(schema)) == 0 {
		schema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return Tool{Name: name, Description: c.Description, Kind: prompt.OtherTool, Schema: schema,
		ReadOnly: c.ReadOnly, Timeout: c.Timeout, End: endCommand,
		Use: func(ctx context.Context, call Call) (Result, error) { return c.run(ctx, call) }}
}

// endCommand stops the program of a call that an earlier, killed process of signalbox left running.
func endCommand(key string) error {
	if key == "" {
		return nil
	}
	_, err := process.EndSession(session(key), commandGrace)
	return err
}

func (c Command) run(ctx context.Context, call Call) (Result, error) {
	input := call.Arguments
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	stderr := &tailWriter{}
	line := process.Shell{Line: c.Line, Dir: c.Dir, Env: append(c.environment(), KeyVariable+"="+call.Key), Sandbox: c.Sandbox, Input: append(bytes.Clone(input), '\n'),
		Limit: maxPrinted, Grace: commandGrace, Stderr: stderr}
	if call.Key != "" {
		line.Session = session(call.Key)
	}
	printed, err := line.Run(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		return Result{}, fmt.Errorf("cannot run the command of the tool: %w", err)
	case err != nil:
		return Result{}, err
	case printed.Truncated:
		return Result{}, signalbox.CodeFailed.Errorf("ask for less at once; it began with:\n"+
			text.Truncate(valid(printed.Output), maxComplaint),
			"the command printed more than %d bytes and was stopped", maxPrinted)
	case printed.Exit.Err != nil:
		return Result{}, printed.Exit.Err
	case printed.Exit.Code != 0:
		return Result{}, errors.New(failure(printed.Exit, stderr.String(), printed.Output))
	}
	return Result{Text: strings.TrimRight(printed.Output, "\n")}, nil
}

// environment returns the environment of the command.
func (c Command) environment() []string {
	if c.Env == nil {
		return process.Environ()
	}
	return slices.Clone(c.Env)
}

// session returns the name of the process session of a call. The key is hashed, because it may be
// any text.
func session(key string) string {
	sum := sha256.Sum256([]byte(key))
	return process.NestedSession("oracle-" + hex.EncodeToString(sum[:12]))
}

// failure describes how a command failed, with the end of its standard error, or else of its
// standard output.
func failure(exit process.Exit, stderr, stdout string) string {
	message := fmt.Sprintf("the command failed with exit status %d", exit.Code)
	if exit.Signal != "" {
		message += " (" + exit.Signal + ")"
	}
	for _, output := range []string{stderr, stdout} {
		if output = strings.TrimSpace(valid(output)); output != "" {
			return message + ": " + text.Tail(output, maxComplaint)
		}
	}
	return message + " and printed nothing"
}

// tailWriter keeps the end of what is written to it.
type tailWriter struct{ kept []byte }

// Write implements [io.Writer]. It never fails.
func (w *tailWriter) Write(p []byte) (int, error) {
	w.kept = append(w.kept, p...)
	if len(w.kept) > 4*maxComplaint {
		w.kept = append(w.kept[:0], w.kept[len(w.kept)-2*maxComplaint:]...)
	}
	return len(p), nil
}

func (w *tailWriter) String() string { return string(w.kept) }
