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
	case rules.TypeIncompleteLogged:
		b := as[rules.IncompleteLogged](e)
		return fmt.Sprintf("left incomplete (%s)", strings.ReplaceAll(string(b.Cause), "_", " ")), b.Summary
	case rules.TypeBlockerAdded:
		return "waits for " + strings.Join(as[rules.BlockerAdded](e).On, ", ") + " too", ""
	case rules.TypeUnknownSignalRecovery:
		b := as[rules.UnknownSignalRecovery](e)
		return fmt.Sprintf("%s said nothing that counts (%s time), is asked again", y.role(e), nth(b.Attempt)), gist(b.Preview)
	case rules.TypeAgentFailed:
		b := as[rules.AgentFailed](e)
		return fmt.Sprintf("%s %s (%s)", b.Role, failed(rules.FailCause(b.Cause)), nth(b.Count)), b.Detail
	case rules.TypeRoleLimited:
		b := as[rules.RoleLimited](e)
		return fmt.Sprintf("rate limit: no %s before %s", b.Role, b.Until.In(y.zone).Format(time.TimeOnly)), ""
	case rules.TypeSignalRefused:
		return y.refused(e), ""
	case rules.TypeLeaseExpired:
		return y.role(e) + " was not heard of, its lease ran out", ""
	case rules.TypeLeaseReleased:
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
	case rules.TypeRemediationNeeded:
		b := as[rules.RemediationNeeded](e)
		return "held back by remediation " + b.Remediation, b.Issue
	case rules.TypeHealthAudited:
		b := as[rules.HealthAudited](e)
		switch {
		case b.Contradiction:
			return "said to be healthy, and is not", b.Reason
		case b.Healthy:
			return "healthy again", ""
		}
		return "unhealthy still", b.Reason
	case rules.TypeRemediationRetried:
		return fmt.Sprintf("is tried again (%s)", nth(as[rules.RemediationRetried](e).Attempt+1)), ""
	case rules.TypeRemediationEnded:
		return "goes on, " + as[rules.RemediationEnded](e).Remediation + " is over", ""
	case rules.TypeExpertRequested:
		b := as[rules.ExpertRequested](e)
		return fmt.Sprintf("%s asks expert %s (%s) and is parked", y.role(e), b.Expert, b.Request), b.Type
	case rules.TypeExpertAdvised:
		b := as[rules.ExpertAdvised](e)
		return fmt.Sprintf("advice of %s (%s)", b.Expert, b.Request), ""
	case rules.TypeExpertRegistered:
		b := as[rules.ExpertRegistered](e)
		return "new expert: " + b.Expert.Name, b.Expert.Gap
	case rules.TypeFileWaited:
		b := as[rules.FileWaited](e)
		return fmt.Sprintf("parked: waits for %s, which %s has", b.File, b.Holder), ""
	case rules.TypeLocksYielded:
		return "gives its files up", as[rules.LocksYielded](e).Reason
	case rules.TypeOverlapNoted:
		if b := as[rules.OverlapNoted](e); b.With != "" {
			return fmt.Sprintf("changes %s, as %s does", b.File, b.With), ""
		}
	}
	return "", ""
}

// asking is about questions.
func (y saying) asking(e *signalbox.Event) (text, detail string) {
	switch e.Type {
	case rules.TypeQuestionAsked:
		b := as[rules.QuestionAsked](e)
		return fmt.Sprintf("asks the human (%s): %s", b.Question, b.Text), answerWith(b.Question)
	case rules.TypeQuestionAnswered:
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
	case rules.TypePlanLoaded:
		_, name, _ := y.s.Plan()
		return "plan loaded", name
	case rules.TypePaused:
		return subject + "paused by " + e.Actor, as[rules.Paused](e).Reason
	case rules.TypeResumed:
		return subject + "resumed by " + e.Actor, ""
	case rules.TypeCancelled:
		return subject + "cancelled by " + e.Actor, as[rules.Cancelled](e).Reason
	case rules.TypeRetried:
		return subject + "begun anew by " + e.Actor, as[rules.Retried](e).Note
	}
	return "", ""
}
