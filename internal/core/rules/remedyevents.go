package rules

import (
	"slices"

	"signalbox"
)

// The types of events about remediations.
const (
	TypeRemediationNeeded  = "RemediationNeeded"
	TypeHealthAudited      = "HealthAudited"
	TypeRemediationRetried = "RemediationRetried"
	TypeRemediationEnded   = "RemediationEnded"
)

// RemediationNeeded makes a task wait for a remediation.
type RemediationNeeded struct {
	Remediation string         `json:"remediation"`
	Issue       string         `json:"issue,omitempty"`
	Body        signalbox.Hash `json:"body,omitzero"`
}

func (b RemediationNeeded) fault(s *State, e *signalbox.Event) string {
	return s.taskFault(e, func(*Work) string {
		r, known := s.Work(b.Remediation)
		if !known || r.Task == nil || r.Task.Kind != KindRemediation || r.Done() {
			return "there is no such remediation"
		}
		return ""
	})
}

func (b RemediationNeeded) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Remedy, t.Counts.Remedies = b.Remediation, t.Counts.Remedies+1
	})
	s.changeTask(b.Remediation, func(_ *Work, t *Task) {
		t.Issues = append(slices.Clip(t.Issues),
			Finding{Cause: "blocked", Summary: b.Issue, Body: b.Body, Work: e.Work, Seq: e.Seq})
	})
}

func (b RemediationNeeded) describe(*Describer, *signalbox.Event) (text, detail string) {
	return "blocked by remediation " + b.Remediation, b.Issue
}

// HealthAudited records a health auditor's verdict. A contradiction is a healthy verdict although
// checks fail.
type HealthAudited struct {
	Healthy       bool   `json:"healthy"`
	Contradiction bool   `json:"contradiction,omitempty"`
	Reason        string `json:"reason,omitempty"`
}

func (HealthAudited) apply(*State, *signalbox.Event) {}

func (b HealthAudited) describe(*Describer, *signalbox.Event) (text, detail string) {
	switch {
	case b.Contradiction:
		return "reported healthy, but the checks fail", b.Reason
	case b.Healthy:
		return "healthy again", ""
	}
	return "still unhealthy", b.Reason
}

// RemediationRetried starts another attempt.
type RemediationRetried struct {
	Attempt int    `json:"attempt"`
	Reason  string `json:"reason,omitempty"`
}

func (b RemediationRetried) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) {
		t.Attempts = b.Attempt
		t.Findings = append(slices.Clip(t.Findings),
			Finding{Cause: findingHealth, Summary: b.Reason, Seq: e.Seq})
	})
}

func (b RemediationRetried) describe(*Describer, *signalbox.Event) (text, detail string) {
	return "trying again" + nthAttempt(b.Attempt+1), ""
}

// RemediationEnded lets a task continue that waited for a remediation.
type RemediationEnded struct {
	Remediation string `json:"remediation"`
}

func (b RemediationEnded) fault(s *State, e *signalbox.Event) string {
	return s.taskFault(e, func(w *Work) string {
		if w.Task.Remedy != b.Remediation {
			return "it does not wait for that remediation"
		}
		return ""
	})
}

func (RemediationEnded) apply(s *State, e *signalbox.Event) {
	s.changeTask(e.Work, func(_ *Work, t *Task) { t.Remedy = "" })
}

func (b RemediationEnded) describe(d *Describer, e *signalbox.Event) (text, detail string) {
	if d.isBaseline(e) {
		return "running the checks on the base again", ""
	}
	return "resumed: " + b.Remediation + " is done", ""
}
