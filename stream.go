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
	return []Format{FormatAuto, FormatPlain, FormatClaude, FormatCodex, FormatGemini, FormatOpencode, FormatOracle}
}

// StreamReport is what a stream contained besides signals.
type StreamReport struct {
	// Format is the format of the stream, FormatAuto until it is detected.
	Format Format
	// Ended is set when the agent reports the end of its turn, and cleared if output follows. With opencode that may happen
	// within moments, so wait briefly before relying on it.
	Ended bool
	// Failed is set when the agent program reported failure; Error is its message.
	Failed bool
	Error  string
	// Usage is the sum over all turns.
	Usage Usage
	// RateLimit is the last rate limit reported; its Status is empty if none was.
	RateLimit RateLimit
	// Noise counts lines that are not JSON in a format of JSON lines.
	Noise int
	// Dropped counts the signals that exceeded transcript.MaxSignals.
	Dropped int
}

// Usage is the tokens and the cost that an agent program reported.
type Usage struct {
	InputTokens, CachedInputTokens, OutputTokens int64
	CostUSD                                      float64
}

// RateLimit is a rate limit that the agent's service reported. The status "allowed" is only informational; others, such as
// "rejected", mean that the service is refusing requests.
type RateLimit struct {
	Status string
	// ResetsAt is when requests are accepted again, zero if unknown.
	ResetsAt time.Time
}
