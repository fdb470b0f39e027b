package progress

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/box"
	"signalbox/internal/crew"
	"signalbox/internal/rules"
)

// plainDisplay shows a run as lines for people, one for each thing that they want to know: in the log of a CI job, under
// nohup, in a pipe.
type plainDisplay struct {
	b     *box.Box
	o     Options
	zone  *time.Location
	began time.Time

	ids      int // how wide the column of ids is
	standing rules.Standing
}

func newPlain(b *box.Box, o Options) *plainDisplay {
	return &plainDisplay{b: b, o: o, zone: time.Local, began: time.Now(), standing: rules.StandingWorking}
}

// Live shows nothing: what an agent writes is not for a log.
func (*plainDisplay) Live(crew.Activity) {}

func (l *plainDisplay) Show(ctx context.Context) error {
	if err := l.show(nil); err != nil {
		return err
	}
	return followEvents(ctx, l.b, l.o.From, l.show)
}

// show writes the lines of some events, of none how the run stands at the start.
func (l *plainDisplay) show(events []signalbox.Event) error {
	var lines strings.Builder
	l.b.Engine.View(func(s *rules.State) { l.write(&lines, s, events) })
	_, err := io.WriteString(l.o.Out, lines.String())
	return err
}

func (l *plainDisplay) write(lines *strings.Builder, s *rules.State, events []signalbox.Event) {
	if len(events) == 0 {
		l.begin(lines, s)
		return
	}
	for i := range events {
		e := &events[i]
		l.ids = max(l.ids, min(len(e.Work), maxIDs))
		if text, detail := (saying{s, l.zone}).line(e); text != "" {
			l.line(lines, e.Time, e.Work, text, detail)
		}
	}
	l.stand(lines, s, events[len(events)-1].Time)
}

// maxIDs is how wide the column of ids grows.
const maxIDs = 12

func (l *plainDisplay) begin(lines *strings.Builder, s *rules.State) {
	for w := range s.Works() {
		l.ids = max(l.ids, min(len(w.ID), maxIDs))
	}
	st := s.Status(l.began)
	title := l.o.Title
	if title != "" {
		title += ": "
	}
	l.line(lines, l.began, "", fmt.Sprintf("%s%s, %d done", title, count(st.Tasks, "task"), st.Completed), "")
}

// stand says how the run stands when that has changed to something other than being at work.
func (l *plainDisplay) stand(lines *strings.Builder, s *rules.State, at time.Time) {
	st := s.Status(at)
	if st.Standing == l.standing {
		return
	}
	l.standing = st.Standing
	if text := standingLine(st, at.Sub(l.began), l.zone); text != "" {
		l.line(lines, at, "", text, "")
	}
}

// standingLine is how a run stands in one line, "" if it is at work.
func standingLine(st rules.Status, elapsed time.Duration, zone *time.Location) string {
	switch st.Standing {
	case rules.StandingComplete:
		return fmt.Sprintf("complete: %d of %s in %s", st.Completed, count(st.Tasks, "task"), took(elapsed))
	case rules.StandingAsking:
		return "waits for you: " + strings.Join(append(st.Questions, st.Approvals...), ", ")
	case rules.StandingLimited:
		return "waits for a rate limit to end at " + st.Wake.In(zone).Format(time.TimeOnly)
	case rules.StandingPaused:
		return "paused: " + strings.Join(st.Reasons, "; ") + "; signalbox resume goes on"
	case rules.StandingStuck:
		return "stuck: " + strings.Join(st.Reasons, "; ")
	}
	return ""
}

// textWidth is the width of what happened where something is said about it.
const textWidth = 34

