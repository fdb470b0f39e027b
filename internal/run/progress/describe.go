package progress

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/crew"
	"signalbox/internal/text"
)

// as decodes the body of an event, as far as this version knows its fields.
func as[B any](e *signalbox.Event) B {
	var b B
	json.Unmarshal(e.Data, &b)
	return b
}

// describer describes events in words.
type describer struct {
	s    *rules.State
	zone *time.Location
	// limits is the timeout of each check. It is nil if the checks are not known, and empty if there are none.
	limits map[string]time.Duration
	// lastLines is the last output line of each failed check.
	lastLines map[signalbox.Hash]string
}

// line returns a short description of an event and a detail. Both are empty for events that people do not need to see.
func (d describer) line(e *signalbox.Event) (text, detail string) {
	for _, say := range []func(*signalbox.Event) (string, string){d.agent, d.verdict, d.trouble, d.remedy, d.asking, d.operator} {
		if text, detail = say(e); text != "" {
			return text, detail
		}
	}
	return "", ""
}

// about returns the work that an event belongs to. A turn signal names none; it belongs to the work of its agent.
func (d describer) about(e *signalbox.Event) string {
	if session, known := d.s.Session(e.Actor); known && e.Type == rules.TypeTurnSignalHeard && len(session.Held) > 0 {
		return session.Held[len(session.Held)-1].Work
	}
	return e.Work
}

// role returns the role of the session that caused an event.
func (d describer) role(e *signalbox.Event) string {
	session, known := d.s.Session(e.Session)
	if !known {
		return "agent"
	}
	if w, known := d.s.Work(e.Work); known && w.Task != nil && w.Task.Expert != "" && session.Role == signalbox.RoleExpert {
		return "expert " + w.Task.Expert
	}
	return string(session.Role)
}

func (d describer) title(work string) string {
	w, known := d.s.Work(work)
	if !known {
		return ""
	}
	return w.Title
}

// agent describes what agents do.
func (d describer) agent(e *signalbox.Event) (text, detail string) {
	switch e.Type {
	case rules.TypeAgentStarted:
		started := as[rules.AgentStarted](e)
		text := d.role(e) + " started" + attempt(started.Attempt)
		if started.Resumes != "" {
			text += ", resuming its session"
		}
		return text, d.title(e.Work)
	case rules.TypeProgressReported:
		b := as[rules.ProgressReported](e)
		if b.Percent == 0 {
			return "checkpoint", b.Activity
		}
		return fmt.Sprintf("checkpoint %d%%", b.Percent), b.Activity
	case rules.TypeSignalHeard:
		switch as[rules.SignalHeard](e).Signal {
		case signalbox.NameReadyForReview:
			return "ready for review" + d.checksRun(), ""
		case signalbox.NameReviewPassed:
			return "review passed", ""
		case signalbox.NameAuditPassed:
			return "audit passed", ""
		case signalbox.NameRemediationComplete:
			return "remediation complete" + d.checksRun(), ""
		}
	case rules.TypeTurnSignalHeard:
		b := as[rules.TurnSignalHeard](e)
		return fmt.Sprintf("tree %s says %s", b.Tree, strings.ReplaceAll(b.Signal, "_", " ")), b.Reason
	case rules.TypeAgentSessionCompleted:
		return d.role(e) + " exits", string(as[rules.AgentSessionCompleted](e).ExitReason)
	case rules.TypeTaskExpanded:
		b := as[rules.TaskExpanded](e)
		if len(b.SubTasks) == 0 {
			return "specified, confidence " + b.Confidence, ""
		}
		return "specified, confidence " + b.Confidence, "with " + strings.Join(b.SubTasks, ", ")
	case rules.TypeSessionResumed:
		return d.role(e) + " resumed", ""
	}
	return "", ""
}

