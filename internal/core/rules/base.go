package rules

import (
	"cmp"
	"time"

	"signalbox"
)

// ObserveBase reports where the base is. It is recorded if the base is elsewhere than the ledger
// says: then something other than a merge of ours has moved it.
type ObserveBase struct {
	// Known is Base as it was before the caller looked. If the ledger has a newer one by now, the
	// observation is out of date.
	Known string
	// Commit is the commit of the base. Added and Dropped describe the commits that it has and
	// Known has not, and the reverse.
	Commit         string
	Added, Dropped []string
	// Start means that the caller is about to start work. If no other session is active, a person
	// moved the base between two runs.
	Start bool
	// Fetched means that signalbox itself has moved the base to that of the remote repository.
	Fetched bool
	// Joined means that signalbox itself has joined commits that were made on the base branch,
	// while that waited, to the merged work.
	Joined bool
	Actor  string
}

// maxBaseCommits is how many commits a BaseMoved lists.
const maxBaseCommits = 20

func (c ObserveBase) decide(d *decider) error {
	if err := cmp.Or(checkIDs("actor", c.Actor), requireText("commit", c.Commit),
		checkCommits(c.Commit)); err != nil {
		return err
	}
	s := &d.s.run
	// the checks on the base record it
	first := s.Base == "" && (s.Baselines == 0 || d.s.open[KindBaseline] > 0)
	if s.Policy == nil || s.Policy.Shared || first || c.Known != s.Base || c.Commit == s.Base ||
		d.s.landing(c.Commit) {
		d.answer.Repeated = true
		return nil
	}
	between := c.Start && len(d.s.leased) == 0
	d.answer.Seq = d.record("", "", c.Actor, BaseMoved{s.Base, c.Commit, sanitizeFirst(c.Added, maxBaseCommits, 200),
		sanitizeFirst(c.Dropped, maxBaseCommits, 200), between, c.Fetched, c.Joined})
	unfinished := d.s.open[KindTask] > 0 || d.s.open[KindRemediation] > 0
	if unfinished || !between {
		d.checkBase(c.Actor)
	}
	return nil
}

// landing reports whether a commit is a merge onto the base, or the last one of a train, that was
// prepared and not recorded as merged yet.
func (s *State) landing(commit string) bool {
	before := map[string]string{}
	for _, w := range s.works {
		if w.Task != nil && w.Task.Merge != nil && !w.onHold() {
			before[w.Task.Merge.Commit] = w.Task.Merge.Before
		}
	}
	for range len(before) { // back through the merges of a train
		prepared := false
		if commit, prepared = before[commit]; !prepared || commit == s.run.Base {
			return prepared
		}
	}
	return false
}

// PreparedMerge is a merge commit that passed its checks, and the commit of the base that it is
// made for.
type PreparedMerge struct {
	Commit string `json:"commit"`
	Before string `json:"before"`
	Train  *Train `json:"train,omitempty"`
}

func (m *PreparedMerge) is(commit, before string) bool {
	return m.Commit == commit && m.Before == before
}

// BaseMove is a move of the base that signalbox did not make.
type BaseMove struct {
	BaseMoved
	Seq uint64    `json:"seq"`
	At  time.Time `json:"at"`
}

// Base returns the commit of the base as the ledger knows it, "" if it does not.
func (s *delivery) Base() string { return s.run.Base }

// BaseMoves returns the moves of the base during runs that signalbox did not make.
func (s *delivery) BaseMoves() []BaseMove { return s.run.BaseMoves }

// PrepareMerge records the merge commit that is about to become the base. It is refused if the
// merge is not, or no longer, allowed. Only the system role that merges may send it.
type PrepareMerge struct {
	Session        string
	Epoch          uint64
	Commit, Before string
}

func (c PrepareMerge) decide(d *decider) error {
	return PrepareTrain{c.Session, "", []TrainMerge{{c.Epoch, c.Commit, c.Before}}}.decide(d)
}

// ReportBranch reports that the branch of a task was not at the commit that the ledger names. It
// changes nothing: that commit counts.
type ReportBranch struct {
	Session         string
	Epoch           uint64
	Expected, Found string
}

func (c ReportBranch) decide(d *decider) error {
	h, err := d.holderReport(c.Session, c.Epoch, "branch")
	if err != nil {
		return err
	}
	if err := checkCommits(c.Expected, c.Found); err != nil {
		return err
	}
	d.answer.Seq = h.note(BranchMoved{c.Epoch, c.Expected, c.Found})
	return nil
}

// maxUnchanged is how often a task that changes nothing goes back before the human is asked.
const maxUnchanged = 2

// unchanged sends a task back that changes nothing, and asks the human when that happens again:
// some tasks need no change.
func (h report) unchanged() {
	count := h.w.Task.Counts.Unchanged + 1
	h.note(ReworkOrdered{Cause: ReworkUnchanged, Count: count,
		Summary: "the branch changes nothing: everything on it is in the base already. " +
			"Make the change in your folder, on the branch that is checked out there. If the task needs no change, say so again: the human decides"})
	h.move(signalbox.PhaseImplementation)
	if count >= maxUnchanged {
		h.w = withPhase(h.w, signalbox.PhaseImplementation)
		h.block(AskedUnchanged, signalbox.Hash{},
			"%s was reported ready %d times, but its branch changes nothing. "+
				"Answer \"done\" to complete it without a change; any other answer is guidance for another attempt", h.w.ID, count)
	}
}

// answerUnchanged carries out the human's decision about a task that changes nothing.
func (d *decider) answerUnchanged(w *Work, c AnswerQuestion) {
	if w.Phase != signalbox.PhaseBlocked || firstWord(c.Answer) != "done" {
		d.unblock(w, c.Actor, c.Question)
		return
	}
	d.withdrawQuestions(w, c.Actor, c.Question)
	d.record(w.ID, "", c.Actor, Merged{Unblocked: d.s.unblockedBy(w.ID)})
	d.record(w.ID, "", c.Actor, PhaseChanged{w.Phase, signalbox.PhaseCompleted})
	d.answer.Phase, d.answer.Understood = signalbox.PhaseCompleted, w.ID+" is completed"
}
