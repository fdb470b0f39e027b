// Package signalbox is the vocabulary that all packages share: signals and who may send them, the
// phases of work, leases, events, the formats of agents' output, and error codes. It contains
// types, constants and fixed tables, imports only the standard library, and does no I/O.
package signalbox

// Dialect is one of the three forms in which a signal can be written.
type Dialect string

const (
	// DialectLine is a line such as "READY_FOR_REVIEW: task-1".
	DialectLine Dialect = "line"
	// DialectExit is the JSON object of the agent exit protocol.
	DialectExit Dialect = "exit"
	// DialectTurn is the XML block <signal type="…">…</signal> inside a model's reply.
	DialectTurn Dialect = "turn"
)

// Names of signals that are neither line signals nor turn signals.
const (
	// NameExit is the name of every exit signal.
	NameExit = "agent_exit"
	// NameUnknown is the name of the result when a turn contains no valid signal.
	NameUnknown = "unknown"
)

// HandlerClarify is the handler for a turn without a valid signal: the agent is asked what it
// means.
const HandlerClarify = "REQUEST_CLARIFICATION"

// Signal is a signal in an agent's output. If Refused is set, it is text that resembles a signal
// and does not count, or a remark about the stream (drift, rate limits).
type Signal struct {
	Dialect Dialect
	// Name is the signal's name in lower case: "ready_for_review", "agent_exit", "need_turn".
	// It is empty for remarks that are not about a signal.
	Name string
	// Handler is the coordinator's action for a line signal, such as DISPATCH_CRITIC.
	Handler string
	// TaskID is a line signal's argument, "" for whole-line signals.
	TaskID string
	// Title is the text after the argument on a line signal's line.
	Title string
	// Exit is set for a valid exit signal, and for a line verdict that an exit signal confirms.
	Exit *ExitSignal
	// Turn is set for a turn signal that could be parsed.
	Turn *TurnSignal
	// Body is the labelled block after a line signal. Each label has a string, a []string, or, for
	// nested labels, a []map[string]any of the same.
	Body map[string]any
	// Offset is the position of the first byte in the agent's own text.
	Offset int64
	// Line is the 1-based line in that text.
	Line int
	// From and To are where the signal is in the whole stream, with everything that is not text:
	// the position of its first byte, and that after its last. Both are 0 if no one asked for them
	// (transcript.Options.Locate), and if they are not known.
	From, To int64
	// Followed is set for a verdict that passes work if other text than its labelled fields follows
	// it in its turn.
	Followed bool
	// Raw is the signal as written; bytes that are not UTF-8 are shown as U+FFFD.
	Raw string
	// Refused is why the signal does not count, "" if it does.
	Refused Reason
	// Detail explains Refused to the agent: the validation error, or the line to send instead.
	Detail string
}

// Taken reports whether the signal counts.
func (s *Signal) Taken() bool { return s.Refused == "" }

// Passing reports whether the signal says that something succeeded, so that work or a conversation
// advances on its word: the line signals whose LineSignal is Passing, an exit signal with the
// reason completed, and the turn signal context_sufficient. It does not depend on Refused.
//
// A passing signal needs more than others before it may count: an output that is not ambiguous
// (StreamReport.Mixed), and, where a program is run, the end of its turn. All other signals only
// stop, delay or ask.
func (s *Signal) Passing() bool {
	switch s.Dialect {
	case DialectLine:
		row, _ := LineSignalNamed(s.Name)
		return row.Passing || s.Exit != nil && s.Exit.ExitReason == ExitCompleted
	case DialectExit:
		return s.Exit != nil && s.Exit.ExitReason == ExitCompleted
	case DialectTurn:
		return s.Name == NameContextSufficient
	}
	return false
}

// TurnSignal is the content of a turn signal's XML block.
type TurnSignal struct {
	// Confidence is from 0 to 1; 0.5 if the block has none.
	Confidence float64
	// Fields are the block's elements except confidence. Values are string, int (counts) or []any
	// (JSON lists).
	Fields map[string]any
	// Raw is the whole block.
	Raw string
}

// Reason is why text that resembles a signal does not count.
type Reason string

const (
	ReasonFenced    Reason = "fenced"    // inside a code fence
	ReasonDelegated Reason = "delegated" // inside a delegation prompt
	ReasonThinking  Reason = "thinking"  // inside what the agent thinks, such as <think>
	// almost a line signal; Name is the nearest, Detail the line to send
	ReasonNearMiss     Reason = "near_miss"
	ReasonMalformed    Reason = "malformed"     // cannot be parsed; Detail is the error
	ReasonTooLarge     Reason = "too_large"     // over a size limit
	ReasonUnknownType  Reason = "unknown_type"  // a turn signal of an unknown type
	ReasonInvalidField Reason = "invalid_field" // a remark on a turn signal that still counts
	ReasonSuperseded   Reason = "superseded"    // another signal of the same turn replaces it
	ReasonDuplicate    Reason = "duplicate"     // repeats the signal that counts
	// the session has a key and the signal does not carry it
	ReasonWrongKey Reason = "wrong_key"
	ReasonDrift    Reason = "drift" // the envelope has an unknown type or field
	// the agent's service limits it; Detail has the reset time
	ReasonRateLimited Reason = "rate_limited"
	ReasonOutOfRole   Reason = "out_of_role" // the sender's role may not send it
	ReasonWrongWork   Reason = "wrong_work"  // about a work item that is not the sender's
	ReasonAmbiguous   Reason = "ambiguous"   // the turn contradicts itself
	// text follows a verdict that passes work, which must be the last thing of a turn
	ReasonTextAfter Reason = "text_after"

	// The output of the agent program contains something that is not the agent's.
	// the output changed its format, so no passing signal counts
	ReasonMixedFormats   Reason = "mixed_formats"
	ReasonForeignSession Reason = "foreign_session" // a JSON line of another session, or of none
	ReasonSubAgent       Reason = "sub_agent"       // a JSON line of a sub-agent
	ReasonReplayed       Reason = "replayed"        // a JSON line that repeats an earlier one

	ReasonQuoted Reason = "quoted" // a turn signal inside inline code

	ReasonStaleLease    Reason = "stale_lease"    // sent under a lease that is no longer live
	ReasonPhaseMismatch Reason = "phase_mismatch" // about a phase that the work is not in
	// the caller does not have the secret of the lease
	ReasonWrongSecret Reason = "wrong_secret"
)
