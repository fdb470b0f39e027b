package rules

import (
	"cmp"
	"fmt"
	"slices"

	"signalbox"
)

// A merge train merges several tasks at once. Dispatch gives the merger the leases of all of them.
// It merges them in order, each into the result of the one before, runs the checks once on the last
// result, and moves the base there. Each task has a merge commit and the events of its own, as if
// it were merged alone; Train says that it was not.

// Train identifies the train that a merge belongs to. A task that is merged alone has none.
type Train struct {
	// ID is the epoch of the lease under which the first task of the train is merged.
	ID uint64 `json:"id"`
	// Position counts the tasks from 1, in the order in which they are merged, and Size is how many
	// there are.
	Position int `json:"position"`
	Size     int `json:"size"`
	// Tree is the git tree that was checked: that of the last merge of the train.
	Tree string `json:"tree"`
}

// fault returns why there cannot be such a train, "" if there can.
func (t *Train) fault() string {
	if t != nil && (t.ID == 0 || t.Size < 2 || t.Position < 1 || t.Position > t.Size ||
		t.Tree == "") {
		return "it does not say which train it belongs to"
	}
	return ""
}

// ReleasedTrain is why a lease ended if its work waits for the next train.
const ReleasedTrain = "train"

// Granted is a lease that was granted for a task.
type Granted struct {
	Work  string
	Lease signalbox.Lease
}

// train returns up to n tasks to merge together with head, in their order.
func (s *State) train(head *Work, n int) []*Work {
	joins := func(w *Work) bool { return w.Task.Kind == KindTask && w.Task.Commit != "" }
	if s.run.Policy.Deliver != DeliverMerge || !joins(head) {
		return nil
	}
	var found []int
	for i := range s.ready[roleNumber(signalbox.RoleMerger)].all() {
		if w := s.works[i]; w.ID != head.ID && joins(w) && s.mayStartNow(w) {
			found = append(found, i)
		}
	}
	below := s.downstreamCounts()
	slices.SortFunc(found, func(i, j int) int { return s.compareStart(below, i, j) })
	var cars []*Work
	for _, i := range found[:min(len(found), max(n, 0))] {
		cars = append(cars, s.works[i])
	}
	return cars
}

// TrainMerge is the merge of one task in a train.
type TrainMerge struct {
	Epoch uint64
	// Commit is the merge commit, and Before the base, or merge commit, that it is made for.
	Commit, Before string
}

// PrepareTrain records the merge commits that are about to become the base, each on top of the one
// before. It is refused if one of the merges is not, or no longer, allowed. Only the system role
// that merges may send it.
type PrepareTrain struct {
	Session string
	// Tree is the git tree of the last merge commit. It is not recorded for a single merge.
	Tree   string
	Merges []TrainMerge
}

func (c PrepareTrain) decide(d *decider) error {
	if len(c.Merges) == 0 || len(c.Merges) > signalbox.MaxTrain {
		return refusef(signalbox.CodeUsage, fmt.Sprintf("merge 1 to %d tasks together", signalbox.MaxTrain),
			"there are %d merges", len(c.Merges))
	}
	var reports []report
	for _, m := range c.Merges { // before anything is recorded
		h, err := d.mergerReport(c.Session, m.Epoch)
		if err == nil {
			err = h.checkMerge(m.Commit)
		}
		if err != nil {
			return err
		}
		reports = append(reports, h)
	}
	if err := cmp.Or(checkChain(c.Merges, d.s.run.Base), checkCommits(c.Tree)); err != nil {
		return err
	}
	for i, m := range c.Merges {
		var train *Train
		if len(c.Merges) > 1 {
			train = &Train{c.Merges[0].Epoch, i + 1, len(c.Merges), c.Tree}
		}
		d.answer.Seq = reports[i].note(
			MergePrepared{m.Epoch, m.Commit, m.Before, reports[i].w.Task.Commit, train})
	}
	return nil
}

// checkChain refuses merges that are not on top of each other and of the base.
func checkChain(merges []TrainMerge, base string) error {
	for _, m := range merges {
		if m.Before != base {
			return refusef(signalbox.CodeConflict, "merge into the base that the ledger names",
				"the base has moved")
		}
		base = m.Commit
	}
	return nil
}

// mergerReport returns a report of the merger, which holds planned work under a live lease.
func (d *decider) mergerReport(session string, epoch uint64) (report, error) {
	h, err := d.holderReport(session, epoch, "merge")
	if err == nil && h.role != signalbox.RoleMerger {
		err = refusef(signalbox.CodeFailed, "only "+string(signalbox.RoleMerger)+" merges",
			"%s must not merge", h.role)
	}
	return h, err
}

