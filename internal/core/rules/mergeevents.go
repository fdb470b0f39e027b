package rules

import "signalbox"

// The types of events about merging and delivering work.
const (
	TypeMergeRequested = "MergeRequested"
	TypeMergeApproved  = "MergeApproved"
	TypeMergePrepared  = "MergePrepared"
	TypeMerged         = "Merged"
	TypeDelivered      = "Delivered"
	TypeBranchMoved    = "BranchMoved"
	TypeConflictFound  = "ConflictFound"
)

// MergeRequested asks the merger to merge the work into the base.
type MergeRequested struct {
	// Commit is the commit that was checked, reviewed and audited.
	Commit string `json:"commit,omitempty"`
}

func (MergeRequested) eventType() string { return TypeMergeRequested }

// MergeApproved records that a human approved a merge.
type MergeApproved struct {
	// Commit is the commit that may be merged.
	Commit string `json:"commit,omitempty"`
}

func (MergeApproved) eventType() string { return TypeMergeApproved }

// MergePrepared records the merge commit that is about to become the base. After a crash, the base contains exactly this commit
// if the merge took place.
type MergePrepared struct {
	Epoch  uint64 `json:"epoch"`
	Commit string `json:"commit"`
	// Before is the commit of the base that it is made for.
	Before string `json:"before"`
	// Tip is the commit of the work that it merges.
	Tip string `json:"tip"`
}

func (MergePrepared) eventType() string { return TypeMergePrepared }

// Merged records that the work is in the base. Unblocked lists the tasks that waited only for it.
type Merged struct {
	Epoch     uint64   `json:"epoch,omitempty"`
	Commit    string   `json:"commit,omitempty"`
	Before    string   `json:"before,omitempty"`
	Unblocked []string `json:"unblocked,omitempty"`
	// Rows is the list of check results on the merge commit, before the base moved to it.
	Rows []CheckRow `json:"rows,omitempty"`
	// Tip is the commit of the work that was merged.
	Tip string `json:"tip,omitempty"`
}

func (Merged) eventType() string { return TypeMerged }

// Delivered records that the work is on a branch, which was perhaps pushed, and for which a pull request was perhaps opened. Unblocked lists
// the tasks that waited only for it.
type Delivered struct {
	Epoch uint64 `json:"epoch"`
	Delivery
	Unblocked []string `json:"unblocked,omitempty"`
}

func (Delivered) eventType() string { return TypeDelivered }

// BranchMoved records that the branch of a task was moved by something other than signalbox. What it was moved to does not count.
type BranchMoved struct {
	Epoch uint64 `json:"epoch"`
	// Expected is the commit that counts.
	Expected string `json:"expected"`
	Found    string `json:"found"`
}

func (BranchMoved) eventType() string { return TypeBranchMoved }

// ConflictFound records that the work conflicts with the base. If an author records it, the author is about to resolve it. One without
// files means that there is no conflict any more.
type ConflictFound struct {
	Epoch uint64 `json:"epoch"`
	// Commit is the commit of the work, and Base that of the base.
	Commit string `json:"commit"`
	Base   string `json:"base"`
	// Draft is the commit with both, and with conflict markers, that the author gets. Its parents are Commit and Base.
	Draft string `json:"draft,omitempty"`
	// Files is the list of files that conflict; the first 50 of them.
	Files []string `json:"files,omitempty"`
	// Submodules is the list of those that are submodules. The human decides about them.
	Submodules []string `json:"submodules,omitempty"`
	// Unresolved is the list of files in which the author left conflict markers.
	Unresolved []string `json:"unresolved,omitempty"`
	// Count is how often the work was sent back because of conflicts.
	Count int `json:"count,omitempty"`
	// Body is the blob with a description of the conflict.
	Body signalbox.Hash `json:"body,omitzero"`
}

func (ConflictFound) eventType() string { return TypeConflictFound }
