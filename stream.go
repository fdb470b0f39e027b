package signalbox

import "time"

// Format is the format of an agent program's output.
type Format string

const (
	FormatAuto     Format = "auto" // detected from the output
	FormatPlain    Format = "plain"
	FormatClaude   Format = "claude"
	FormatCodex    Format = "codex"
	FormatGemini   Format = "gemini"
	FormatOpencode Format = "opencode"
	FormatOracle   Format = "oracle" // signalbox oracle --json, and agents that are trees
)

// Formats returns all formats, auto first.
func Formats() []Format {
	return []Format{FormatAuto, FormatPlain, FormatClaude, FormatCodex, FormatGemini,
		FormatOpencode, FormatOracle}
}

// StreamReport is what a stream contained besides signals.
type StreamReport struct {
	// Format is the format of the stream, FormatAuto until it is detected.
	Format Format
	// Mixed is why the output cannot be trusted to be of one format, "" if it can. It is set when
	// FormatAuto has detected a format and the output then continues in another one, or as text
	// that is not JSON. It is never cleared, and passing signals of such an output do not count
	// (Signal.Passing). A format that was named rather than detected is never mixed.
	Mixed string
	// Ended is set when the agent program itself reports the end of its turn, and cleared if the
	// agent continues: the last end is the one that counts. With opencode that may happen within
	// moments, so wait briefly before relying on it. Lines of other sessions do not end the turn.
	// FormatPlain has no end of turn; there Ended is never set.
	Ended bool
	// Failed is set when the agent program reported failure; Error is its message. If Ended is set
	// too, the turn ended with the failure. A later end of turn without one clears it.
	Failed bool
	Error  string
	// ErrorStatus is the HTTP status of the service that led to the failure, 0 if the program does
	// not report one.
	ErrorStatus int
	// Retrying is the last error of a program that tries again, "" if it reported none, or if the
	// agent continued since.
	Retrying string
	// Usage is the sum over all turns.
	Usage Usage
	// RateLimit is the last rate limit reported; its Status is empty if none was.
	RateLimit RateLimit
	// Noise counts lines that are not JSON in a format of JSON lines.
	Noise int
	// Dropped counts the signals that exceeded transcript.MaxSignals.
	Dropped int
}

// Usage is the tokens and the cost that an agent program reported. InputTokens of claude and
// opencode do not include what was read from a cache or written to it; those of other programs do.
type Usage struct {
	InputTokens, CachedInputTokens, OutputTokens int64
	// CacheWriteTokens is the input that claude and opencode wrote to a cache.
	CacheWriteTokens int64
	CostUSD          float64
}

// RateLimit is a rate limit that the agent's service reported. The status "allowed" is only
// informational; others, such as "rejected", mean that the service is refusing requests.
type RateLimit struct {
	Status string
	// ResetsAt is when requests are accepted again, zero if unknown.
	ResetsAt time.Time
}
