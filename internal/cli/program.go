// Package cli is what the commands of the program share: streams, answers and notes, input from
// files, editors and terminals, flags, how a box is opened and which configuration counts, and exit
// statuses. Each package below it is a group of commands, except web, with which several groups
// serve a box. A group parses flags and calls the packages that do the work; groups don't import
// each other, and cmd/signalbox lists their commands.
package cli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"signalbox"
	"signalbox/internal/lazy"
	"signalbox/internal/text"
)

// Program is one run of the command line, with its streams and environment, so that tests can
// replace them.
type Program struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string
	Args   []string
	// Version is the one that the linker set for a release, "" otherwise.
	Version string
	// CompletionLimit is how long reading the box for a completion may take; 0 means one second.
	CompletionLimit time.Duration

	// Quiet suppresses notes. Commands set it when a program reads the answer.
	Quiet bool
	// BoxNamed means that the user named the box with --box or SIGNALBOX_BOX. The first FindBox
	// sets it, because later ones may get the folder that it found.
	BoxNamed  bool
	findFirst sync.Once
	// Stopping means that the command only stops work, which it does whatever the team's
	// configuration is.
	Stopping bool

	// draft is the file with a text that the user wrote in an editor, "" if there is none.
	draft string

	// Out buffers stdout and escapes control characters. After a write error all further writes
	// fail, and Main reports the error.
	Out *bufio.Writer
	// Direct buffers stdout and writes the bytes as they are; see Exact.
	Direct *bufio.Writer
}

// Main calls dispatch, prints its error, and returns the exit status. The streams are ready only in
// between.
func (p *Program) Main(dispatch func(*Program) error) int {
	escaper := text.NewEscaper(answer{p.Stdout})
	p.Out, p.Direct = bufio.NewWriterSize(escaper, 64<<10),
		bufio.NewWriterSize(answer{p.Stdout}, 64<<10)
	err := dispatch(p)
	for _, end := range []func() error{p.Out.Flush, escaper.Close, p.Direct.Flush} {
		if endErr := end(); err == nil {
			err = endErr
		}
	}
	if err == nil || errors.Is(err, ErrReaderClosed) {
		removeDraft(p)
		return 0
	}
	printError(p, err)
	keepDraft(p)
	return exitStatus(err)
}

// UsageError adds a hint that points to the help of the command, as far as the arguments name it.
func UsageError(err error, ctx *kong.Context) error {
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

// Build describes how the binary was built.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Build returns how this program was built. What the build did not record is "unknown".
func (p *Program) Build() Build {
	b := Build{Version: cmp.Or(p.Version, "unknown"), Commit: "unknown", Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if p.Version == "" && info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
