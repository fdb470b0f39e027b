// Package decide determines what the oracle does after each turn of its model, and which repeated
// tool calls it refuses.
//
// Decide is the decision table: the first matching row, in the order of the code, determines the
// decision. It is total (every situation has a decision) and deterministic, and it terminates: a
// caller that follows its decisions and maintains Situation as documented ends after at most
// TurnLimit+1 turns, whatever the model says. Calls is the rule about repeated tool calls.
//
// The package is pure: no clock, no I/O, no state.
package decide

import (
	"strings"
	"time"

	"signalbox"
)

const (
	// DefaultTurnLimit is the number of turns of a conversation without a configured limit.
	DefaultTurnLimit = 30

	repeatedReason  = 3   // need_turn signals with the same reason that count as stuck
	silentTurns     = 3   // turns without a signal after which the model gets a hint
	needTurnMinimum = 0.5 // confidence from which need_turn gets another turn
	lowConfidence   = 0.3 // confidence below which a model without text gets a hint
)

// Resources is the cost of a conversation, or its limit.
type Resources struct {
	Tokens  int64
	CostUSD float64
	Time    time.Duration
}

// Signal is the valid turn signal of the last turn.
type Signal struct {
	Type       string
	Confidence float64
	Fields     map[string]any
}

// Situation is the state of a conversation after a turn.
type Situation struct {
	// Cancelled reports whether the user cancelled the conversation.
	Cancelled bool
	// Spent is the cost so far, Limit the cost allowed. A field of Limit that is zero or less means
	// no limit.
	Spent, Limit Resources
	// Turn counts the model's turns so far, including the last. TurnLimit is the number of turns
	// after which the model must answer; zero or less means DefaultTurnLimit.
	Turn, TurnLimit int

	// Signal is the signal of the last turn, nil if it had none.
	Signal *Signal
	// SameReason counts the consecutive need_turn signals with the same reason. It is used only if
	// Signal is one of them.
	SameReason int
	// TurnsWithoutSignal counts the turns since the last signal.
	TurnsWithoutSignal int
	// PendingToolCalls counts the tool calls of the last turn. Text reports whether it had text
	// other than signals.
	PendingToolCalls int
	Text             bool
	// Cut is why the last turn is incomplete, "" if it is complete: ReasonTokenLimit, ReasonRefused
	// or ReasonTimeLimit.
	Cut Reason

	// StrategiesTried and HintsGiven count the decisions OtherStrategy and Hint so far.
	StrategiesTried, HintsGiven int
	// Workaround reports whether the configuration has a workaround for the capability of a
	// need_capability signal. A signal can also have a workaround of its own.
	Workaround bool
	// SubAgent reports whether the sub-agent of a delegation_recommended signal is configured.
	SubAgent bool
	// Asked is the reason of the decision that made the last turn the one that must answer (see
	// Action.AsksForAnswer), "" if there was none.
	Asked Reason
}

// Action is what to do next.
type Action string

const (
	Continue Action = "go_on" // another turn, after the pending tool calls
	// one last turn without tools, to answer from what is known
	AskFinal      Action = "ask_final"
	OtherStrategy Action = "other_strategy" // another turn, with the advice to try another way
	// one last turn without tools, for an answer that states its limits
	Acknowledge Action = "acknowledge"
	// one last turn without tools, with the demand to answer now
	ForceAnswer Action = "force_answer"
	Hint        Action = "hint"     // another turn, with a hint how to signal
	Delegate    Action = "delegate" // run the sub-agent, then another turn
	Final       Action = "final"    // end: the text is the answer
	Stop        Action = "stop"     // end, with or without an answer
)

// Ends reports whether there is no further turn.
func (a Action) Ends() bool { return a == Final || a == Stop }

// AsksForAnswer reports whether the next turn is the last. Situation.Asked of that turn is the
// decision's reason.
func (a Action) AsksForAnswer() bool {
	return a == AskFinal || a == Acknowledge || a == ForceAnswer
}

// Reason is the reason of a decision. Users and programs see it, so its values never change.
type Reason string

