// Package decide says what the oracle does after each turn of its model, and which repeated tool calls it refuses.
//
// Decide is the decision table: of its rows, in the order of the code, the first that holds decides. It is total (every
// situation has a decision), deterministic, and it ends: whoever does what it says, and keeps Situation as its fields
// tell, is done after at most TurnLimit+1 turns, whatever the model says. Calls is the rule about tool calls that repeat.
//
// Everything here is plain data in and plain data out: no clock, no I/O, no state but what the caller holds.
package decide

import (
	"strings"
	"time"
)

const (
	// DefaultTurnLimit is how many turns a conversation has where nothing else is said.
	DefaultTurnLimit = 30

	repeatedReason = 3   // so many times the same reason is as good as stuck
	silentTurns    = 3   // so many turns without a signal need a word
	sure           = 0.5 // from here on a wish for another turn is granted
	unsure         = 0.3 // below it the signal says nothing
)

// Resources is what a conversation may cost, or has cost.
type Resources struct {
	Tokens  int64
	CostUSD float64
	Time    time.Duration
}

// Signal is the turn signal that counted in the last turn.
type Signal struct {
	Type       string
	Confidence float64
	Fields     map[string]any
}

// Situation is where a conversation stands after a turn.
type Situation struct {
	// Cancelled is whether somebody wants it to end now.
	Cancelled bool
	// Spent is what it cost so far; Limit is what it may cost, zero or less: as much as it takes.
	Spent, Limit Resources
	// Turn counts the model's turns so far, the last included. TurnLimit is how many there may be before the answer is
	// asked for; zero or less: DefaultTurnLimit.
	Turn, TurnLimit int

	// Signal is what the last turn signalled, nil if nothing.
	Signal *Signal
	// SameReason counts the need_turn signals in a row with the same reason. It matters only if Signal is one of them.
	SameReason int
	// TurnsWithoutSignal counts the turns since the last signal.
	TurnsWithoutSignal int
	// PendingToolCalls counts the tool calls of the last turn; Text is whether it also had text, signals aside.
	PendingToolCalls int
	Text             bool

	// StrategiesTried and HintsGiven count the decisions OtherStrategy and Hint so far.
	StrategiesTried, HintsGiven int
	// Workaround is whether the configuration has another way to what a need_capability signal names. A signal that
	// names a workaround itself needs none.
	Workaround bool
	// SubAgent is whether the sub-agent that a delegation_recommended signal names is configured.
	SubAgent bool
	// Asked is the reason of the decision for which the last turn was asked for the answer (see Do.AsksForAnswer), ""
	// if it was not.
	Asked Reason
}

// Do is what to do next.
type Do string

const (
	GoOn          Do = "go_on"          // run the pending tool calls, if any, and give the model another turn
	AskFinal      Do = "ask_final"      // one last turn, without tools, for the answer from what is known
	OtherStrategy Do = "other_strategy" // another turn, told to try another way
	Acknowledge   Do = "acknowledge"    // one last turn, without tools, for an answer that tells its limits
	ForceAnswer   Do = "force_answer"   // one last turn, without tools, told that wavering is over
	Hint          Do = "hint"           // another turn, told how to signal
	Delegate      Do = "delegate"       // run the sub-agent, then another turn
	Final         Do = "final"          // the end: the text is the answer
	Stop          Do = "stop"           // the end, whether there is an answer or not
)

// Ends reports whether there is no further turn.
func (d Do) Ends() bool { return d == Final || d == Stop }

// AsksForAnswer reports whether the next turn is the last; its Situation has the decision's reason in Asked.
func (d Do) AsksForAnswer() bool { return d == AskFinal || d == Acknowledge || d == ForceAnswer }

// Reason names why. Reasons are shown to users and programs: they are for ever.
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
	// ReasonNoAnswer ends a conversation whose last turn was asked for the answer and had no text.
	ReasonNoAnswer Reason = "no_answer"
)

// Level is how loudly the decision is told to the user.
type Level string

const (
	Quiet   Level = ""
	Warning Level = "warning"
	Error   Level = "error"
)