func (l *plainDisplay) line(lines *strings.Builder, at time.Time, work, text, detail string) {
	line := fmt.Sprintf("%s  %-*s  %s", at.In(l.zone).Format(time.TimeOnly), l.ids, Printable(work), oneLine(text))
	if detail != "" {
		line = fmt.Sprintf("%s  %-*s  %-*s  %s", at.In(l.zone).Format(time.TimeOnly), l.ids, Printable(work), textWidth, oneLine(text), oneLine(detail))
	}
	lines.WriteString(strings.TrimRight(line, " ") + "\n")
}

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
	case "AgentStarted":
		return fmt.Sprintf("%s starts (%s)", y.role(e), nth(as[rules.AgentStarted](e).Attempt)), y.title(e.Work)
	case "ProgressReported":
		b := as[rules.ProgressReported](e)
		if b.Percent == 0 {
			return "checkpoint", b.Activity
		}
		return fmt.Sprintf("checkpoint %d%%", b.Percent), b.Activity
	case "SignalHeard":
		switch as[rules.SignalHeard](e).Signal {
		case "ready_for_review":
			return "ready for review, checks run", ""
		case "review_passed":
			return "review passed", ""
		case "audit_passed":
			return "audit passed", ""
		case "remediation_complete":
			return "mended, it says; checks run", ""
		}
	case "AgentSessionCompleted":
		return y.role(e) + " exits", string(as[rules.AgentSessionCompleted](e).ExitReason)
	case "TaskExpanded":
		b := as[rules.TaskExpanded](e)
		if len(b.SubTasks) == 0 {
			return "specified, confidence " + b.Confidence, ""
		}
		return "specified, confidence " + b.Confidence, "with " + strings.Join(b.SubTasks, ", ")
	case "SessionResumed":
		return y.role(e) + " goes on", ""
	}
	return "", ""
}

