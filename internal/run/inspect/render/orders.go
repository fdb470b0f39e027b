package render

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/changes"
	"signalbox/internal/run/questions"
	"signalbox/internal/run/stored"
)

// AboutTask returns what the user should know who writes something about a task. root is the folder
// of the project. It is not escaped.
func AboutTask(ctx context.Context, b *box.Box, root, id string) (string, error) {
	var w *rules.Work
	b.Engine.View(func(s *rules.State) { w, _ = s.Work(id) })
	found, err := questions.FindTroubles(ctx, b, w)
	if err != nil {
		return "", err
	}
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	add("%s: %s (%s)", w.ID, w.Title, w.Phase)
	if change, err := changes.Of(ctx, b, root, id); err == nil && len(change.Files) > 0 {
		add("commit %.7s", change.Commit)
		lines = append(lines, DiffStat(change, 72)...)
	}
	for _, f := range found.Findings {
		add("\n%s:\n%s", headOf(f), f.Summary)
	}
	for _, q := range found.Questions {
		if q.ID != "" {
			add("\n%s: %s", q.ID, q.Text)
		}
	}
	for _, m := range found.Messages {
		add("\n%s:\n%s", m.Waits(), m.Text)
	}
	return strings.Join(lines, "\n"), nil
}

// AboutQuestion returns what the user should know who answers a question. It is not escaped.
func AboutQuestion(q *questions.Pending) string {
	parts := []string{fmt.Sprintf("%s about %s (%s):", q.ID, cmp.Or(q.Work, "the run"), q.Kind),
		q.Text, stored.FieldsText(q.Fields), LastLines(q.Output)}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }),
		"\n\n")
}

// Ordered says what an order of the user did, while a run carries it out.
func Ordered(what rules.OrderKind, a rules.Answer) string {
	done := map[rules.OrderKind]string{rules.OrderPause: "paused", rules.OrderResume: "resumed",
		rules.OrderCancel: "cancelled",
		rules.OrderRetry:  "restarted", rules.OrderApprove: "approved"}[what]
	if a.Repeated {
		done = "already " + done
	}
	if a.Approval { // otherwise one would wait for an agent
		done = "no agent starts"
	}
	if a.Commit != "" {
		done += fmt.Sprintf(" commit %.7s", a.Commit)
	}
	return done
}

// Recorded says what an order of the user did while no run carries it out.
func Recorded(what rules.OrderKind, a rules.Answer) string {
	done := map[rules.OrderKind]string{rules.OrderResume: "no longer paused",
		rules.OrderRetry: "ready to restart"}[what]
	if done == "" || a.Approval {
		return Ordered(what, a)
	}
	if a.Repeated && what == rules.OrderResume {
		return "not paused"
	}
	return done
}

// SentBack says to whom work was sent back.
func SentBack(b *box.Box, a rules.Answer) string {
	to := "developer"
	b.Engine.View(func(s *rules.State) {
		if w, known := s.Work(a.Work); known && w.Task.Kind == rules.KindRemediation {
			to = "remediation agent"
		}
	})
	if a.Phase == signalbox.PhaseDraft {
		to = "business analyst"
	}
	done := "sent back to the " + to
	if a.Commit != "" {
		done = fmt.Sprintf("rejected commit %.7s; %s", a.Commit, done)
	}
	return done
}

// Told names who gets a message.
func Told(b *box.Box, a rules.Answer) string {
	switch atWork := a.Lease != nil && a.Lease.Role == a.Role; {
	case a.Role == "":
		return "the next agent gets it in its prompt"
	case a.Now && !listens(b, a.Role, a.Work):
		return fmt.Sprintf("the %s is interrupted, and continues with it", a.Role)
	case atWork && listens(b, a.Role, a.Work):
		return fmt.Sprintf("the %s gets it now", a.Role)
	case atWork:
		return fmt.Sprintf("the %s does not read while it works, and gets it at the start of its next turn (signalbox tell --now interrupts it)", a.Role)
	}
	switch a.Phase {
	case signalbox.PhaseCIPending, signalbox.PhaseReadyForReview, signalbox.PhaseReview,
		signalbox.PhaseReadyForMerge:
		if a.Role == signalbox.RoleDeveloper { // it may have no further turn
			return "the developer gets it if the task comes back; signalbox rework sends it back now"
		}
	}
	return fmt.Sprintf("the %s gets it at the start of its next turn", a.Role)
}

// StillWaits continues a sentence about an order for a task with what the task waits for
// nevertheless, "" if for nothing.
func StillWaits(task string, a rules.Answer) (more string) {
	if a.Paused {
		more += "; it is paused, until signalbox resume " + task
	}
	if len(a.Questions) > 0 {
		more += "; it waits for your answer to " + strings.Join(a.Questions, ", ")
	}
	if a.Approval {
		more += fmt.Sprintf(
			"; it still needs your approval (signalbox approve %s, or signalbox rework %s TEXT to have it done again)", task, task)
	}
	return more
}

// Answered says what the answer to a question did, while a run uses it, or what it was understood
// to mean.
func Answered(question string, a rules.Answer) string {
	if a.Understood != "" {
		return fmt.Sprintf("answered %s; %s", question, a.Understood)
	}
	then := "continues"
	if a.Paused {
		then = "is paused"
	}
	subject := cmp.Or(a.Work, "the run")
	if a.Role != "" {
		subject = "the role " + string(a.Role)
	}
	return fmt.Sprintf("answered %s; %s %s", question, subject, then)
}

// listens reports whether an agent that works on a work item in a role reads messages while it
// works.
func listens(b *box.Box, role signalbox.Role, work string) bool {
	expert, name := "", ""
	b.Engine.View(func(s *rules.State) {
		if w, known := s.Work(work); known && w.Task != nil {
			expert, name = w.Task.Expert, w.Task.Agent
		}
	})
	if name == "" { // none works on it
		name = b.Config.AgentsFor(role, expert)[0]
	}
	command, err := agent.CommandOf(b.Config.AgentNamed(name))
	return err == nil && command.Interactive && slices.Contains(config.AgentRoles(), role)
}
