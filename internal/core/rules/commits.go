package rules

import (
	"cmp"
	"slices"

	"signalbox"
)

// Machines that share a ledger have clones of their own. A commit that the ledger names is made
// available to the others first: as a git bundle in the blobs, unless the clones share a remote
// repository. The base has a chain of bundles, which contains every commit that was ever in it. A
// task has bundles that build on the chain and on each other; they are forgotten when the task is
// completed, because its merge is in the chain.

// StoredCommit is a commit that is in a bundle.
type StoredCommit struct {
	Commit string         `json:"commit"`
	Bundle signalbox.Hash `json:"bundle"`
	// Size is the size of the bundle in bytes.
	Size int64 `json:"size"`
	// Needs is the list of stored commits that the bundle builds on.
	Needs []string `json:"needs,omitempty"`
	// Branch is the branch that the base is, absent for the commit of a task.
	Branch string `json:"branch,omitempty"`
}

// MaxBundle is the size of the largest bundle.
const MaxBundle = 2 << 30

// StoreCommits records a bundle. The same commit is recorded once, unless its bundle was rejected,
// or too many were rejected to record more.
type StoreCommits struct {
	// Work is the task that the commit belongs to; "" means the base.
	Work string
	StoredCommit
	// Replaces are the stored commits of the base, or of the task, that the bundle contains, so
	// that their bundles are not needed any more.
	Replaces []string
	Actor    string
}

func (c StoreCommits) decide(d *decider) error {
	if err := cmp.Or(checkIDs("actor", c.Actor), requireText("commit", c.Commit),
		checkCommits(c.Commit), checkCommits(c.Needs...), checkCommits(c.Replaces...),
		checkBranch(c.Branch)); err != nil {
		return err
	}
	switch {
	case c.Size > MaxBundle:
		return refusef(signalbox.CodeUsage,
			"set workspace.remote to a repository that all machines reach",
			"the bundle of %.12s has %d bytes, limit %d", c.Commit, c.Size, MaxBundle)
	case c.Work == "" && c.Branch == "":
		return refusef(signalbox.CodeUsage, "name it",
			"the bundle of %.12s does not name the branch of the base", c.Commit)
	case c.Work == "":
		if branch := d.s.BaseBranch(); branch != "" && branch != c.Branch {
			return refusef(signalbox.CodeUsage, "git switch "+branch+", or set deliver.target",
				"the base branch of the box is %s, and not %s", branch, c.Branch)
		}
	default:
		w, known := d.s.Work(c.Work)
		switch {
		case !known || w.Task == nil:
			return refusef(signalbox.CodeNotFound, "see signalbox status", "there is no task '%s'",
				c.Work)
		case w.Phase == signalbox.PhaseCompleted && d.s.storedCommit(c.Work, c.Commit) == nil:
			return refusef(signalbox.CodeConflict, "its work is in the base", "'%s' is completed",
				c.Work)
		}
	}
	if stored := d.s.storedCommit(c.Work, c.Commit); stored != nil &&
		d.s.BundleFault(*stored) == "" &&
		(stored.Bundle == c.Bundle || !slices.Contains(c.Replaces, c.Commit) ||
			!d.s.RejectedOften(c.Commit)) {
		d.answer.Repeated = true
		return nil
	}
	b := CommitsStored{c.StoredCommit, c.Replaces}
	if fault := d.s.storedFault(c.Work, b); fault != "" {
		return refusef(signalbox.CodeConflict, "make the bundle again",
			"the bundle of %.12s cannot be used: %s", c.Commit, fault)
	}
	d.answer.Seq = d.record(c.Work, "", c.Actor, b)
	return nil
}

// RejectBundle reports that a machine cannot use a bundle, because of its contents or because it is
// not in the blobs. It changes nothing if the ledger has another bundle for the commit by now.
type RejectBundle struct {
	// Work is the task that the commit belongs to; "" means the base.
	Work   string
	Commit string
	Bundle signalbox.Hash
	Fault  string
	Actor  string
}

// maxRejected is how often bundles of a commit are rejected. A machine that could use none must not
// make the others store them forever.
const maxRejected = 3

