package rules

import (
	"cmp"
	"slices"
	"strings"

	"signalbox"
)

// Conflict is a conflict of the work with the base.
type Conflict struct {
	// Commit is the commit of the work, and Base that of the base, which conflict.
	Commit string `json:"commit"`
	Base   string `json:"base"`
	// Draft is the commit with both, and with conflict markers, that the author was given to
	// resolve the conflict; "" before that.
	Draft string   `json:"draft,omitempty"`
	Files []string `json:"files"`
	// Submodules are those of the files that are submodules.
	Submodules []string `json:"submodules,omitempty"`
	// Unresolved are the files in which the author left conflict markers.
	Unresolved []string `json:"unresolved,omitempty"`
	// Body is a description of the conflict.
	Body signalbox.Hash `json:"body,omitzero"`
}

// ReportConflict reports that the work conflicts with the base. The roles that run the checks and
// that merge send the work back with it. An author reports the conflict that it is given to
// resolve, before it gets it; one without files means that there is none any more.
type ReportConflict struct {
	Session string
	Epoch   uint64
	Conflict
}

// maxConflicts is how often a task that conflicts with the base goes back before the human is
// asked. It is not the fault of the developer, so no other limit counts it.
const maxConflicts = 5

// maxConflictFiles is how many files a ConflictFound lists.
const maxConflictFiles = 50

func (c ReportConflict) decide(d *decider) error {
	h, err := d.holderReport(c.Session, c.Epoch, "conflict")
	if err != nil {
		return err
	}
	judge := h.role == signalbox.RoleCI || h.role == signalbox.RoleMerger
	switch {
	case !judge && !h.role.IsAuthor() || h.w.Task.Kind == KindBaseline:
		return refusef(signalbox.CodeFailed, "only its author, "+string(signalbox.RoleCI)+" and "+
			string(signalbox.RoleMerger)+" find conflicts", "%s must not report a conflict of '%s'",
			h.role, h.w.ID)
	case cmp.Or(requireText("commit", c.Commit), requireText("base", c.Base)) != nil, judge &&
		len(c.Files) == 0,
		!judge && len(c.Files) > 0 && c.Draft == "":
		return refusef(signalbox.CodeUsage, "name the commits and the files that conflict",
			"the conflict of '%s' is incomplete", h.w.ID)
	}
	if err := checkCommits(c.Commit, c.Base, c.Draft); err != nil {
		return err
	}
	found := ConflictFound{Epoch: c.Epoch, Commit: c.Commit, Base: c.Base, Draft: c.Draft, Files: someFiles(c.Files), Submodules: someFiles(c.Submodules),
		Unresolved: someFiles(c.Unresolved), Count: h.w.Task.Counts.Conflicts, Body: c.Body}
	if judge {
		found.Count++
	}
	d.answer.Seq = h.note(found)
	if judge {
		h.move(signalbox.PhaseImplementation)
		h.w = withPhase(h.w, signalbox.PhaseImplementation)
	}
	ask := h.askConflict(found)
	if judge || ask {
		h.release("conflict")
	}
	return nil
}

// askConflict asks the human if a conflict needs a decision, and reports whether it does.
func (h report) askConflict(c ConflictFound) bool {
	known := func(name string) bool {
		return h.w.Task.Conflict != nil && slices.Contains(h.w.Task.Conflict.Submodules, name)
	}
	// the human has been asked about the others
	submodules := slices.DeleteFunc(slices.Clone(c.Submodules), known)
	switch {
	case len(submodules) > 0:
		h.block(AskedConflict, c.Body,
			"%s and the base both changed the submodule %s, which agents cannot merge. "+
				"To decide it yourself, merge the base into the branch of %s in its worktree, and answer then. If you only answer, %s keeps its own version of the submodule",
			h.w.ID, strings.Join(submodules, ", "), h.w.ID, h.w.ID)
	case c.Count >= maxConflicts && c.Count > h.w.Task.Counts.Conflicts:
		h.block(AskedConflict, c.Body,
			"%s was sent back %d times because of conflicts with the base, last: %s. What should happen next?", h.w.ID, c.Count, c.conflict().summary())
	default:
		return false
	}
	return true
}

// someFiles returns the first names of a list, which an agent may have chosen.
func someFiles(names []string) []string { return sanitizeFirst(names, maxConflictFiles, maxName) }

// summary describes the conflict in a line. It is part of the state.
func (c *Conflict) summary() string {
	if len(c.Unresolved) > 0 {
		return "conflict markers are left in " + joinSome(c.Unresolved)
	}
	return "it conflicts with the base in " + joinSome(c.Files)
}

// endConflict forgets a conflict that is resolved.
func (t *Task) endConflict() {
	t.Conflict = nil
	t.dropFindings(FindingConflict)
}

// dropFindings removes the findings with a cause.
func (t *Task) dropFindings(cause string) {
	kept := slices.DeleteFunc(slices.Clone(t.Findings),
		func(f Finding) bool { return f.Cause == cause })
	if len(kept) == 0 {
		kept = nil
	}
	t.Findings = kept
}

// FindingConflict is the cause of the finding that work conflicts with the base.
const FindingConflict = "conflict"