// verdict is about what came of the work.
func (y saying) verdict(e *signalbox.Event) (text, detail string) {
	switch e.Type {
	case "ChecksRan":
		text := y.checks(as[rules.ChecksRan](e))
		if w, known := y.s.Work(e.Work); known && w.Task != nil && w.Task.Kind == rules.KindBaseline {
			text = "on the base: " + text
		}
		return text, ""
	case "ReworkOrdered":
		b := as[rules.ReworkOrdered](e)
		switch b.Cause {
		case "checks": // ChecksRan said so
			return "", ""
		case "merge":
			return "not merged: " + b.Summary, ""
		}
		return b.Cause + " failed: " + b.Summary, ""
	case "MergeRequested":
		if p, ok := y.s.Policy(); ok && p.ApproveMerge {
			return "waits for your yes to the merge", "give it with: signalbox approve " + e.Work
		}
	case "MergeApproved":
		return "merge approved by " + e.Actor, ""
	case "Merged":
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

func (saying) checks(b rules.ChecksRan) string {
	var failed []string
	for _, r := range b.Rows {
		if !r.Passed {
			failed = append(failed, r.Check+" on "+r.Environment)
		}
	}
	text := fmt.Sprintf("checks passed (%d of %d)", len(b.Rows), len(b.Rows))
	if len(failed) > 0 {
		text = fmt.Sprintf("checks failed (%d of %d): %s", len(failed), len(b.Rows), strings.Join(failed, ", "))
	}
	if len(b.Rows) == 0 {
		text = "no checks to run"
	}
	if len(b.Protected) > 0 {
		text += "; it edited protected files: " + strings.Join(b.Protected, ", ")
	}
	if len(b.Differs) > 0 {
		text += "; the agent said otherwise of " + strings.Join(b.Differs, ", ")
	}
	return text
}

// trouble is about what went wrong.
func (y saying) trouble(e *signalbox.Event) (text, detail string) {
	switch e.Type {
	case "IncompleteLogged":
		b := as[rules.IncompleteLogged](e)
		return fmt.Sprintf("left incomplete (%s)", strings.ReplaceAll(string(b.Cause), "_", " ")), b.Summary
	case "BlockerAdded":
		return "waits for " + strings.Join(as[rules.BlockerAdded](e).On, ", ") + " too", ""
	case "UnknownSignalRecovery":
		b := as[rules.UnknownSignalRecovery](e)
		return fmt.Sprintf("%s said nothing that counts (%s time), is asked again", y.role(e), nth(b.Attempt)), b.Preview
	case "AgentFailed":
		b := as[rules.AgentFailed](e)
		return fmt.Sprintf("%s %s (%s)", b.Role, failed(rules.FailCause(b.Cause)), nth(b.Count)), b.Detail
	case "RoleLimited":
		b := as[rules.RoleLimited](e)
		return fmt.Sprintf("rate limit: no %s before %s", b.Role, b.Until.In(y.zone).Format(time.TimeOnly)), ""
	case "SignalRefused":
		b := as[rules.SignalRefused](e)
		if b.Count > 1 {
			return fmt.Sprintf("refused %s (%d times)", b.Said, b.Count), b.Detail
		}
		return "refused " + b.Said, b.Detail
	case "LeaseExpired":
		return y.role(e) + " was not heard of, its lease ran out", ""
	case "LeaseReleased":
		b := as[rules.LeaseReleased](e)
		if routine(b.Reason) {
			return "", ""
		}
		return y.role(e) + " stopped", b.Reason
	}
	return "", ""
}

// failed is how an agent failed.
func failed(cause rules.FailCause) string {
	switch cause {
	case rules.FailTimeout:
		return "ran out of time"
	case rules.FailCrash:
		return "crashed"
	case rules.FailStall:
		return "stalled"
	case rules.FailStart:
		return "could not be started"
	case rules.FailWorkspace:
		return "has no workspace"
	case rules.FailSignals:
		return "said nothing that counts"
	}
	return "failed: " + string(cause)
}

// routine tells the reasons for the end of a lease that another event says better.
func routine(reason string) bool {
	switch reason {
	case "", "checks", "merge", "health audit", "exit", "rate limit", "retry", "the run is cancelled", "the human is asked instead",
		signalbox.NameExit, signalbox.NameUnknown:
		return true
	}
	switch rules.FailCause(reason) {
	case rules.FailTimeout, rules.FailCrash, rules.FailStall, rules.FailStart, rules.FailWorkspace, rules.FailSignals:
		return true
	}
	_, signal := signalbox.LineSignalNamed(reason)
	return signal
}

// remedy is about remediations and experts, and about files that two want.
func (y saying) remedy(e *signalbox.Event) (text, detail string) {
	switch e.Type {
	case "RemediationNeeded":
		b := as[rules.RemediationNeeded](e)
		return "held back by remediation " + b.Remediation, b.Issue
	case "HealthAudited":
		b := as[rules.HealthAudited](e)
		switch {
		case b.Contradiction:
			return "said to be healthy, and is not", b.Reason
		case b.Healthy:
			return "healthy again", ""
		}
		return "unhealthy still", b.Reason
	case "RemediationRetried":
		return fmt.Sprintf("is tried again (%s)", nth(as[rules.RemediationRetried](e).Attempt+1)), ""
	case "RemediationEnded":
		return "goes on, " + as[rules.RemediationEnded](e).Remediation + " is over", ""
	case "ExpertRequested":
		b := as[rules.ExpertRequested](e)
		return fmt.Sprintf("%s asks expert %s (%s) and is parked", y.role(e), b.Expert, b.Request), b.Type
	case "ExpertAdvised":
		b := as[rules.ExpertAdvised](e)
		return fmt.Sprintf("advice of %s (%s)", b.Expert, b.Request), ""
	case "ExpertRegistered":
		b := as[rules.ExpertRegistered](e)
		return "new expert: " + b.Expert.Name, b.Expert.Gap
	case "FileWaited":
		b := as[rules.FileWaited](e)
		return fmt.Sprintf("parked: waits for %s, which %s has", b.File, b.Holder), ""
	case "LocksYielded":
		return "gives its files up", as[rules.LocksYielded](e).Reason
	case "OverlapNoted":
		if b := as[rules.OverlapNoted](e); b.With != "" {
			return fmt.Sprintf("changes %s, as %s does", b.File, b.With), ""
		}
	}
	return "", ""
}

// asking is about questions.
func (y saying) asking(e *signalbox.Event) (text, detail string) {
	switch e.Type {
	case "QuestionAsked":
		b := as[rules.QuestionAsked](e)
		return fmt.Sprintf("asks the human (%s): %s", b.Question, b.Text), answerWith(b.Question)
	case "QuestionAnswered":
		b := as[rules.QuestionAnswered](e)
		if b.Withdrawn {
			return b.Question + " no longer matters", ""
		}
		return fmt.Sprintf("%s answered by %s", b.Question, e.Actor), b.Answer
	}
	return "", ""
}

func answerWith(question string) string { return "answer with: signalbox answer " + question + " TEXT" }

// operator is about what people order.
func (y saying) operator(e *signalbox.Event) (text, detail string) {
	subject := ""
	if e.Work == "" {
		subject = "the run is "
	}
	switch e.Type {
	case "PlanLoaded":
		_, name, _ := y.s.Plan()
		return "plan loaded", name
	case "Paused":
		return subject + "paused by " + e.Actor, as[rules.Paused](e).Reason
	case "Resumed":
		return subject + "resumed by " + e.Actor, ""
	case "Cancelled":
		return subject + "cancelled by " + e.Actor, as[rules.Cancelled](e).Reason
	case "Retried":
		return subject + "begun anew by " + e.Actor, as[rules.Retried](e).Note
	}
	return "", ""
}
