package progress

import (
	"fmt"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
)

// trouble describes what went wrong.
func (d describer) trouble(e *signalbox.Event) (text, detail string) {
	switch e.Type {
	case rules.TypeIncompleteLogged:
		b := as[rules.IncompleteLogged](e)
		return fmt.Sprintf("incomplete (%s)", strings.ReplaceAll(string(b.Cause), "_", " ")), b.Summary
	case rules.TypeBlockerAdded:
		return "also blocked by " + strings.Join(as[rules.BlockerAdded](e).On, ", "), ""
	case rules.TypeUnknownSignalRecovery:
		b := as[rules.UnknownSignalRecovery](e)
		if b.Level == rules.LevelQuestion {
			return d.role(e) + " wrote more after its verdict; asking whether it stands", inspect.LastActivity(b.Preview)
		}
		return d.role(e) + " sent no valid signal" + times(b.Attempt) + "; asking again", inspect.LastActivity(b.Preview)
	case rules.TypeAgentFailed:
		b := as[rules.AgentFailed](e)
		return string(b.Role) + " " + failed(rules.FailCause(b.Cause)) + times(b.Count), strings.ReplaceAll(b.Detail, "\n", "; ")
	case rules.TypeAgentTurnEnded:
		if refused := as[rules.AgentTurnEnded](e).LoginRefused; len(refused) > 0 {
			return "the " + d.role(e) + " changed its copy of your login; not copied back", strings.Join(refused, ", ")
		}
	case rules.TypeRoleLimited:
		b := as[rules.RoleLimited](e)
		return waitsLine(string(b.Role), b.Until, d.zone), ""
	case rules.TypeAgentUnavailable:
		return d.unavailable(as[rules.AgentUnavailable](e))
	case rules.TypeAgentRestored:
		b := as[rules.AgentRestored](e)
		return b.Agent + " is tried again", b.Reason
	case rules.TypeSignalRefused:
		return d.refused(e), ""
	case rules.TypeLeaseExpired:
		return d.role(e) + " lost its lease: it expired", ""
	case rules.TypeLeaseReleased:
		b := as[rules.LeaseReleased](e)
		if routine(b.Reason) {
			return "", ""
		}
		return d.role(e) + " stopped", b.Reason
	}
	return "", ""
}

// unavailable describes that an agent cannot work, and who takes over.
func (d describer) unavailable(b rules.AgentUnavailable) (text, detail string) {
	why := b.Cause.InWords()
	until := ""
	if !b.Until.IsZero() {
		until = " until " + b.Until.In(d.zone).Format("15:04")
	}
	switch {
	case b.Next != "" && b.Role != "":
		return fmt.Sprintf("%s takes over from %s as %s%s (%s)", b.Next, b.Agent, b.Role, until, why), b.Detail
	case b.Next != "":
		return fmt.Sprintf("%s takes over from %s%s (%s)", b.Next, b.Agent, until, why), b.Detail
	case !b.Until.IsZero():
		return fmt.Sprintf("%s is not available until %s (%s)", b.Agent, b.Until.In(d.zone).Format(time.TimeOnly), why), b.Detail
	}
	return fmt.Sprintf("%s is not available (%s)", b.Agent, why), b.Detail
}

// waitsLine says that an agent, or a role, waits for the end of a rate limit.
func waitsLine(who string, until time.Time, zone *time.Location) string {
	return fmt.Sprintf("rate limit: %s waits until %s", who, until.In(zone).Format(time.TimeOnly))
}

// outageLine says when an agent is tried again whose server did not answer.
func outageLine(agent string, until time.Time, zone *time.Location) string {
	return fmt.Sprintf("no answer from the server of %s: it is tried again at %s", agent, until.In(zone).Format(time.TimeOnly))
}

// failed describes how an agent failed.
func failed(cause rules.FailCause) string {
	switch cause {
	case rules.FailTimeout:
		return "timed out"
	case rules.FailCrash:
		return "crashed"
	case rules.FailStall:
		return "stalled"
	case rules.FailStart:
		return "could not start"
	case rules.FailWorkspace:
		return "could not get a workspace"
	case rules.FailSignals:
		return "sent no valid signal"
	case rules.FailProcesses:
		return "left processes behind"
	}
	return "failed: " + string(cause)
}

// routine reports whether another event already explains why a lease ended.
func routine(reason string) bool {
	switch reason {
	case "", "checks", "merge", "delivered", "conflict", "health audit", "exit", rules.ReleasedLimit, rules.ReleasedUnavailable, "retry", "setup", rules.ReleasedForRework, "the run is cancelled", "the human is asked instead",
		signalbox.NameExit, signalbox.NameUnknown:
		return true
	}
	switch rules.FailCause(reason) {
	case rules.FailTimeout, rules.FailCrash, rules.FailStall, rules.FailStart, rules.FailWorkspace, rules.FailSignals, rules.FailProcesses:
		return true
	}
	_, signal := signalbox.LineSignalNamed(reason)
	return signal
}

