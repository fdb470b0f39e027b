package crew

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/plan"
)

// prompter is what building a prompt needs: it reads and changes nothing.
type prompter struct {
	config *config.Config
	dir    string
	view   func(func(*rules.State))
	blob   func(context.Context, signalbox.Hash) ([]byte, error)
}

func (c *Crew) prompter() *prompter {
	return &prompter{c.box.Config, c.box.Dir, c.box.Engine.View, c.blob}
}

// Prompt returns the prompt that an agent of a role would be given about work now, for people to look at.
func Prompt(ctx context.Context, b *box.Box, role signalbox.Role, work string) ([]byte, error) {
	c := &Crew{box: b}
	if err := c.prompter().fits(role, work); err != nil {
		return nil, err
	}
	dir := filepath.Join(b.Dir, TreesFolder, work)
	if b.Config.Workspace == config.WorkspaceShared {
		dir = filepath.Dir(b.Dir)
	} else if role != signalbox.RoleDeveloper && role != signalbox.RoleRemediation {
		dir = "a copy of " + dir // which has a name of its own each time
	}
	return c.Prompt(ctx, role, work, dir, lastTurn{})
}

// fits refuses a role that nobody ever has on such work. Work that is not there is refused later.
func (p *prompter) fits(role signalbox.Role, work string) error {
	var w *rules.Work
	p.view(func(s *rules.State) { w, _ = s.Work(work) })
	if w == nil || w.Task == nil {
		return nil
	}
	roles := map[rules.Kind][]signalbox.Role{
		rules.KindTask:        {signalbox.RoleDeveloper, signalbox.RoleCritic, signalbox.RoleAuditor, signalbox.RoleBusinessAnalyst},
		rules.KindRemediation: {signalbox.RoleRemediation, signalbox.RoleHealthAuditor},
		rules.KindExpert:      {signalbox.RoleExpert, signalbox.RoleExpertCreator},
	}[w.Task.Kind]
	if slices.Contains(roles, role) {
		return nil
	}
	hint := "no agent works on it"
	if len(roles) > 0 {
		hint = fmt.Sprintf("those who work on it are: %s", strings.Trim(fmt.Sprint(roles), "[]"))
	}
	return &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("no %s works on '%s', which is a %s", role, work, w.Task.Kind), Hint: hint}
}

// check finds what is wrong with the templates of the configuration before an agent is to be told something.
func (p *prompter) check() error {
	for _, role := range config.AgentRoles() {
		if p.config.RoleOf(role).Prompt == "" {
			continue
		}
		if _, err := p.render(role, fullBrief(role)); err != nil {
			return err
		}
	}
	return nil
}

// fullBrief has something of everything, so that a template which is given it goes everywhere.
func fullBrief(role signalbox.Role) *Brief {
	text := []string{"text"}
	finding := []BriefFinding{{"review", "T0", "text", "text"}}
	return &Brief{Role: role, Work: "T1", Title: "text", Phase: "IMPLEMENTATION", Dir: ".",
		Task: plan.Task{ID: "T1", Title: "text", Phase: "text", Work: "text", Criteria: text, BlockedBy: text, Reading: text, Environments: text,
			Files: text, Budget: &plan.Budget{}, Notes: "text"},
		Specification: "text", Checks: []BriefCheck{{"text", "text"}}, Environments: text, Protected: text,
		Experts: []rules.Expert{{Name: "text", Gap: "text", Keywords: text}}, Findings: finding, Answers: []BriefAnswer{{"text", "text"}},
		Advice: []BriefAdvice{{"text", "text"}}, Overlaps: text, Conflicts: text, Context: "text", Results: text, Differs: text, Issues: finding,
		Request: "text", Asker: "T0", Expert: "text", Instructions: "text", Signals: signalsFor(role, "T1"), Again: true, Output: "text", Wrong: "text"}
}

// signalsFor are the signals that a role may send, with the work filled in.
func signalsFor(role signalbox.Role, work string) (signals []BriefSignal) {
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
		about := aboutSignals[row.Name]
		signals = append(signals, BriefSignal{line, about.when, about.labels})
	}
	return signals
}

var aboutSignals = map[string]struct {
	when   string
	labels []string
}{
	"ready_for_review":     {"when everything the task asks for is done and the checks pass", []string{"Summary", "Files Modified", "Tests Written", "Environment Verification Matrix"}},
	"task_incomplete":      {"when you cannot finish", []string{"Blocker", "Attempted", "Needed", "Progress", "Blocked By"}},
	"infra_blocked":        {"when something that is not part of the task is broken: tools, the environment, checks that fail without your change", []string{"Issue", "Command", "Output", "Environment"}},
	"review_passed":        {"when the change is good", []string{"Files Reviewed", "Quality Assessment"}},
	"review_failed":        {"when something has to be mended", []string{"Files Reviewed", "Issues Found", "Required Fixes", "Priority"}},
	"audit_passed":         {"when every acceptance criterion is met", []string{"Requirements Verification", "Passing Criteria"}},
	"audit_failed":         {"when one is not", []string{"Requirements Verification", "Failed Criteria", "Passing Criteria"}},
	"audit_blocked":        {"when you cannot tell, because something that is not part of the task is broken", []string{"Pre-existing Failures", "Issue"}},
	"expanded_spec":        {"when the specification is written", []string{"Confidence", "Expanded Specification", "Acceptance Criteria", "Technical Approach", "Target Files", "Assumptions", "Edge Cases"}},
	"remediation_complete": {"when the base is mended", []string{"Issues Fixed", "Verification Results"}},
	"health_healthy":       {"when everything that was broken works", []string{"Verification Results"}},
	"health_unhealthy":     {"when something is still broken", []string{"Failed Checks", "Issues Found"}},
	"divine_clarification": {"when only a human can decide", []string{"Task", "Question", "Context", "Options Considered", "Attempts Made", "What Would Help"}},
	"expert_request":       {"when you need an expert's advice; then end your turn and wait", []string{"Target Agent", "Request Type", "Context Snapshot"}},
	"expert_advice":        {"when you can help", []string{"Summary"}},
	"expert_unsuccessful":  {"when you cannot", []string{"Summary"}},
	"expert_created":       {"when the expert is described", []string{"Gap", "Keywords"}},
	"file_conflict":        {"when you need a file that is not among your target files", nil},
	"checkpoint":           {"while you work, every few minutes", []string{"Current Activity", "Estimated Progress", "Estimated Remaining"}},
}

// bodyText writes the fields of a signal's body again, in a fixed order.
func bodyText(fields map[string]any) string {
	var labels []string
	for label := range fields {
		labels = append(labels, label)
	}
	slices.Sort(labels)
	var b strings.Builder
	for _, label := range labels {
		value := valueText(fields[label])
		switch {
		case value == "":
		case label == "text":
			fmt.Fprintf(&b, "%s\n", value)
		case strings.Contains(value, "\n"):
			fmt.Fprintf(&b, "%s:\n%s\n", label, value)
		default:
			fmt.Fprintf(&b, "%s: %s\n", label, value)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

func valueText(v any) string {
	switch v := v.(type) {
	case string:
		return strings.TrimSpace(v)
	case []any:
		var lines []string
		for _, item := range v {
			if row, ok := item.(map[string]any); ok {
				lines = append(lines, "- "+strings.ReplaceAll(bodyText(row), "\n", "\n  "))
			} else {
				lines = append(lines, "- "+valueText(item))
			}
		}
		if len(lines) > 0 {
			return "\n" + strings.Join(lines, "\n")
		}
	}
	return ""
}
