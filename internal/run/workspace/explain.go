package workspace

import (
	"errors"
	"strings"
	"syscall"

	"signalbox"
	"signalbox/internal/text"
)

const noSpace = "no space left on device"

// Explain formats an error with its hint on one line. A full disk comes first, because it explains
// the rest.
func Explain(err error) string {
	msg := text.OneLine(err.Error())
	full := errors.Is(err, syscall.ENOSPC) || strings.Contains(strings.ToLower(msg), noSpace)
	if full && !strings.HasPrefix(msg, noSpace) {
		msg = noSpace + ": " + msg
	}
	if hint := signalbox.HintOf(err); hint != "" {
		msg += " (" + text.OneLine(hint) + ")"
	}
	return msg
}