// remedy describes remediations, experts, and conflicts over files.
func (d describer) remedy(e *signalbox.Event) (text, detail string) {
	switch e.Type {
	case rules.TypeRemediationNeeded:
		b := as[rules.RemediationNeeded](e)
		return "blocked by remediation " + b.Remediation, b.Issue
	case rules.TypeHealthAudited:
		b := as[rules.HealthAudited](e)
		switch {
		case b.Contradiction:
			return "reported healthy, but the checks fail", b.Reason
		case b.Healthy:
			return "healthy again", ""
		}
		return "still unhealthy", b.Reason
	case rules.TypeRemediationRetried:
		return "trying again" + attempt(as[rules.RemediationRetried](e).Attempt+1), ""
	case rules.TypeBaselineAccepted:
		return "failures on the base accepted by " + e.Actor, strings.Join(rules.ChecksInWords(as[rules.BaselineAccepted](e).Failing), ", ")
	case rules.TypeRemediationEnded:
		if w, known := d.s.Work(e.Work); known && w.Task != nil && w.Task.Kind == rules.KindBaseline {
			return "running the checks on the base again", ""
		}
		return "resumed: " + as[rules.RemediationEnded](e).Remediation + " is done", ""
	case rules.TypeExpertRequested:
		b := as[rules.ExpertRequested](e)
		return fmt.Sprintf("%s asks expert %s (%s) and waits", d.role(e), b.Expert, b.Request), b.Type
	case rules.TypeExpertAdvised:
		b := as[rules.ExpertAdvised](e)
		return fmt.Sprintf("advice from %s (%s)", b.Expert, b.Request), ""
	case rules.TypeExpertRegistered:
		b := as[rules.ExpertRegistered](e)
		return "new expert: " + b.Expert.Name, b.Expert.Gap
	case rules.TypeFileWaited:
		b := as[rules.FileWaited](e)
		return fmt.Sprintf("waiting for %s, which %s is using", b.File, b.Holder), ""
	case rules.TypeLocksYielded:
		return "released its files", as[rules.LocksYielded](e).Reason
	case rules.TypeOverlapNoted:
		if b := as[rules.OverlapNoted](e); b.With != "" {
			return fmt.Sprintf("changes %s, and so does %s", b.File, b.With), ""
		}
	}
	return "", ""
}

// asking describes questions.
func (d describer) asking(e *signalbox.Event) (text, detail string) {
	switch e.Type {
	case rules.TypeQuestionAsked:
		b := as[rules.QuestionAsked](e)
		if b.Kind == rules.AskedBaseline { // ChecksRan already reported which checks fail, and why
			what, _, _ := strings.Cut(b.Text, ": ")
			return fmt.Sprintf("asks you (%s): %s", b.Question, what), "see signalbox questions; " + answerWith(b.Question)
		}
		return fmt.Sprintf("asks you (%s): %s", b.Question, b.Text), answerWith(b.Question)
	case rules.TypeQuestionAnswered:
		b := as[rules.QuestionAnswered](e)
		if b.Withdrawn {
			return b.Question + " withdrawn", ""
		}
		return fmt.Sprintf("%s answered by %s", b.Question, e.Actor), b.Answer
	}
	return "", ""
}

// messages returns the noun for a number of messages.
func messages(n int) string {
	if n == 1 {
		return "message"
	}
	return count(n, "message")
}

func answerWith(question string) string { return "answer with: signalbox answer " + question + " TEXT" }

// operator describes what people order.
func (d describer) operator(e *signalbox.Event) (text, detail string) {
	subject := ""
	if e.Work == "" {
		subject = "the run is "
	}
	switch e.Type {
	case rules.TypePlanLoaded:
		_, name, _ := d.s.Plan()
		return "plan loaded", name
	case rules.TypePaused:
		if role := as[rules.Paused](e).Role; role != "" {
			subject = "the role " + string(role) + " is "
		}
		return subject + "paused by " + e.Actor, as[rules.Paused](e).Reason
	case rules.TypeResumed:
		if role := as[rules.Resumed](e).Role; role != "" {
			subject = "the role " + string(role) + " is "
		}
		return subject + "resumed by " + e.Actor, ""
	case rules.TypeCancelled:
		return subject + "cancelled by " + e.Actor, as[rules.Cancelled](e).Reason
	case rules.TypeRetried:
		retried := as[rules.Retried](e)
		if retried.From != "" {
			subject += "restarted in " + string(retried.From) + " by "
		} else {
			subject += "restarted by "
		}
		return subject + e.Actor, retried.Note
	case rules.TypeMessageSent:
		return "message from " + e.Actor, as[rules.MessageSent](e).Text
	case rules.TypeMessageDelivered:
		return d.role(e) + " got your " + messages(len(as[rules.MessageDelivered](e).Messages)), ""
	}
	return "", ""
}
