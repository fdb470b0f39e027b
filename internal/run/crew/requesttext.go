package crew

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/deliver"
	"signalbox/internal/run/issues"
	"signalbox/internal/run/plan"
	"signalbox/internal/run/stored"
	"signalbox/internal/run/workspace"
	"signalbox/internal/text"
)

// describeRequest returns what the pull request of finished work says: the message of its commit,
// the acceptance criteria, the checks that signalbox ran, and who judged the work. Like that
// message, none of it can act on the forge. Only the issue that the work resolves is a reference.
func (m *merge) describeRequest(ctx context.Context, w *rules.Work, message string) (
	deliver.Description, error,
) {
	about := deliver.Description{Work: w.ID, Message: message, Passed: passed(w.Task),
		Below: m.crew.stack.On(w.ID)}
	var task plan.Task
	if text, err := stored.Blob(ctx, m.crew.box, w.Task.Text); err == nil {
		_ = json.Unmarshal(text, &task) // work without a task has no criteria
	}
	if w.Task.Parent == "" { // otherwise an agent wrote the task, and could name any issue
		about.Issue = issues.SourceOf(task)
	}
	section := func(text string) { about.Message += "\n\n" + text }
	if len(task.Criteria) > 0 {
		var criteria strings.Builder
		for _, c := range task.Criteria {
			fmt.Fprintf(&criteria, "- %s\n", text.OneLine(c))
		}
		section("**Acceptance criteria**\n\n" + workspace.RequestText(criteria.String()))
	}
	var checks []string
	for _, c := range m.crew.box.Config.Checks {
		checks = append(checks, c.Name)
	}
	if len(checks) > 0 {
		section("**Checks** that signalbox ran: " +
			workspace.RequestText(strings.Join(checks, ", ")))
	}
	verdicts, err := m.verdicts(ctx, w)
	if err == nil && len(verdicts) > 0 {
		section("**Reviews**: " + workspace.RequestText(strings.Join(verdicts, "; ")))
	}
	return about, err
}

// verdicts returns who judged the commit that is delivered, and how: the verdicts since its checks.
// Each is the last of its kind; one that sent the work back led to other checks.
func (m *merge) verdicts(ctx context.Context, w *rules.Work) (list []string, err error) {
	agents := map[uint64]string{} // by epoch
	var reviewed, audited, approved string
	for after := w.Task.Checks; ; {
		events, err := m.crew.box.Journal.Read(ctx, after, 1000)
		if err != nil {
			return nil, err
		}
		for i := range events {
			e := &events[i]
			after = e.Seq
			if e.Work != w.ID {
				continue
			}
			switch e.Type {
			case rules.TypeAgentStarted:
				var started rules.AgentStarted
				if json.Unmarshal(e.Data, &started) == nil && started.Agent != "" {
					agents[started.Epoch] = " (" + started.Agent + ")"
				}
			case rules.TypeSignalHeard:
				var heard rules.SignalHeard
				if json.Unmarshal(e.Data, &heard) != nil {
					continue
				}
				switch who := agents[heard.Epoch]; heard.Signal {
				case signalbox.NameReviewPassed:
					reviewed = fmt.Sprintf("the %s%s passed it", signalbox.RoleCritic, who)
				case signalbox.NameAuditPassed:
					audited = fmt.Sprintf("the %s%s passed it", signalbox.RoleAuditor, who)
				}
			case rules.TypeMergeApproved:
				approved = e.Actor + " approved it"
			}
		}
		if len(events) == 0 {
			break
		}
	}
	for _, verdict := range []string{reviewed, audited, approved} {
		if verdict != "" {
			list = append(list, verdict)
		}
	}
	return list, nil
}

// passed returns what delivered work has passed: not the gates that its plan skips.
func passed(t *rules.Task) string {
	switch {
	case slices.Contains(t.Skipped, rules.GateReview):
		return "checked"
	case slices.Contains(t.Skipped, rules.GateAudit):
		return "checked and reviewed"
	}
	return "checked, reviewed and audited"
}
