package transcript

import (
	"errors"
	"fmt"
	"strings"

	"signalbox"
	"signalbox/transcript/internal/lines"
	"signalbox/transcript/internal/payload"
)

// MaxExitBytes is the size of the largest exit signal, including white space around it.
const MaxExitBytes = 65536

// ErrExitDisabled means that exit signals are disabled. The operator enables them by setting the
// environment variable signalbox.ExitFlag to true; an agent cannot.
var ErrExitDisabled = errors.New("exit signal validation is disabled (" + signalbox.ExitFlag +
	"=false)")

// ExitEnabled reports whether flag, a value of the environment variable signalbox.ExitFlag, enables
// exit signals: true, 1 or yes in any case. Any other value, including a misspelling, does not.
func ExitEnabled(flag string) bool {
	// Not EqualFold, which accepts the long s in "yeſ".
	switch strings.ToLower(flag) {
	case "true", "1", "yes":
		return true
	}
	return false
}

// ParseExit parses and validates one exit signal. It does not check whether exit signals are
// enabled: call ParseExitIfEnabled before acting on one. The error is a *signalbox.ExitSignalError.
func ParseExit(data []byte) (*signalbox.ExitSignal, error) {
	if len(data) > MaxExitBytes {
		return nil, &signalbox.ExitSignalError{Msg: fmt.Sprintf(
			"invalid exit signal: more than %d bytes", MaxExitBytes)}
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

// ParseExitIfEnabled is like ParseExit but returns ErrExitDisabled, whatever data is, unless flag
// enables exit signals. flag is the value of signalbox.ExitFlag.
func ParseExitIfEnabled(data []byte, flag string) (*signalbox.ExitSignal, error) {
	if !ExitEnabled(flag) {
		return nil, ErrExitDisabled
	}
	return ParseExit(data)
}

// exitSignal parses an object that names the protocol as a signal.
func exitSignal(o exitObject, key string) signalbox.Signal {
	sig := signalbox.Signal{Dialect: signalbox.DialectExit, Name: signalbox.NameExit,
		Offset: o.at, Line: o.line, Raw: lines.Valid(o.raw)}
	exit, err := ParseExit(o.raw)
	switch {
	case o.tooLarge:
		sig.Raw, sig.Refused = lines.Excerpt(o.raw), signalbox.ReasonTooLarge
		sig.Detail = fmt.Sprintf("an exit signal is at most %d bytes", MaxExitBytes)
	case err != nil:
		sig.Refused, sig.Detail = signalbox.ReasonMalformed, err.Error()
	default:
		sig.Exit = exit
	}
	switch {
	case o.refused != "":
		sig.Refused, sig.Detail = o.refused, ""
	case key != "" && sig.Taken():
		sig.Refused = signalbox.ReasonWrongKey
		sig.Detail = "in a keyed session submit the exit signal with signalbox work exit"
	}
	return sig
}
