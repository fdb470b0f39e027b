package signalbox

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

const (
	maxExitURL   = 2048
	maxExitRef   = 2048
	maxExitNotes = 10240

	// maxExitExcerpt is how many bytes of an invalid value its error quotes, to keep prompts and
	// logs short.
	maxExitExcerpt = 64
)

// ExitSignalError is why an exit signal was refused. Its text is meant for the agent, which can
// correct the signal and send it again.
type ExitSignalError struct {
	// Field is the invalid JSON field, "" if the error is about the signal as a whole.
	Field string
	// Msg may quote the agent.
	Msg string
}

// Error returns Msg with control characters escaped, because it is shown on terminals and in
// prompts.
func (e *ExitSignalError) Error() string {
	if strings.IndexFunc(e.Msg, unprintable) < 0 {
		return e.Msg
	}
	var b strings.Builder
	for _, r := range e.Msg {
		if unprintable(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool { return !strconv.IsPrint(r) }

// ExitExcerpt returns the part of an invalid value that an error quotes: all of it, or its first 64
// bytes and an ellipsis.
func ExitExcerpt(value string) string {
	if len(value) <= maxExitExcerpt {
		return value
	}
	return strings.ToValidUTF8(value[:maxExitExcerpt], "") + "…"
}

// Validate returns an *ExitSignalError for the first invalid field, in the order of the protocol:
// protocol, version, pr_url, evidence_bundle_ref, notes. Parsing has already checked the phase and
// the reason; for signals built in Go they are checked last.
func (s *ExitSignal) Validate() error {
	if s.Protocol != ExitProtocol {
		return &ExitSignalError{"protocol",
			fmt.Sprintf("unknown protocol: expected '%s', got '%s'", ExitProtocol,
				ExitExcerpt(s.Protocol))}
	}
	if strings.EqualFold(s.Version, "1.x") {
		return &ExitSignalError{"version", fmt.Sprintf(
			"unsupported version: expected numbers, such as '%s', got '%s'", ExitVersion,
			s.Version)}
	}
	if !supportedExitVersion(s.Version) {
		return &ExitSignalError{"version",
			fmt.Sprintf("unsupported version: expected '1.x', got '%s'", ExitExcerpt(s.Version))}
	}
	if s.PRURL != nil {
		if fault := pullRequestFault(*s.PRURL); fault != "" {
			return invalidExitField("pr_url", fault)
		}
	}
	if s.EvidenceBundleRef != nil {
		if fault := evidenceFault(*s.EvidenceBundleRef); fault != "" {
			return invalidExitField("evidence_bundle_ref", fault)
		}
	}
	if s.Notes != nil && len(*s.Notes) > maxExitNotes {
		return invalidExitField("notes", overLimit(*s.Notes, maxExitNotes))
	}
	if !slices.Contains(Phases(), s.PhaseCompleted) {
		return invalidExitField("phase_completed",
			fmt.Sprintf("no phase is named '%s'", ExitExcerpt(string(s.PhaseCompleted))))
	}
	if !slices.Contains(ExitReasons(), s.ExitReason) {
		return invalidExitField("exit_reason",
			fmt.Sprintf("no reason is named '%s'", ExitExcerpt(string(s.ExitReason))))
	}
	return nil
}

func invalidExitField(field, fault string) error {
	return &ExitSignalError{field, "invalid " + field + ": " + fault}
}

func overLimit(value string, limit int) string {
	return fmt.Sprintf("%d bytes, limit %d", len(value), limit)
}

// supportedExitVersion accepts 1.MINOR.PATCH as in Semantic Versioning: ASCII digits without
// leading zeros.
func supportedExitVersion(version string) bool {
	rest, ok := strings.CutPrefix(version, "1.")
	if !ok {
		return false
	}
	minor, patch, ok := strings.Cut(rest, ".")
	return ok && isVersionNumber(minor) && isVersionNumber(patch)
}

func isVersionNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == "" && (s == "0" || s[0] != '0')
}

// pullRequestFault returns what is wrong with the URL of a pull request, or "". It refuses
// characters that a shell would interpret if someone pasted the URL into one.
func pullRequestFault(address string) string {
	if len(address) > maxExitURL {
		return overLimit(address, maxExitURL)
	}
	if !strings.HasPrefix(address, "https://") {
		return "must start with 'https://'"
	}
	if !namesHost(address) {
		return "must name a host after 'https://'"
	}
	if i := strings.IndexAny(address, ";|`$"); i >= 0 {
		return fmt.Sprintf("must not contain '%c'", address[i])
	}
	return controlFault(address)
}

// namesHost reports whether an https URL has a host. It ignores the path: one that is not escaped
// properly does no harm.
func namesHost(address string) bool {
	start := len("https://")
	if length := strings.IndexAny(address[start:], "/?#"); length >= 0 {
		address = address[:start+length]
	}
	u, err := url.Parse(address)
	return err == nil && u.Hostname() != ""
}

// evidenceFault returns what is wrong with a path to evidence, or "". The path is joined to a
// folder, and must not lead out of it on any operating system.
func evidenceFault(ref string) string {
	switch {
	case len(ref) > maxExitRef:
		return overLimit(ref, maxExitRef)
	case ref == "":
		return "must not be empty"
	case ref[0] == '/' || hasDriveLetter(ref):
		return "must be a relative path"
	case hasParentElement(ref):
		return "must not contain a '..' element"
	case strings.Contains(ref, `\`):
		return `must not contain '\'`
	}
	return controlFault(ref)
}

func hasDriveLetter(path string) bool {
	return len(path) >= 2 && path[1] == ':' && 'a' <= path[0]|0x20 && path[0]|0x20 <= 'z'
}

func hasParentElement(path string) bool {
	for element := range strings.SplitSeq(path, "/") {
		if element == ".." {
			return true
		}
	}
	return false
}

func controlFault(s string) string {
	if strings.IndexFunc(s, unicode.IsControl) >= 0 {
		return "must not contain control characters"
	}
	return ""
}