// verdict describes results: checks, reviews, merges.
func (d describer) verdict(e *signalbox.Event) (text, detail string) {
	switch e.Type {
	case rules.TypeChecksRan:
		text, detail := d.checks(as[rules.ChecksRan](e))
		if w, known := d.s.Work(e.Work); known && w.Task != nil && w.Task.Kind == rules.KindBaseline {
			text = "baseline: " + text
		}
		return text, detail
	case rules.TypeSetupRan:
		b := as[rules.SetupRan](e)
		took := formatDuration(time.Duration(b.Millis) * time.Millisecond)
		switch {
		case b.TimedOut:
			return fmt.Sprintf("setup failed: %s (timed out after %s)", b.Command, took), ""
		case !b.Passed && b.Exit < 0: // nothing ran
			return "setup failed: " + b.Command, ""
		case !b.Passed:
			return fmt.Sprintf("setup failed: %s (exit status %d after %s)", b.Command, b.Exit, took), ""
		case len(b.Restored) > 0:
			return fmt.Sprintf("setup: %s (%s)", b.Command, took), "it changed tracked files, which were put back: " + strings.Join(b.Restored, ", ")
		}
		return fmt.Sprintf("setup: %s (%s)", b.Command, took), ""
	case rules.TypeReworkOrdered:
		b := as[rules.ReworkOrdered](e)
		switch b.Cause {
		case rules.ReworkChecks, rules.ReworkFileSize: // ChecksRan already reported it
			return "", ""
		case rules.ReworkMerge:
			return "not merged: " + b.Summary, ""
		case rules.ReworkRequest:
			return "sent back by its pull request: " + b.Summary, ""
		case rules.ReworkUnchanged:
			return "sent back: the branch changes nothing", ""
		case rules.FindingHuman:
			if b.Commit != "" {
				return "merge of " + shortCommit(b.Commit) + " rejected by " + e.Actor + "; sent back", b.Summary
			}
			return "sent back by " + e.Actor, b.Summary
		}
		return b.Cause + " failed: " + b.Summary, ""
	case rules.TypeConflictFound:
		return d.conflict(e, as[rules.ConflictFound](e)), ""
	case rules.TypeMergeRequested:
		if w, known := d.s.Work(e.Work); known && d.s.NeedsApproval(w) {
			return "ready to merge, needs your approval" + crew.SteeringText(w), crew.ApprovalCommands(e.Work)
		}
	case rules.TypeMergeApproved:
		if commit := as[rules.MergeApproved](e).Commit; commit != "" {
			return "merge of " + shortCommit(commit) + " approved by " + e.Actor, ""
		}
		return "merge approved by " + e.Actor, ""
	case rules.TypeBranchMoved:
		b := as[rules.BranchMoved](e)
		return fmt.Sprintf("something else moved its branch to %s; only %s counts", shortCommit(b.Found), shortCommit(b.Expected)), ""
	case rules.TypeBaseMoved:
		if b := as[rules.BaseMoved](e); b.Fetched {
			return "the base is at " + shortCommit(b.To) + " of the remote repository" + d.checksRun(), ""
		} else if !b.Between {
			return baseMoved(b) + d.checksRun(), ""
		}
	case rules.TypeDelivered:
		b := as[rules.Delivered](e)
		if b.Request != "" { // its developer may still get messages
			return delivered(b), ""
		}
		return delivered(b), d.undelivered(e.Work)
	case rules.TypeMerged:
		b := as[rules.Merged](e)
		text = "done"
		if b.Commit != "" {
			text = "merged as " + shortCommit(b.Commit)
		}
		if len(b.Unblocked) > 0 {
			text += "; " + strings.Join(b.Unblocked, ", ") + " can start"
		}
		return text, d.undelivered(e.Work)
	}
	return "", ""
}

// undelivered says that no agent got a message before the work was completed.
func (d describer) undelivered(work string) string {
	w, known := d.s.Work(work)
	if !known || w.Task == nil || len(w.Task.Messages) == 0 {
		return ""
	}
	return "no agent got your " + messages(len(w.Task.Messages))
}

// shortCommit returns the first characters of a commit.
func shortCommit(commit string) string { return commit[:min(len(commit), 7)] }

