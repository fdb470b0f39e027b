package text

import "strings"

// WithoutComments removes HTML comments, which a forge does not show to people, but which a model
// would read. What is left of two comments is not another one. It takes linear time.
func WithoutComments(s string) string {
	const open, end = "<!--", "-->"
	at := strings.Index(s, open)
	if at < 0 {
		return s
	}
	kept := append(make([]byte, 0, len(s)), s[:at]...)
	for rest := s[at:]; rest != ""; {
		kept, rest = append(kept, rest[0]), rest[1:]
		if len(kept) < len(open) || string(kept[len(kept)-len(open):]) != open {
			continue
		}
		kept = kept[:len(kept)-len(open)]
		// without an end, it is a comment up to the end of the text
		_, rest, _ = strings.Cut(rest, end)
	}
	return string(kept)
}