// Decision is what Decide says.
type Decision struct {
	Do     Do
	Reason Reason
	Level  Level
	// Detail names what the reason is about: the budget (tokens, cost, time), the capability that is missing, the
	// sub-agent. It may be the model's own words.
	Detail string
}

// Decide returns what the first row that holds says.
func Decide(s Situation) Decision {
	budget := s.spentBudget()
	switch {
	case s.Cancelled:
		return Decision{Stop, ReasonCancelled, Error, ""}
	case s.Asked != "": // the second half of each row below that asks for the answer
		return s.afterLastTurn(budget)
	case budget != "":
		return Decision{AskFinal, ReasonBudgetSpent, Warning, budget}
	case s.Turn >= s.turnLimit():
		return Decision{AskFinal, ReasonMaxTurns, Warning, ""}
	case s.signals("context_sufficient"):
		return s.final(ReasonContextSufficient, "")
	case s.signals("partial_answer"):
		return s.final(ReasonPartialAnswer, s.field("missing"))
	case s.signals("stuck"):
		return s.fallBack(ReasonStuck, s.field("blocker"))
	case s.signals("need_turn") && s.SameReason >= repeatedReason:
		return s.fallBack(ReasonSameReason, s.field("reason"))
	case s.signals("need_capability"):
		if s.Workaround || s.field("workaround") != "" {
			return Decision{GoOn, ReasonNeedCapability, Warning, s.field("capability")}
		}
		d := s.final(ReasonNeedCapability, s.field("capability"))
		d.Level = Warning
		return d
	case s.signals("delegation_recommended"):
		if s.SubAgent {
			return Decision{Delegate, ReasonDelegation, Quiet, s.field("subagent_type")}
		}
		return Decision{GoOn, ReasonDelegation, Quiet, s.field("subagent_type")}
	case s.signals("need_turn") && s.Signal.Confidence >= sure:
		return Decision{GoOn, ReasonNeedTurn, Quiet, ""}
	case s.PendingToolCalls > 0:
		return Decision{GoOn, ReasonToolCalls, Quiet, ""}
	case s.TurnsWithoutSignal >= silentTurns:
		return s.silent()
	case s.Signal != nil && s.Signal.Confidence < unsure:
		return s.nudge(ReasonLowConfidence)
	case s.Text:
		return Decision{Final, ReasonAnswered, Quiet, ""}
	}
	// Neither text nor calls, and perhaps a hesitant wish for another turn: granted, silence ends by its own row.
	return Decision{GoOn, ReasonNothingSaid, Quiet, ""}
}

// spentBudget names the budget that is spent, "" if none is.
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

// field returns a field of the signal that is text, without the white space around it.
func (s *Situation) field(name string) string {
	text, _ := s.Signal.Fields[name].(string)
	return strings.TrimSpace(text)
}

// afterLastTurn ends a conversation whose answer was asked for: what came is the answer.
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

// final takes the text for the answer. A model that signals the end and says nothing is asked for what it found.
func (s *Situation) final(reason Reason, detail string) Decision {
	if !s.Text {
		return Decision{AskFinal, reason, Quiet, detail}
	}
	return Decision{Final, reason, Quiet, detail}
}

// fallBack tries another strategy once, then has the limit acknowledged.
func (s *Situation) fallBack(reason Reason, detail string) Decision {
	if s.StrategiesTried == 0 {
		return Decision{OtherStrategy, reason, Quiet, detail}
	}
	return Decision{Acknowledge, reason, Warning, detail}
}

// silent is for a model that does not signal. Most models that finish so have answered.
func (s *Situation) silent() Decision {
	if s.Text {
		return Decision{Final, ReasonNoSignal, Quiet, ""}
	}
	return s.nudge(ReasonNoSignal)
}

// nudge hints once, then wants the answer.
func (s *Situation) nudge(reason Reason) Decision {
	if s.HintsGiven == 0 {
		return Decision{Hint, reason, Quiet, ""}
	}
	return Decision{ForceAnswer, reason, Warning, ""}
}