// checkMerge refuses a merge that is not allowed.
func (h report) checkMerge(commit string) error {
	switch {
	case h.s.run.Policy.Deliver != DeliverMerge:
		return refusef(signalbox.CodeUsage, "deliver it as the policy says",
			"the policy does not merge '%s'", h.w.ID)
	case commit == "" || h.w.Task.Commit == "":
		return refusef(signalbox.CodeUsage, "run the checks first", "there is no commit to merge")
	case h.s.WaitsForApproval(h.w):
		return refusef(signalbox.CodeConflict, "signalbox approve "+h.w.ID,
			"the merge of '%s' is not approved", h.w.ID)
	}
	return checkCommits(commit)
}

// ReportTrain reports what became of the tasks of a train. Only the system role that merges may
// send it.
type ReportTrain struct {
	Session string
	// Merges are the merges that took place, as PrepareTrain recorded them.
	Merges []TrainMerge
	// Moves means that this report moves the base: it must still be where the first merge belongs,
	// and every merged task must be held, or nothing is recorded. Otherwise the base was moved
	// before, where a crew can see it, and tasks whose leases were lost meanwhile are left to the
	// next merger.
	Moves bool
	// Rows is the list of check results on the last merge commit.
	Rows []CheckRow
	// Failed is the lease of the task with which the checks fail, 0 if there is none. Refusal says
	// what failed, and Body is the output.
	Failed  uint64
	Refusal string
	Body    signalbox.Hash
	// Waiting are the leases of tasks that wait for the next train.
	Waiting []uint64
}

func (c ReportTrain) decide(d *decider) error {
	held := map[uint64]bool{} // each lease is reported once
	holder := func(epoch uint64) (report, error) {
		if held[epoch] {
			return report{}, refusef(signalbox.CodeUsage, "report each task once",
				"epoch %d is reported twice", epoch)
		}
		held[epoch] = true
		return d.mergerReport(c.Session, epoch)
	}
	var merged, others []report
	var lost error
	for _, m := range c.Merges {
		h, err := holder(m.Epoch)
		if err == nil {
			err = h.checkPrepared(m.Commit, m.Before)
		}
		if err == nil {
			merged = append(merged, h)
		}
		lost = cmp.Or(lost, err)
	}
	if c.Moves {
		if err := cmp.Or(lost, checkChain(c.Merges, d.s.run.Base)); err != nil {
			return err
		}
	}
	for _, epoch := range append([]uint64{c.Failed}, c.Waiting...) {
		if epoch == 0 {
			continue
		}
		h, err := holder(epoch)
		if err == nil {
			others = append(others, h)
		}
		lost = cmp.Or(lost, err)
	}
	if len(merged)+len(others) == 0 {
		return lost
	}
	var done []string
	for _, h := range merged {
		d.answer.Seq = h.merged(h.w.Task.Merge, c.Rows, done)
		h.release("merge")
		done = append(done, h.w.ID)
	}
	for _, h := range others {
		reason := ReleasedTrain
		if h.epoch == c.Failed {
			h.refuseMerge(c.Refusal, c.Body)
			reason = "merge"
		}
		h.release(reason)
	}
	return nil
}

// refuseMerge sends a task back that cannot be merged.
func (h report) refuseMerge(why string, body signalbox.Hash) {
	h.Body = body
	count := h.w.Task.Counts.Merges + 1
	h.raise(ReworkMerge, h.w.Task.Commit, "it could not be merged: "+why)
	h.rework(ReworkMerge, count, h.s.run.Policy.Limits.Merges, AskedMerge, why,
		body, count, "")
}

// checkPrepared refuses a report of a merge other than the one that was prepared.
func (h report) checkPrepared(commit, before string) error {
	if m := h.w.Task.Merge; m == nil || !m.is(commit, before) {
		return refusef(signalbox.CodeUsage, "record it with PrepareMerge first",
			"the merge of '%s' was not prepared", h.w.ID)
	}
	return nil
}

// merged records that the work is in the base. m is nil if there was nothing to merge. done lists
// the tasks that the same decision has completed.
func (h report) merged(m *PreparedMerge, rows []CheckRow, done []string) uint64 {
	body := Merged{Epoch: h.epoch, Unblocked: h.s.unblockedBy(h.w.ID, done...), Rows: rows}
	if m != nil {
		body.Commit, body.Before, body.Tip, body.Train = m.Commit, m.Before, h.w.Task.Commit, m.Train
	}
	seq := h.note(body)
	h.move(signalbox.PhaseCompleted)
	return seq
}
