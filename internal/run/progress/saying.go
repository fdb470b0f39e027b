package progress

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
)

// as reads the body of an event. What a newer signalbox wrote reads as far as it is known.
func as[B any](e *signalbox.Event) B {
	var b B
	json.Unmarshal(e.Data, &b)
	return b
}

// saying puts events into words.
type saying struct {
	s    *rules.State
	zone *time.Location
	// limits is how long each check may take, nil when that is not known. Without any check it is empty.
	limits map[string]time.Duration
	// printed is the last line of what checks printed, of those that failed.
	printed map[signalbox.Hash]string
}

// line is what an event means to people, and what there is to say about it; "" for what nobody wants to know.
func (y saying) line(e *signalbox.Event) (text, detail string) {
	for _, say := range []func(*signalbox.Event) (string, string){y.agent, y.verdict, y.trouble, y.remedy, y.asking, y.operator} {
		if text, detail = say(e); text != "" {
			return text, detail
		}
	}
	return "", ""
}

// about is the work that an event is about. What a tree heard names none: it is that of the agent which played it.
func (y saying) about(e *signalbox.Event) string {
	if session, known := y.s.Session(e.Actor); known && e.Type == rules.TypeTurnSignalHeard && len(session.Held) > 0 {
		return session.Held[len(session.Held)-1].Work
	}
	return e.Work
}

// role is who speaks in an event.
func (y saying) role(e *signalbox.Event) string {
	session, known := y.s.Session(e.Session)
	if !known {
		return "agent"
	}
	if w, known := y.s.Work(e.Work); known && w.Task != nil && w.Task.Expert != "" && session.Role == signalbox.RoleExpert {
		return "expert " + w.Task.Expert
	}
	return string(session.Role)
}

func (y saying) title(work string) string {
	w, known := y.s.Work(work)
	if !known {
		return ""
	}
	return w.Title
}

// agent is about what agents do.
func (y saying) agent(e *signalbox.Event) (text, detail string) {
	switch e.Type {
	case rules.TypeAgentStarted:
		return fmt.Sprintf("%s starts (%s)", y.role(e), nth(as[rules.AgentStarted](e).Attempt)), y.title(e.Work)
	case rules.TypeProgressReported:
		b := as[rules.ProgressReported](e)
		if b.Percent == 0 {
			return "checkpoint", b.Activity
		}
		return fmt.Sprintf("checkpoint %d%%", b.Percent), b.Activity
	case rules.TypeSignalHeard:
		switch as[rules.SignalHeard](e).Signal {
		case "ready_for_review":
			return "ready for review" + y.checksRun(", "), ""
		case "review_passed":
			return "review passed", ""
		case "audit_passed":
			return "audit passed", ""
		case "remediation_complete":
			return "mended, it says" + y.checksRun("; "), ""
		}
	case rules.TypeTurnSignalHeard:
		b := as[rules.TurnSignalHeard](e)
		return fmt.Sprintf("tree %s says %s", b.Tree, strings.ReplaceAll(b.Signal, "_", " ")), b.Reason
	case rules.TypeAgentSessionCompleted:
		return y.role(e) + " exits", string(as[rules.AgentSessionCompleted](e).ExitReason)
	case rules.TypeTaskExpanded:
		b := as[rules.TaskExpanded](e)
		if len(b.SubTasks) == 0 {
			return "specified, confidence " + b.Confidence, ""
		}
		return "specified, confidence " + b.Confidence, "with " + strings.Join(b.SubTasks, ", ")
	case rules.TypeSessionResumed:
		return y.role(e) + " goes on", ""
	}
	return "", ""
}

// verdict is about what came of the work.
func (y saying) verdict(e *signalbox.Event) (text, detail string) {
	switch e.Type {
	case rules.TypeChecksRan:
		text, detail := y.checks(as[rules.ChecksRan](e))
		if w, known := y.s.Work(e.Work); known && w.Task != nil && w.Task.Kind == rules.KindBaseline {
			text = "on the base: " + text
		}
		return text, detail
	case rules.TypeReworkOrdered:
		b := as[rules.ReworkOrdered](e)
		switch b.Cause {
		case "checks": // ChecksRan said so
			return "", ""
		case "merge":
			return "not merged: " + b.Summary, ""
		}
		return b.Cause + " failed: " + b.Summary, ""
	case rules.TypeMergeRequested:
		if p, ok := y.s.Policy(); ok && p.ApproveMerge {
			return "waits for your yes to the merge", "give it with: signalbox approve " + e.Work
		}
	case rules.TypeMergeApproved:
		return "merge approved by " + e.Actor, ""
	case rules.TypeMerged:
		b := as[rules.Merged](e)
		text = "done"
		if b.Commit != "" {
			text = "merged as " + b.Commit[:min(len(b.Commit), 7)]
		}
		if len(b.Unblocked) > 0 {
			text += "; " + strings.Join(b.Unblocked, ", ") + " can start"
		}
		return text, ""
	}
	return "", ""
}

// checksRun says that the checks are next, if there are any.
func (y saying) checksRun(before string) string {
	if y.limits != nil && len(y.limits) == 0 {
		return ""
	}
	return before + "checks run"
}

// checks says what was wrong, and what the first check that failed printed last.
func (y saying) checks(b rules.ChecksRan) (text, detail string) {
	var failed []string
	for _, r := range b.Rows {
		if r.Passed {
			continue
		}
		failed = append(failed, fmt.Sprintf("%s on %s (%s)", r.Check, r.Environment, y.ending(r)))
		if detail == "" {
			detail = y.printed[r.Output]
		}
	}
	switch {
	case len(failed) > 0:
		text = fmt.Sprintf("checks failed (%d of %d): %s", len(failed), len(b.Rows), strings.Join(failed, ", "))
	case len(b.Rows) > 0:
		text = fmt.Sprintf("checks passed (%d of %d)", len(b.Rows), len(b.Rows))
	case len(b.Protected) == 0:
		text = "no checks to run"
	}
	if len(b.Protected) > 0 {
		text = strings.TrimSuffix("refused: it edited protected files: "+strings.Join(b.Protected, ", ")+"; "+text, "; ")
	}
	if len(b.Differs) > 0 {
		text += "; the agent said otherwise of " + strings.Join(b.Differs, ", ")
	}
	return text, detail
}

// ending is how a check that failed ended.
func (y saying) ending(r rules.CheckRow) string {
	if limit := y.limits[r.Check]; limit > 0 && r.Millis >= limit.Milliseconds() {
		return "timed out after " + took(limit)
	}
	return fmt.Sprintf("exit status %d", r.Exit)
}
