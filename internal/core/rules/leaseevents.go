package rules

import (
	"time"

	"signalbox"
)

// The types of events about leases.
const (
	TypeLeaseGranted  = "LeaseGranted"
	TypeLeaseRenewed  = "LeaseRenewed"
	TypeLeaseReleased = "LeaseReleased"
	TypeLeaseExpired  = "LeaseExpired"
)

// LeaseGranted gives the work to a session. The sequence of the event is the epoch of the lease.
type LeaseGranted struct {
	Lease   string         `json:"lease"`
	Role    signalbox.Role `json:"role"`
	Expires time.Time      `json:"expires"`
	// Secret is the SHA-256 of the secret that the claim returned. A caller needs the secret to use the lease.
	Secret signalbox.Hash `json:"secret_hash,omitzero" blob:"-"`
	// Identity is the MCP client that claimed the work.
	Identity string `json:"identity,omitempty"`
	// Crew is true if a crew runs the checks of work that was opened by hand.
	Crew bool `json:"crew,omitempty"`
	// Agent is the agent that the crew is to start.
	Agent string `json:"agent,omitempty"`
	// Machine is the name of the machine on which a crew works, if several share the ledger.
	Machine string `json:"machine,omitempty"`
}

func (LeaseGranted) eventType() string { return TypeLeaseGranted }

// LeaseRenewed extends the lease.
type LeaseRenewed struct {
	Epoch   uint64    `json:"epoch"`
	Expires time.Time `json:"expires"`
}

func (LeaseRenewed) eventType() string { return TypeLeaseRenewed }

// LeaseReleased ends a lease because its holder is done or gave up, or because an operator revoked it.
type LeaseReleased struct {
	Epoch  uint64 `json:"epoch"`
	Reason string `json:"reason,omitempty"`
}

func (LeaseReleased) eventType() string { return TypeLeaseReleased }

// LeaseExpired ends a lease that was not renewed in time.
type LeaseExpired struct {
	Epoch uint64 `json:"epoch"`
}

func (LeaseExpired) eventType() string { return TypeLeaseExpired }
