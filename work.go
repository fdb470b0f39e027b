package signalbox

import (
	"fmt"
	"strings"
	"time"
)

// RoleCI is the system principal that runs checks. It is no role of an agent: only it may claim CI_PENDING work,
// so an agent that says its own tests passed moves nothing.
const RoleCI Role = "ci"

// RoleMerger is the system principal that brings finished work into the base, one at a time.
const RoleMerger Role = "merger"

// Lease is the right to work on one item until it expires. Whoever holds it is the only one whose word about the
// item counts.
type Lease struct {
	ID string `json:"id"`
	// Epoch is the sequence of the event that granted the lease. It only ever grows, so it fences: what is said
	// under an older epoch is stale.
	Epoch   uint64    `json:"epoch"`
	Session string    `json:"session"`
	Actor   string    `json:"actor"`
	Role    Role      `json:"role"`
	Expires time.Time `json:"expires"`
}

// Times that a lease may live for. A holder renews it while it works.
const (
	DefaultLeaseTTL = 15 * time.Minute
	MinLeaseTTL     = time.Second
	MaxLeaseTTL     = 24 * time.Hour
)

// ClaimableBy returns the role that may claim work in the phase, "" when nobody may.
func (p Phase) ClaimableBy() Role {
	switch p {
	case PhaseDraft:
		return RoleBusinessAnalyst
	case PhaseImplementation:
		return RoleDeveloper
	case PhaseCIPending:
		return RoleCI
	case PhaseReadyForReview, PhaseReview:
		return RoleCritic
	case PhaseReadyForMerge:
		return RoleAuditor
	}
	return ""
}

// maxID is the longest id in bytes.
const maxID = 64

// CheckID returns nil if id may name work, a session, an actor or a lease. Ids become parts of paths and names of
// git branches, so they are plain: letters, digits, '.', '_' and '-', beginning with a letter or a digit, at most
// 64 bytes, without "..", and not ending in ".lock" or ".".
func CheckID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("an id must not be empty")
	case len(id) > maxID:
		return fmt.Errorf("id %q: %d bytes, limit %d", id[:maxID]+"…", len(id), maxID)
	case strings.Contains(id, ".."):
		return fmt.Errorf("id %q: must not contain '..'", id)
	case strings.HasSuffix(id, ".lock"), strings.HasSuffix(id, "."):
		return fmt.Errorf("id %q: must not end in '.lock' or '.'", id)
	}
	for i := range len(id) {
		if c := id[i]; !alphanumeric(c) && (i == 0 || !strings.ContainsRune("._-", rune(c))) {
			return fmt.Errorf("id %q: must be letters, digits, '.', '_' and '-', and begin with a letter or a digit", id)
		}
	}
	return nil
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
