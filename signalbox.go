// Package signalbox is the vocabulary of the whole program: what a signal is, who may send it, which phases
// work goes through, what a stream is written in and told, and how an error is classed. It holds nouns and the
// fixed tables that define them. It imports the standard library only, does no I/O, and every other package may
// import it.
package signalbox

// Dialect tells in which of the three forms a signal was written.
type Dialect string

const (
	// DialectLine is a line such as "READY_FOR_REVIEW: task-1".
	DialectLine Dialect = "line"
	// DialectExit is the JSON object of the agent exit protocol.
	DialectExit Dialect = "exit"
	// DialectTurn is the XML block <signal type="…">…</signal> inside a model's reply.
	DialectTurn Dialect = "turn"
)

// Names that are not in the table of line signals.
const (
	// NameExit is the name of every exit signal.
	NameExit = "agent_exit"
	// NameUnknown is the name of what a turn said when it said nothing that counts. Only resolution yields it.
	NameUnknown = "unknown"
)

// HandlerClarify is the handler of unknown output: it is never ignored.
const HandlerClarify = "REQUEST_CLARIFICATION"

// Signal is one thing an agent signalled, or, when Refused is set, something that looked like a signal and
// was not taken, or a remark about the stream (drift, rate limits).
type Signal struct {
	Dialect Dialect
	// Name is the signal's name in lower case: "ready_for_review", "agent_exit", "need_turn".
	// It is empty for remarks that are about no signal.
	Name string
	// Handler is the coordinator's action for a line signal, such as DISPATCH_CRITIC.
	Handler string
	// TaskID is a line signal's argument, "" for the whole-line forms.
	TaskID string
	// Title is what follows the argument on a line signal's line.
	Title string
	// Exit is set for a valid exit signal, and for a line verdict that an exit signal confirms.
	Exit *ExitSignal
	// Turn is set for a turn signal that could be read.
	Turn *TurnSignal
	// Body is the labelled block after a line signal: a string, a list of strings, or a table for each label.
	Body map[string]any
	// Offset of the first byte in the agent's own text, in raw bytes.
	Offset int64
	// Line is the 1-based line in that text.
	Line int
	// Raw is the signal as written; bytes that are not UTF-8 are shown as U+FFFD.
	Raw string
	// Refused is "" for a signal that was taken, else the reason why it was not.
	Refused Reason
	// Detail explains Refused to the agent: the validation error, or the line to send instead.
	Detail string
}

// Taken reports whether the signal counts.
func (s *Signal) Taken() bool { return s.Refused == "" }

// TurnSignal is what a turn signal's XML block said.
type TurnSignal struct {
	// Confidence is within 0 and 1; 0.5 when the block does not tell.
	Confidence float64
	// Fields are the block's elements but confidence: string, int (counts) or []any (JSON lists).
	Fields map[string]any
	// Raw is the whole block.
	Raw string
}

// Reason says why something that looked like a signal does not count.
type Reason string

const (
	ReasonFenced       Reason = "fenced"        // inside a code fence
	ReasonDelegated    Reason = "delegated"     // inside a delegation prompt
	ReasonNearMiss     Reason = "near_miss"     // almost a line signal; Name is the nearest, Detail the line to send
	ReasonMalformed    Reason = "malformed"     // cannot be read; Detail is the exact error
	ReasonTooLarge     Reason = "too_large"     // over a size limit
	ReasonUnknownType  Reason = "unknown_type"  // a turn signal of no known type
	ReasonInvalidField Reason = "invalid_field" // a remark on a turn signal that still counts
	ReasonSuperseded   Reason = "superseded"    // another signal of the same turn stands instead
	ReasonDuplicate    Reason = "duplicate"     // says the same as the one that stands
	ReasonWrongKey     Reason = "wrong_key"     // the session has a key and the signal does not carry it
	ReasonDrift        Reason = "drift"         // the envelope has a type or field that is not known
	ReasonRateLimited  Reason = "rate_limited"  // the agent's service limits it; Detail has the reset time
	ReasonOutOfRole    Reason = "out_of_role"   // the emitter's role may not send it
	ReasonWrongWork    Reason = "wrong_work"    // about another work item than the emitter's
	ReasonAmbiguous    Reason = "ambiguous"     // the turn contradicts itself

	ReasonStaleLease    Reason = "stale_lease"    // said under a lease that is not the live one
	ReasonPhaseMismatch Reason = "phase_mismatch" // about another phase than the work is in
)