const (
	ReasonCancelled         Reason = "cancelled"
	ReasonBudgetSpent       Reason = "budget_spent"
	ReasonMaxTurns          Reason = "max_turns_exceeded"
	ReasonContextSufficient Reason = "context_sufficient"
	ReasonPartialAnswer     Reason = "partial_answer"
	ReasonStuck             Reason = "stuck"
	ReasonSameReason        Reason = "same_reason"
	ReasonNeedCapability    Reason = "need_capability"
	ReasonDelegation        Reason = "delegation_recommended"
	ReasonNeedTurn          Reason = "need_turn"
	ReasonToolCalls         Reason = "tool_calls"
	ReasonNoSignal          Reason = "turns_without_signal"
	ReasonLowConfidence     Reason = "low_confidence"
	ReasonAnswered          Reason = "answered"
	ReasonNothingSaid       Reason = "nothing_said"
	// ReasonNoAnswer means that the turn that had to answer had no text.
	ReasonNoAnswer Reason = "no_answer"
	// The text of the last turn is not an answer, because it was cut at the longest reply allowed,
	// refused by the model or a filter of its server, or cut at the time limit of the question.
	ReasonTokenLimit Reason = "token_limit"
	ReasonRefused    Reason = "refused"
	ReasonTimeLimit  Reason = "time_limit"
)

// Incomplete reports whether a conversation that ended for this reason has no complete answer,
// although its last turn may have text.
func (r Reason) Incomplete() bool {
	return r == ReasonTokenLimit || r == ReasonRefused || r == ReasonTimeLimit
}

// Level is how prominently a decision is shown to the user.
type Level string

const (
	Quiet   Level = ""
	Warning Level = "warning"
	Error   Level = "error"
)

// Decision is the result of Decide.
type Decision struct {
	Action Action
	Reason Reason
	Level  Level
	// Detail is what the reason is about: the budget (tokens, cost, time), the missing capability,
	// the sub-agent. It may be text of the model.
	Detail string
}

// Decide returns the decision of the first row that matches. A turn that is incomplete is never the
// answer, whatever it signals.
func Decide(s Situation) Decision {
	d := s.firstMatch()
	refused := s.Cut == ReasonRefused && s.PendingToolCalls == 0
	if s.Cut != "" && d.Reason != ReasonCancelled && (d.Action.Ends() || refused) {
		return Decision{Stop, s.Cut, Warning, ""}
	}
	return d
}

func (s *Situation) firstMatch() Decision {
	budget := s.spentBudget()
	switch {
	case s.Cancelled:
		return Decision{Stop, ReasonCancelled, Error, ""}
	case s.Asked != "": // the turn after AskFinal, Acknowledge or ForceAnswer
		return s.afterLastTurn(budget)
	case budget != "":
		return Decision{AskFinal, ReasonBudgetSpent, Warning, budget}
	case s.Turn >= s.turnLimit():
		return Decision{AskFinal, ReasonMaxTurns, Warning, ""}
	case s.signals(signalbox.NameContextSufficient):
		return s.final(ReasonContextSufficient, "")
	case s.signals(signalbox.NamePartialAnswer):
		return s.final(ReasonPartialAnswer, s.field("missing"))
	case s.signals(signalbox.NameStuck):
		return s.fallBack(ReasonStuck, s.field("blocker"))
	case s.signals(signalbox.NameNeedTurn) && s.SameReason >= repeatedReason:
		return s.fallBack(ReasonSameReason, s.field("reason"))
	case s.signals(signalbox.NameNeedCapability):
		if s.Workaround || s.field("workaround") != "" {
			return Decision{Continue, ReasonNeedCapability, Warning, s.field("capability")}
		}
		d := s.final(ReasonNeedCapability, s.field("capability"))
		d.Level = Warning
		return d
	case s.signals(signalbox.NameDelegationRecommended):
		if s.SubAgent {
			return Decision{Delegate, ReasonDelegation, Quiet, s.field("subagent_type")}
		}
		return Decision{Continue, ReasonDelegation, Quiet, s.field("subagent_type")}
	case s.signals(signalbox.NameNeedTurn) && s.Signal.Confidence >= needTurnMinimum:
		return Decision{Continue, ReasonNeedTurn, Quiet, ""}
	case s.PendingToolCalls > 0:
		return Decision{Continue, ReasonToolCalls, Quiet, ""}
	case s.TurnsWithoutSignal >= silentTurns:
		return s.silent()
	case s.Signal != nil && s.Signal.Confidence < lowConfidence:
		return s.unsure()
	case s.Text:
		return Decision{Final, ReasonAnswered, Quiet, ""}
	}
	// Neither text nor calls, and perhaps a need_turn of low confidence: another turn. Repetition
	// ends by the row for silent turns.
	return Decision{Continue, ReasonNothingSaid, Quiet, ""}
}