// delivered describes a delivery.
func delivered(b rules.Delivered) string {
	text := "delivered as " + shortCommit(b.Commit) + " on branch " + b.Branch
	switch {
	case b.Request != "":
		text = "waits until its pull request is merged: " + b.Request
	case b.Remote != "":
		text = "pushed as " + shortCommit(b.Commit) + " to " + b.Branch + " of " + b.Remote
	}
	if len(b.Unblocked) > 0 {
		text += "; " + strings.Join(b.Unblocked, ", ") + " can start"
	}
	return text
}

// baseMoved describes a move of the base that signalbox did not make.
func baseMoved(b rules.BaseMoved) string {
	text := "something else moved the base"
	if b.From != "" {
		text += " from " + shortCommit(b.From)
	}
	text += " to " + shortCommit(b.To)
	if len(b.Added) > 0 {
		text += "; new: " + strings.Join(b.Added, ", ")
	}
	if len(b.Dropped) > 0 {
		text += "; gone: " + strings.Join(b.Dropped, ", ")
	}
	return text
}

// checksRun announces the checks, if there are any.
func (d describer) checksRun() string {
	if d.limits != nil && len(d.limits) == 0 {
		return ""
	}
	return "; running checks"
}

// checks describes the results of checks. The detail is why the first failed check failed, or the last line that it printed.
func (d describer) checks(b rules.ChecksRan) (text, detail string) {
	var failed, accepted []string
	for _, r := range b.Rows {
		if r.Passed {
			continue
		}
		how := fmt.Sprintf("%s on %s (%s)", r.Check, r.Environment, d.ending(r))
		if slices.Contains(d.s.AcceptedFailures(), r.Name()) {
			accepted = append(accepted, how)
			continue
		}
		failed = append(failed, how)
		if detail == "" {
			detail = cmp.Or(r.Cause, d.lastLines[r.Output])
		}
	}
	switch {
	case len(failed) > 0:
		text = fmt.Sprintf("checks failed (%d of %d): %s", len(failed), len(b.Rows), strings.Join(failed, ", "))
	case len(b.Rows) > 0:
		text = fmt.Sprintf("checks passed (%d of %d)", len(b.Rows)-len(accepted), len(b.Rows))
	case b.Problem != "":
		text = "not checked: " + b.Problem
	case len(b.Protected)+len(b.Large) == 0:
		text = "no checks to run"
	}
	if len(accepted) > 0 {
		text += "; accepted failures: " + strings.Join(accepted, ", ")
	}
	if b.OnBase {
		text += "; on the base at " + shortCommit(b.Commit) + ", because the work names no ref"
	} else if b.Ref != "" && b.Commit != "" {
		text += "; on " + b.Ref + " at " + shortCommit(b.Commit)
	}
	if len(b.Protected) > 0 {
		text = strings.TrimSuffix("refused: it edited protected files: "+strings.Join(b.Protected, ", ")+"; "+text, "; ")
	}
	if len(b.Large) > 0 {
		text = strings.TrimSuffix("large files: "+strings.Join(b.Large, ", ")+"; "+text, "; ")
	}
	if len(b.Differs) > 0 {
		text += "; the agent reported otherwise for " + strings.Join(b.Differs, ", ")
	}
	return text, detail
}

// ending describes how a failed check ended.
func (d describer) ending(r rules.CheckRow) string {
	if limit := d.limits[r.Check]; limit > 0 && r.Millis >= limit.Milliseconds() {
		return "timed out after " + formatDuration(limit)
	}
	return fmt.Sprintf("exit status %d", r.Exit)
}

// conflict describes a conflict with the base.
func (d describer) conflict(e *signalbox.Event, b rules.ConflictFound) string {
	session, known := d.s.Session(e.Session)
	judge := known && (session.Role == signalbox.RoleCI || session.Role == signalbox.RoleMerger)
	switch {
	case len(b.Files) == 0:
		return ""
	case len(b.Unresolved) > 0:
		return "sent back: conflict markers are left in " + text.JoinSome(b.Unresolved, maxNames)
	case judge:
		return "sent back: it conflicts with the base in " + text.JoinSome(b.Files, maxNames)
	}
	return d.role(e) + " gets conflicts with the base in " + text.JoinSome(b.Files, maxNames)
}

// maxNames is how many names a line lists.
const maxNames = 5
