package progress

import (
	"fmt"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
)

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
		return fmt.Sprintf("%s said nothing that counts (%s time), is asked again", y.role(e), nth(b.Attempt)), gist(b.Preview)
	case "AgentFailed":
		b := as[rules.AgentFailed](e)
		return fmt.Sprintf("%s %s (%s)", b.Role, failed(rules.FailCause(b.Cause)), nth(b.Count)), b.Detail
	case "RoleLimited":
		b := as[rules.RoleLimited](e)
		return fmt.Sprintf("rate limit: no %s before %s", b.Role, b.Until.In(y.zone).Format(time.TimeOnly)), ""
	case "SignalRefused":
		return y.refused(e), ""
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
