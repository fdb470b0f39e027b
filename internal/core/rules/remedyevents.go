package rules

import "signalbox"

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

func (RemediationNeeded) eventType() string { return TypeRemediationNeeded }

// HealthAudited records a health auditor's verdict. A contradiction is a healthy verdict although checks fail.
type HealthAudited struct {
	Healthy       bool   `json:"healthy"`
	Contradiction bool   `json:"contradiction,omitempty"`
	Reason        string `json:"reason,omitempty"`
}

func (HealthAudited) eventType() string { return TypeHealthAudited }

// RemediationRetried starts another attempt.
type RemediationRetried struct {
	Attempt int    `json:"attempt"`
	Reason  string `json:"reason,omitempty"`
}

func (RemediationRetried) eventType() string { return TypeRemediationRetried }

// RemediationEnded lets a task continue that waited for a remediation.
type RemediationEnded struct {
	Remediation string `json:"remediation"`
}

func (RemediationEnded) eventType() string { return TypeRemediationEnded }
