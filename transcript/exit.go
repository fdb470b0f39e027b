package transcript

import (
	"errors"
	"fmt"
	"strings"

	"signalbox"
	"signalbox/transcript/internal/payload"
)

// MaxExitBytes is the size of the largest exit signal, white space around it included.
const MaxExitBytes = 65536

// ErrExitDisabled means that exit signals may not act here. Whoever runs the program decides that, not the
// agent: set signalbox.ExitFlag to true.
var ErrExitDisabled = errors.New("exit signal validation is disabled (" + signalbox.ExitFlag + "=false)")

// ExitEnabled reports whether a value of the environment variable signalbox.ExitFlag lets exit signals act:
// true, 1 or yes in any case. Everything else, also a misspelling, does not.
func ExitEnabled(flag string) bool {
	// Not EqualFold: it takes the long s of "yeſ" for an s.
	switch strings.ToLower(flag) {
	case "true", "1", "yes":
		return true
	}
	return false
}

// ParseExit reads and validates one exit signal. It does not ask whether exit signals may act, so it is for
// looking at them; whoever acts on one calls ParseExitIfEnabled. The error is a *signalbox.ExitSignalError.
func ParseExit(data []byte) (*signalbox.ExitSignal, error) {
	if len(data) > MaxExitBytes {
		return nil, &signalbox.ExitSignalError{Msg: fmt.Sprintf("invalid exit signal: more than %d bytes", MaxExitBytes)}
	}
	signal, err := payload.ReadExit(data)
	if err != nil {
		return nil, err
	}
	if err := signal.Validate(); err != nil {
		return nil, err
	}
	return signal, nil
}

// ParseExitIfEnabled is ParseExit for those who act on the signal. flag is the value of signalbox.ExitFlag;
// unless it enables exit signals the error is ErrExitDisabled, whatever data holds.
func ParseExitIfEnabled(data []byte, flag string) (*signalbox.ExitSignal, error) {
	if !ExitEnabled(flag) {
		return nil, ErrExitDisabled
	}
	return ParseExit(data)
}

// SessionCompletedFrom is signalbox.SessionCompletedFrom, here beside the parser for those who integrate agents.
func SessionCompletedFrom(session, actor string, s *signalbox.ExitSignal) signalbox.AgentSessionCompleted {
	return signalbox.SessionCompletedFrom(session, actor, s)
}
