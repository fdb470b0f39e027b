package signalbox

// LineSignal is one row of the table of line signals.
type LineSignal struct {
	// Name is the signal's name, as in Signal.Name.
	Name string
	// Text is what the agent writes at column 0, without the colon before an argument.
	Text string
	// Handler is the coordinator's action.
	Handler string
	// Argument is the kind of value after the colon; NoArgument means that the signal is the whole
	// line.
	Argument Argument
	// Family groups the signals that replace one another within a turn.
	Family string
	// Urgent signals act as soon as they are read, while the agent still runs. All others are
	// verdicts and act at the end of the agent's turn.
	Urgent bool
	// Passing signals say that something succeeded and let the work advance. See Signal.Passing.
	Passing bool
}

// Argument is the kind of a line signal's argument.
type Argument int

const (
	NoArgument   Argument = iota // a whole-line signal
	TaskArgument                 // the id of a work item
	NameArgument                 // the name of an expert
	PathArgument                 // a file, in double quotes if its name contains spaces
)

// Names of the line signals, as in Signal.Name.
const (
	NameReadyForReview      = "ready_for_review"
	NameTaskIncomplete      = "task_incomplete"
	NameInfraBlocked        = "infra_blocked"
	NameReviewPassed        = "review_passed"
	NameReviewFailed        = "review_failed"
	NameAuditPassed         = "audit_passed"
	NameAuditFailed         = "audit_failed"
	NameAuditBlocked        = "audit_blocked"
	NameExpandedSpec        = "expanded_spec"
	NameRemediationComplete = "remediation_complete"
	NameHealthHealthy       = "health_healthy"
	NameHealthUnhealthy     = "health_unhealthy"
	NameDivineClarification = "divine_clarification"
	NameExpertRequest       = "expert_request"
	NameExpertAdvice        = "expert_advice"
	NameExpertUnsuccessful  = "expert_unsuccessful"
	NameExpertCreated       = "expert_created"
	NameFileConflict        = "file_conflict"
	NameCheckpoint          = "checkpoint"
)

// Families with more than one signal. Every other signal is a family of its own, named like the
// signal.
const (
	FamilyDelivery = "delivery"
	FamilyReview   = "review"
	FamilyAudit    = "audit"
	FamilyHealth   = "health"
	// FamilyEvery marks the one signal that belongs to every family of verdicts about a task.
	FamilyEvery = "*"
)

// The order is the precedence between families.
var lineSignals = [...]LineSignal{
	{NameReadyForReview, "READY_FOR_REVIEW", "DISPATCH_CRITIC", TaskArgument, FamilyDelivery, false,
		true},
	{NameTaskIncomplete, "TASK_INCOMPLETE", "LOG_AND_FILL_SLOTS", TaskArgument, FamilyDelivery,
		false, false},
	{NameInfraBlocked, "INFRA_BLOCKED", "ENTER_REMEDIATION", TaskArgument, FamilyDelivery, false,
		false},
	{NameReviewPassed, "REVIEW_PASSED", "DISPATCH_AUDITOR", TaskArgument, FamilyReview, false,
		true},
	{NameReviewFailed, "REVIEW_FAILED", "DISPATCH_DEVELOPER_REWORK", TaskArgument, FamilyReview,
		false, false},
	{NameAuditPassed, "AUDIT_PASSED", "MARK_COMPLETE", TaskArgument, FamilyAudit, false, true},
	{NameAuditFailed, "AUDIT_FAILED", "DISPATCH_DEVELOPER_REWORK", TaskArgument, FamilyAudit, false,
		false},
	{NameAuditBlocked, "AUDIT_BLOCKED", "ENTER_REMEDIATION", TaskArgument, FamilyAudit, false,
		false},
	{NameExpandedSpec, "EXPANDED_TASK_SPECIFICATION", "PROCESS_EXPANSION", TaskArgument,
		NameExpandedSpec, false, true},
	{NameRemediationComplete, "REMEDIATION_COMPLETE", "DISPATCH_HEALTH_AUDITOR", NoArgument,
		NameRemediationComplete, false, true},
	{NameHealthHealthy, "HEALTH_AUDIT: HEALTHY", "EXIT_REMEDIATION", NoArgument, FamilyHealth,
		false, true},
	{NameHealthUnhealthy, "HEALTH_AUDIT: UNHEALTHY", "RETRY_REMEDIATION", NoArgument, FamilyHealth,
		false, false},
	{NameDivineClarification, "SEEKING_DIVINE_CLARIFICATION", "AWAIT_DIVINE_RESPONSE", NoArgument,
		FamilyEvery, false, false},
	{NameExpertRequest, "EXPERT_REQUEST", "DISPATCH_EXPERT", NoArgument, NameExpertRequest, true,
		false},
	{NameExpertAdvice, "EXPERT_ADVICE", "DELIVER_TO_REQUESTING_AGENT", TaskArgument,
		NameExpertAdvice, false, true},
	{NameExpertUnsuccessful, "EXPERT_UNSUCCESSFUL", "ESCALATE_TO_DIVINE", TaskArgument,
		NameExpertUnsuccessful, false, false},
	{NameExpertCreated, "EXPERT_CREATED", "REGISTER_EXPERT", NameArgument, NameExpertCreated, false,
		true},
	{NameFileConflict, "FILE CONFLICT", "QUEUE_OR_COORDINATE", PathArgument, NameFileConflict, true,
		false},
	{NameCheckpoint, "CHECKPOINT", "PROCESS_CHECKPOINT", TaskArgument, NameCheckpoint, true, false},
}

// LineSignals returns the nineteen line signals in order of precedence.
func LineSignals() []LineSignal { return append([]LineSignal(nil), lineSignals[:]...) }

// LineSignalNamed returns the line signal called name, and whether there is one.
func LineSignalNamed(name string) (LineSignal, bool) {
	for _, s := range lineSignals {
		if s.Name == name {
			return s, true
		}
	}
	return LineSignal{}, false
}
