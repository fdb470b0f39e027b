package signalbox

import (
	"fmt"
	"strings"
	"time"
)

// RoleCI is the system principal that runs checks. Agents never have it, and only it may claim
// CI_PENDING work, so an agent's claim that its own tests pass changes nothing.
const RoleCI Role = "ci"

// RoleMerger is the system principal that merges finished work into the base branch, one item, or
// one train of items, at a time.
const RoleMerger Role = "merger"

// Lease is the exclusive right to work on one item until it expires. Only signals from its holder
// count for the item.
type Lease struct {
	ID string `json:"id"`
	// Epoch is the sequence number of the event that granted the lease. It only increases, so it
	// works as a fencing token: signals sent under an older epoch are stale.
	Epoch   uint64    `json:"epoch"`
	Session string    `json:"session"`
	Actor   string    `json:"actor"`
	Role    Role      `json:"role"`
	Expires time.Time `json:"expires"`
}

// Limits on the duration of a lease. The holder renews it while it works.
const (
	DefaultLeaseTTL = 15 * time.Minute
	MinLeaseTTL     = time.Second
	MaxLeaseTTL     = 24 * time.Hour
)

// MaxTrain is how many tasks can be merged together: one append records all of them.
const MaxTrain = 100

// ClaimableBy returns the role that may claim work in the phase, "" if none may.
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

// MaxID is the size limit of an id in bytes.
const MaxID = 64

// CheckID returns nil if id is valid for a work item, a session, an actor or a lease. Ids become
// parts of paths and of git branch names, so they consist of letters, digits, '.', '_' and '-',
// start with a letter or a digit, have at most 64 bytes, and neither contain ".." nor end in
// ".lock" or ".".
func CheckID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("an id must not be empty")
	case len(id) > MaxID:
		return fmt.Errorf("id %q: %d bytes, limit %d", id[:MaxID]+"…", len(id), MaxID)
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
