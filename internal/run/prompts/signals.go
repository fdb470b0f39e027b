package prompts

import "signalbox"

// SignalsFor returns the signals that a role may send, with the work filled in.
func SignalsFor(role signalbox.Role, work string) (signals []Signal) {
	for _, row := range signalbox.LineSignals() {
		if !role.MaySend(row.Name) {
			continue
		}
		line := row.Text
		switch row.Argument {
		case signalbox.TaskArgument:
			line += ": " + work
		case signalbox.NameArgument:
			line += ": NAME"
		case signalbox.PathArgument:
			line += ": PATH"
		}
		help := signalHelp[row.Name]
		signals = append(signals, Signal{line, help.when, help.labels})
	}
	return signals
}

var signalHelp = map[string]struct {
	when   string
	labels []string
}{
	"ready_for_review":     {"when the whole task is done and the checks pass", []string{"Summary", "Files Modified", "Tests Written", "Environment Verification Matrix"}},
	"task_incomplete":      {"when you cannot finish", []string{"Blocker", "Attempted", "Needed", "Progress", "Blocked By"}},
	"infra_blocked":        {"when something outside the task is broken: tools, the environment, or checks that fail without your change", []string{"Issue", "Command", "Output", "Environment"}},
	"review_passed":        {"when the change is good", []string{"Files Reviewed", "Quality Assessment"}},
	"review_failed":        {"when something must be fixed", []string{"Files Reviewed", "Issues Found", "Required Fixes", "Priority"}},
	"audit_passed":         {"when every acceptance criterion is met", []string{"Requirements Verification", "Passing Criteria"}},
	"audit_failed":         {"when a criterion is not met", []string{"Requirements Verification", "Failed Criteria", "Passing Criteria"}},
	"audit_blocked":        {"when you cannot decide because something outside the task is broken", []string{"Pre-existing Failures", "Issue"}},
	"expanded_spec":        {"when the specification is written", []string{"Confidence", "Expanded Specification", "Acceptance Criteria", "Technical Approach", "Target Files", "Assumptions", "Edge Cases"}},
	"remediation_complete": {"when the base branch is fixed", []string{"Issues Fixed", "Verification Results"}},
	"health_healthy":       {"when everything that was broken works", []string{"Verification Results"}},
	"health_unhealthy":     {"when something is still broken", []string{"Failed Checks", "Issues Found"}},
	"divine_clarification": {"when only a human can decide", []string{"Task", "Question", "Context", "Options Considered", "Attempts Made", "What Would Help"}},
	"expert_request":       {"when you need an expert's advice, then end your turn", []string{"Target Agent", "Request Type", "Context Snapshot"}},
	"expert_advice":        {"when you can help", []string{"Summary"}},
	"expert_unsuccessful":  {"when you cannot help", []string{"Summary"}},
	"expert_created":       {"when you have described the expert", []string{"Gap", "Keywords"}},
	"file_conflict":        {"when you need a file that is not one of your target files", nil},
	"checkpoint":           {"every few minutes while you work", []string{"Current Activity", "Estimated Progress", "Estimated Remaining"}},
}
