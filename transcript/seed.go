package transcript

import (
	"io"

	"signalbox"
	"signalbox/transcript/internal/envelope"
	"signalbox/transcript/internal/seed"
)

// ResolveSeed resolves a turn as the original coordinator's parse_signal did, for users who depend
// on it. Of the nineteen patterns, the first in table order that matches anywhere in the agent's
// own text wins. Roles, fences and keys are ignored, and an argument may be on a later line than
// its signal. As in Resolve, a passing signal of a mixed stream does not count.
func ResolveSeed(r io.Reader, opts *Options) (signalbox.Signal, error) {
	m := seed.NewMatcher()
	source := envelope.New(opts.withDefaults().Format, m, false)
	err := readAll(r, func(p []byte) bool {
		source.Push(p)
		return true
	})
	source.Close()
	first := m.First()
	if mixed := source.Report().Mixed; mixed != "" && first.Passing() {
		first = unknown(signalbox.ReasonMixedFormats, mixed)
	}
	return first, err
}
