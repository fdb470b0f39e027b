package signalbox

import "time"

// Format names the envelope in which an agent program writes.
type Format string

const (
	FormatAuto     Format = "auto" // to be recognised
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

// StreamReport is what a stream told beside its signals.
type StreamReport struct {
	// Format is the envelope read, FormatAuto while it is not yet recognised.
	Format Format
	// Ended is set while the envelope says that the agent's turn is over. In opencode more may follow
	// within moments; wait a little before you believe it.
	Ended bool
	// Failed is set when the agent program reported failure; Error is its message.
	Failed bool
	Error  string
	// Usage is what the agent program reported, summed over turns.
	Usage Usage
	// RateLimit is the last rate limit reported; its Status is empty if there was none.
	RateLimit RateLimit
	// Noise counts lines that were no JSON in a JSON envelope.
	Noise int
	// Dropped counts the signals beyond those that are kept of a stream; see transcript.MaxSignals.
	Dropped int
}

// Usage is what a model's work cost, as the agent program reported it.
type Usage struct {
	InputTokens, CachedInputTokens, OutputTokens int64
	CostUSD                                      float64
}

// RateLimit is what the agent's service said of its limits. Only a status such as "rejected" means that it will not
// serve the agent for a while; "allowed" does not.
type RateLimit struct {
	Status string
	// ResetsAt is when it will serve again, zero if it did not say.
	ResetsAt time.Time
}
