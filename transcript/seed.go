package transcript

import (
	"io"

	"signalbox"
	"signalbox/transcript/internal/envelope"
	"signalbox/transcript/internal/seed"
)

// ResolveSeed resolves a turn as the original coordinator's parse_signal did, for those who depend on it: of the
// nineteen patterns the first in table order that matches anywhere in the agent's own text wins. Roles, fences and
// keys do not matter, and an argument may stand on a later line than its signal.
func ResolveSeed(r io.Reader, opts *Options) (signalbox.Signal, error) {
	m := seed.NewMatcher()
	src := envelope.New(opts.orDefault().Format, m)
	err := readAll(r, func(p []byte) bool {
		src.Push(p)
		return true
	})
	src.Close()
	return m.First(), err
}
