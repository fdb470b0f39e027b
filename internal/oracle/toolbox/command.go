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
)

// KeyVariable is the environment variable with the key of a call, which is the same for each try of it, so that a program
// can tell that it did it before. Programs that are tools of behaviour trees know it by the same name.
const KeyVariable = process.KeyVariable

const (
	// maxPrinted is how much a command may print before it is ended. The model sees MaxResult of it.
	maxPrinted   = 1 << 20
	maxComplaint = 2 << 10
	commandGrace = 3 * time.Second
)

// Command is a tool that is a line for the shell.
type Command struct {
	Line        string
	Description string
	// Parameters is the JSON schema of an object. Nil: any arguments are taken.
	Parameters json.RawMessage
	// ReadOnly, Timeout: as those of a Tool, with the same zero values.
	ReadOnly bool
	Timeout  time.Duration
	// Dir is where it runs. Empty: the folder of this process.
	Dir string
	// Without are variables of the environment that it does not see, such as those with the keys of models: what it prints
	// is shown to a model. Nil: it sees all but those of signalbox itself.
	Without []string
}

// FromCommand is a tool that is a shell command. It gets the arguments as a JSON object on standard input; what it prints
// is the result; an exit status other than 0 is a failure, of which the model sees the end of standard error. It runs in a
// process group of its own and is ended, with all that it started, when its time is up or the call is cancelled, and
// before the same call is tried again. It works on Linux and macOS; elsewhere each call fails and says so.
func FromCommand(name string, c Command) Tool {
	schema := c.Parameters
	if len(bytes.TrimSpace(schema)) == 0 {
		schema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return Tool{Name: name, Description: c.Description, Kind: prompt.OtherTool, Schema: schema, ReadOnly: c.ReadOnly, Timeout: c.Timeout, End: endCommand,
		Use: func(ctx context.Context, call Call) (Result, error) { return c.run(ctx, call) }}
}

// endCommand ends the program of a call, if a process that was killed has left it behind.
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
	complaint := &ending{}
	line := process.Shell{Line: c.Line, Dir: c.Dir, Env: append(c.environment(), KeyVariable+"="+call.Key), Input: append(bytes.Clone(input), '\n'),
		Limit: maxPrinted, Grace: commandGrace, Stderr: complaint}
	if call.Key != "" {
		line.Session = session(call.Key)
	}
	printed, err := line.Run(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		return Result{}, fmt.Errorf("the command of the tool cannot be run: %w", err)
	case err != nil:
		return Result{}, err
	case printed.Truncated:
		return Result{}, &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("the command printed more than %d bytes and was ended", maxPrinted),
			Hint: "ask for less at once; it began with:\n" + Cut(valid(printed.Output), maxComplaint)}
	case printed.Exit.Err != nil:
		return Result{}, printed.Exit.Err
	case printed.Exit.Code != 0:
		return Result{}, errors.New(complaintOf(printed.Exit, complaint.String(), printed.Output))
	}
	return Result{Text: strings.TrimRight(printed.Output, "\n")}, nil
}

// environment is what it sees of that of this process.
func (c Command) environment() []string {
	return slices.DeleteFunc(process.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(c.Without, name)
	})
}

// session names the processes of a call, which may have any key.
func session(key string) string {
	sum := sha256.Sum256([]byte(key))
	return process.NestedSession("oracle-" + hex.EncodeToString(sum[:12]))
}

// complaintOf tells how a command failed, in the last words of what it wrote. Some write them to the wrong place.
func complaintOf(exit process.Exit, said, printed string) string {
	text := fmt.Sprintf("the command failed with exit status %d", exit.Code)
	if exit.Signal != "" {
		text += " (" + exit.Signal + ")"
	}
	for _, words := range []string{said, printed} {
		if words = strings.TrimSpace(valid(words)); words != "" {
			return text + ": " + tail(words, maxComplaint)
		}
	}
	return text + " and said nothing"
}

// ending keeps the last of what is written.
type ending struct{ kept []byte }

// Write takes all and never fails.
func (e *ending) Write(p []byte) (int, error) {
	e.kept = append(e.kept, p...)
	if len(e.kept) > 4*maxComplaint {
		e.kept = append(e.kept[:0], e.kept[len(e.kept)-2*maxComplaint:]...)
	}
	return len(p), nil
}

func (e *ending) String() string { return string(e.kept) }
