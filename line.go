package signalbox

// LineSignal is one row of the table of line signals.
type LineSignal struct {
	// Name is the signal's name, as in Signal.Name.
	Name string
	// Text is what the agent writes at column 0, without the colon before an argument.
	Text string
	// Handler is the coordinator's action.
	Handler string
	// Argument says what follows the colon; NoArgument marks a whole-line signal.
	Argument Argument
	// Family groups the signals that correct one another within a turn.
	Family string
	// Urgent signals act when heard, while the agent still runs; all others are verdicts and act at the
	// end of its turn.
	Urgent bool
}

// Argument is the kind of a line signal's argument.
type Argument int

const (
	NoArgument   Argument = iota // a whole-line signal
	TaskArgument                 // the id of a work item
	NameArgument                 // the name of an expert
	PathArgument                 // a file, in double quotes if it holds spaces
)

// FamilyEvery marks the one signal that belongs to every family of verdicts about a task.
const FamilyEvery = "*"

// The order is the precedence between families.
var lineSignals = [...]LineSignal{
	{"ready_for_review", "READY_FOR_REVIEW", "DISPATCH_CRITIC", TaskArgument, "delivery", false},
	{"task_incomplete", "TASK_INCOMPLETE", "LOG_AND_FILL_SLOTS", TaskArgument, "delivery", false},
	{"infra_blocked", "INFRA_BLOCKED", "ENTER_REMEDIATION", TaskArgument, "delivery", false},
	{"review_passed", "REVIEW_PASSED", "DISPATCH_AUDITOR", TaskArgument, "review", false},
	{"review_failed", "REVIEW_FAILED", "DISPATCH_DEVELOPER_REWORK", TaskArgument, "review", false},
	{"audit_passed", "AUDIT_PASSED", "MARK_COMPLETE", TaskArgument, "audit", false},
	{"audit_failed", "AUDIT_FAILED", "DISPATCH_DEVELOPER_REWORK", TaskArgument, "audit", false},
	{"audit_blocked", "AUDIT_BLOCKED", "ENTER_REMEDIATION", TaskArgument, "audit", false},
	{"expanded_spec", "EXPANDED_TASK_SPECIFICATION", "PROCESS_EXPANSION", TaskArgument, "expanded_spec", false},
	{"remediation_complete", "REMEDIATION_COMPLETE", "DISPATCH_HEALTH_AUDITOR", NoArgument, "remediation_complete", false},
	{"health_healthy", "HEALTH_AUDIT: HEALTHY", "EXIT_REMEDIATION", NoArgument, "health", false},
	{"health_unhealthy", "HEALTH_AUDIT: UNHEALTHY", "RETRY_REMEDIATION", NoArgument, "health", false},
	{"divine_clarification", "SEEKING_DIVINE_CLARIFICATION", "AWAIT_DIVINE_RESPONSE", NoArgument, FamilyEvery, false},
	{"expert_request", "EXPERT_REQUEST", "DISPATCH_EXPERT", NoArgument, "expert_request", true},
	{"expert_advice", "EXPERT_ADVICE", "DELIVER_TO_REQUESTING_AGENT", TaskArgument, "expert_advice", false},
	{"expert_unsuccessful", "EXPERT_UNSUCCESSFUL", "ESCALATE_TO_DIVINE", TaskArgument, "expert_unsuccessful", false},
	{"expert_created", "EXPERT_CREATED", "REGISTER_EXPERT", NameArgument, "expert_created", false},
	{"file_conflict", "FILE CONFLICT", "QUEUE_OR_COORDINATE", PathArgument, "file_conflict", true},
	{"checkpoint", "CHECKPOINT", "PROCESS_CHECKPOINT", TaskArgument, "checkpoint", true},
}

// LineSignals returns the nineteen line signals in the table's order, which is their precedence.
func LineSignals() []LineSignal { return append([]LineSignal(nil), lineSignals[:]...) }

// LineSignalNamed finds a row of the table by name.
func LineSignalNamed(name string) (LineSignal, bool) {
	for _, s := range lineSignals {
		if s.Name == name {
			return s, true
		}
	}
	return LineSignal{}, false
}
