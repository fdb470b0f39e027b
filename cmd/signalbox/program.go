package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"signalbox"
	"signalbox/internal/lazy"
	"signalbox/internal/text"
)

// program is one run of the command line, with its streams and environment, so that tests can replace them.
type program struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	getenv func(string) string
	args   []string
	// version is the one that the linker set for a release, "" otherwise.
	version string
	// completionLimit is how long reading the box for a completion may take; 0 means one second.
	completionLimit time.Duration

	// quiet suppresses notes. Commands set it when a program reads the answer.
	quiet bool
	// boxNamed means that the user named the box with --box or SIGNALBOX_BOX. The first findBox sets it, because later ones may get the folder that it found.
	boxNamed  bool
	findFirst sync.Once
	// stopping means that the command only stops work, which it does whatever the team's configuration is.
	stopping bool

	// draft is the file with a text that the user wrote in an editor, "" if there is none.
	draft string

	// out buffers stdout and escapes control characters. After a write error all further writes fail, and run reports the error.
	out *bufio.Writer
	// direct buffers stdout and writes the bytes as they are; see exact.
	direct *bufio.Writer
}

// main calls dispatch, prints its error, and returns the exit status. The streams are ready only in between.
func (p *program) main(dispatch func(*program) error) int {
	escaper := text.NewEscaper(answer{p.stdout})
	p.out, p.direct = bufio.NewWriterSize(escaper, 64<<10), bufio.NewWriterSize(answer{p.stdout}, 64<<10)
	err := dispatch(p)
	for _, end := range []func() error{p.out.Flush, escaper.Close, p.direct.Flush} {
		if endErr := end(); err == nil {
			err = endErr
		}
	}
	if err == nil || errors.Is(err, errReaderClosed) {
		p.removeDraft()
		return 0
	}
	p.printError(err)
	p.keepDraft()
	return exitStatus(err)
}

// usageError adds a hint that points to the help of the command, as far as the arguments name it.
func usageError(err error, ctx *kong.Context) error {
	help := []string{"signalbox"}
	if parse := (*kong.ParseError)(nil); errors.As(err, &parse) {
		ctx = parse.Context
	}
	if ctx != nil && ctx.Selected() != nil {
		help = append(help, ctx.Selected().Path())
	}
	if parts := missingValue().FindStringSubmatch(err.Error()); parts != nil {
		err = fmt.Errorf("%s needs a value", parts[1])
	}
	return &signalbox.Error{
		Code: signalbox.CodeUsage,
		Err:  err,
		Hint: "see " + strings.Join(help, " ") + " --help",
	}
}

// missingValue matches kong's error for a flag at the end of the arguments whose value is missing.
var missingValue = lazy.Regexp(`^(--[a-z-]+): expected .* value but got "EOL"`)

// exitStatus returns the exit status for an error.
func exitStatus(err error) int {
	switch signalbox.CodeOf(err) {
	case signalbox.CodeUsage:
		return 2
	case signalbox.CodeNotFound:
		return 3
	case signalbox.CodeConflict:
		return 4
	case signalbox.CodeUnverified:
		return 5
	case signalbox.CodeInterrupted:
		return 130
	}
	return 1
}
