package prompts

import "signalbox"

// SignalsFor returns the signals that a role may send, with the work filled in, and the key that
// they must have unless it is "".
func SignalsFor(role signalbox.Role, work, key string) (signals []Signal) {
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
		if key != "" {
			line += " key:" + key
		}
		help := signalHelp[row.Name]
		signals = append(signals, Signal{row.Name, line, help.when, help.labels})
	}
	return signals
}

var signalHelp = map[string]struct {
	when   string
	labels []string
}{
	signalbox.NameReadyForReview: {"when the whole task is done and the checks pass",
		[]string{"Summary", "Files Modified", "Tests Written", "Environment Verification Matrix"}},
	signalbox.NameTaskIncomplete: {"when you cannot finish",
		[]string{"Cause (missing_information, out_of_scope, infrastructure, waiting or other)",
			"Blocker", "Attempted", "Needed", "Progress", "Blocked By"}},
	signalbox.NameInfraBlocked: {"when something outside the task is broken: tools, the environment, or checks that fail without your change", []string{"Issue", "Command", "Output", "Environment"}},
	signalbox.NameReviewPassed: {"when the change is good",
		[]string{"Files Reviewed", "Quality Assessment"}},
	signalbox.NameReviewFailed: {"when something must be fixed",
		[]string{"Files Reviewed", "Issues Found", "Required Fixes", "Priority"}},
	signalbox.NameAuditPassed: {"when every acceptance criterion is met",
		[]string{"Requirements Verification", "Passing Criteria"}},
	signalbox.NameAuditFailed: {"when a criterion is not met",
		[]string{"Requirements Verification", "Failed Criteria", "Passing Criteria"}},
	signalbox.NameAuditBlocked: {"when you cannot decide because something outside the task is broken", []string{"Pre-existing Failures", "Issue"}},
	signalbox.NameExpandedSpec: {"when the specification is written",
		[]string{"Confidence", "Expanded Specification", "Acceptance Criteria",
			"Technical Approach", "Target Files", "Assumptions", "Edge Cases"}},
	signalbox.NameRemediationComplete: {"when the base branch is fixed",
		[]string{"Issues Fixed", "Verification Results"}},
	signalbox.NameHealthHealthy: {"when everything that was broken works",
		[]string{"Verification Results"}},
	signalbox.NameHealthUnhealthy: {"when something is still broken",
		[]string{"Failed Checks", "Issues Found"}},
	signalbox.NameDivineClarification: {"when only a human can decide",
		[]string{"Task", "Question", "Context", "Options Considered", "Attempts Made",
			"What Would Help"}},
	signalbox.NameExpertRequest: {"when you need an expert's advice, then end your turn",
		[]string{"Target Agent", "Request Type", "Context Snapshot"}},
	signalbox.NameExpertAdvice:       {"when you can help", []string{"Summary"}},
	signalbox.NameExpertUnsuccessful: {"when you cannot help", []string{"Summary"}},
	signalbox.NameExpertCreated: {"when you have described the expert",
		[]string{"Gap", "Keywords"}},
	signalbox.NameFileConflict: {"when you need a file that is not one of your target files",
		nil},
	signalbox.NameCheckpoint: {"every few minutes while you work",
		[]string{"Current Activity", "Estimated Progress", "Estimated Remaining"}},
}