func (c RejectBundle) decide(d *decider) error {
	b := BundleRejected{c.Commit, c.Bundle, sanitize(c.Fault, 500)}
	if err := cmp.Or(checkIDs("actor", c.Actor), requireText("commit", c.Commit),
		requireText("fault", b.Fault)); err != nil {
		return err
	}
	if d.answer.Repeated = d.s.rejectedFault(c.Work, b) != ""; !d.answer.Repeated {
		d.answer.Seq = d.record(c.Work, "", c.Actor, b)
	}
	return nil
}

// StoredCommits returns the commits of a task that are in bundles, oldest first, or those of the
// base if work is "".
func (s *State) StoredCommits(work string) []StoredCommit {
	if work == "" {
		return s.run.Stored
	}
	w, known := s.Work(work)
	if !known || w.Task == nil {
		return nil
	}
	return w.Task.Stored
}

// BaseBranch returns the branch that the base is, "" if no machine has stored it.
func (s *delivery) BaseBranch() string {
	for _, stored := range s.run.Stored {
		if stored.Branch != "" {
			return stored.Branch
		}
	}
	return ""
}

// storedCommit returns a commit of a task, or of the base, that is in a bundle; nil if it is not.
func (s *State) storedCommit(work, commit string) *StoredCommit {
	list := s.StoredCommits(work)
	if i := slices.IndexFunc(list,
		func(s StoredCommit) bool { return s.Commit == commit }); i >= 0 {
		return &list[i]
	}
	return nil
}

// storedFault validates a bundle of a task, or of the base.
func (s *State) storedFault(work string, b CommitsStored) string {
	usable := func(commit string) bool {
		for _, in := range []string{"", work} {
			if stored := s.storedCommit(in, commit); stored != nil && s.BundleFault(*stored) == "" {
				return true
			}
		}
		return false
	}
	unknown := func(commit string) bool { return s.storedCommit(work, commit) == nil }
	switch {
	case b.Commit == "" || b.Bundle == signalbox.Hash{} || b.Size <= 0:
		return "it has no commit or no content"
	case !unknown(b.Commit) && !slices.Contains(b.Replaces, b.Commit):
		return "the commit is stored already"
	case slices.ContainsFunc(b.Needs, func(commit string) bool { return !usable(commit) }):
		return "it builds on a commit that is not stored"
	case slices.ContainsFunc(b.Replaces, unknown):
		return "it replaces a commit that is not stored"
	}
	return ""
}

// rejectedFault validates the rejection of a bundle.
func (s *State) rejectedFault(work string, b BundleRejected) string {
	stored := s.storedCommit(work, b.Commit)
	switch {
	case stored == nil || stored.Bundle != b.Bundle:
		return "there is no such bundle"
	case b.Fault == "" || s.BundleFault(*stored) != "":
		return "it is rejected once, with a reason"
	case s.RejectedOften(b.Commit):
		return "too many bundles of the commit were rejected"
	}
	return ""
}

// RejectedBundle is a bundle that a machine could not use. Replaced means that the commit was
// stored again, perhaps as the same bundle.
type RejectedBundle struct {
	BundleRejected
	Replaced bool `json:"replaced,omitempty"`
}

// BundleFault returns what a machine found wrong with the bundle of a stored commit, "" if none
// rejected it.
func (s *delivery) BundleFault(stored StoredCommit) string {
	for _, r := range s.run.Rejected {
		if r.Commit == stored.Commit && r.Bundle == stored.Bundle && !r.Replaced {
			return r.Fault
		}
	}
	return ""
}

// RejectedOften reports whether so many bundles of a commit were rejected that no more rejections
// are recorded. Then a machine that has the commit must check by itself whether the last bundle is
// usable.
func (s *delivery) RejectedOften(commit string) bool {
	n := 0
	for _, r := range s.run.Rejected {
		if r.Commit == commit {
			n++
		}
	}
	return n >= maxRejected
}

// dropStored forgets the bundles of a completed task. If it was delivered and not merged, they are
// the only ones with its work.
func (t *Task) dropStored() {
	if t.Delivered == nil || t.Delivered.Request != "" {
		t.Stored = nil
	}
}