// spentBudget returns the name of a spent budget, or "".
func (s *Situation) spentBudget() string {
	switch {
	case s.Limit.Tokens > 0 && s.Spent.Tokens >= s.Limit.Tokens:
		return "tokens"
	case s.Limit.CostUSD > 0 && s.Spent.CostUSD >= s.Limit.CostUSD:
		return "cost"
	case s.Limit.Time > 0 && s.Spent.Time >= s.Limit.Time:
		return "time"
	}
	return ""
}

func (s *Situation) turnLimit() int {
	if s.TurnLimit <= 0 {
		return DefaultTurnLimit
	}
	return s.TurnLimit
}

func (s *Situation) signals(name string) bool { return s.Signal != nil && s.Signal.Type == name }

// field returns a text field of the signal, trimmed.
func (s *Situation) field(name string) string {
	text, _ := s.Signal.Fields[name].(string)
	return strings.TrimSpace(text)
}

// afterLastTurn ends a conversation after the turn that had to answer.
func (s *Situation) afterLastTurn(budget string) Decision {
	switch {
	case s.Asked == ReasonBudgetSpent:
		return Decision{Stop, ReasonBudgetSpent, Warning, budget}
	case s.Asked == ReasonMaxTurns:
		return Decision{Stop, ReasonMaxTurns, Warning, ""}
	case !s.Text:
		return Decision{Stop, ReasonNoAnswer, Warning, string(s.Asked)}
	case s.Asked == ReasonContextSufficient:
		return Decision{Final, s.Asked, Quiet, ""}
	}
	return Decision{Final, s.Asked, Warning, ""}
}

// final accepts the text as the answer. A model that signals the end without text is asked for its
// answer.
func (s *Situation) final(reason Reason, detail string) Decision {
	if !s.Text {
		return Decision{AskFinal, reason, Quiet, detail}
	}
	return Decision{Final, reason, Quiet, detail}
}

// fallBack asks for another strategy once, then for an answer that states its limits.
func (s *Situation) fallBack(reason Reason, detail string) Decision {
	if s.StrategiesTried == 0 {
		return Decision{OtherStrategy, reason, Quiet, detail}
	}
	return Decision{Acknowledge, reason, Warning, detail}
}

// silent handles a model that does not signal. If it wrote text, that is most likely the answer.
func (s *Situation) silent() Decision {
	if s.Text {
		return Decision{Final, ReasonNoSignal, Quiet, ""}
	}
	return s.hintOrForce(ReasonNoSignal)
}

// unsure handles a need_turn of low confidence. With text it must end the conversation like one of
// medium confidence: otherwise a model that is more certain that it needs another turn would not
// get one.
func (s *Situation) unsure() Decision {
	if s.Text {
		return Decision{Final, ReasonLowConfidence, Warning, ""}
	}
	return s.hintOrForce(ReasonLowConfidence)
}

// hintOrForce gives a hint once, then demands the answer.
func (s *Situation) hintOrForce(reason Reason) Decision {
	if s.HintsGiven == 0 {
		return Decision{Hint, reason, Quiet, ""}
	}
	return Decision{ForceAnswer, reason, Warning, ""}
}
