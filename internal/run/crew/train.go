package crew

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/workspace"
)

// A merge train merges several finished tasks at once, if they are ready at the same time:
//
//  1. The rules grant the leases of all of them to one session.
//  2. The session merges them in order, each into the result of the one before.
//  3. It runs the checks on the last result. If they fail, it checks shorter trains until it knows
//     the first task with which they fail.
//  4. It moves the base to the longest result that passed, as a single merge does, and records the
//     merges. The task with which the checks fail goes back to its developer. All others wait for
//     the next train.

// couple returns a session for the lease of another task of the same train. It has no life of its
// own: s carries it out.
func (s *session) couple(granted rules.Granted) *session {
	return &session{crew: s.crew, work: granted.Work, id: s.id, role: s.role,
		epoch: granted.Lease.Epoch, expires: granted.Lease.Expires, over: s.over,
		cancel: func(error) {}, unlease: func() {}, leased: s.leased}
}

// releaseTrain releases the tasks of the train about which nothing was reported.
func (s *session) releaseTrain(ctx context.Context) {
	left := rules.ReportTrain{Session: s.id}
	for _, car := range s.train {
		if car.holdsLease() {
			left.Waiting = append(left.Waiting, car.epoch)
		}
	}
	if left.Waiting != nil {
		s.end(ctx, "cannot release the tasks of a merge train", left)
	}
}

// runTrain merges the session's task and those of its train.
func (m *merge) runTrain(ctx context.Context) error {
	t := &train{head: m, crew: m.crew, all: []*merge{m}, report: rules.ReportTrain{Session: m.id,
		Moves: m.crew.exchange.Shared()}}
	for _, coupled := range m.train {
		t.all = append(t.all, newMerge(coupled))
	}
	err := t.run(ctx)
	t.unlock(t.cars)
	switch {
	case ctx.Err() != nil && err != nil:
		return context.Cause(ctx)
	case isBaseMoved(err):
		m.crew.follower.Observe(ctx, false)
		m.releaseTrain(ctx)
		m.release(ctx, "the base has moved")
		return nil
	case errors.Is(err, errTrainOver):
		m.releaseTrain(ctx)
		m.release(ctx, rules.ReleasedTrain)
		return nil
	case err == nil && t.own != nil:
		return m.settle(ctx, rules.ReportMerge{Moves: t.report.Moves}, workspace.Merged{},
			t.own)
	}
	return err
}

// errTrainOver means that a task cannot be merged any more, because it was cancelled, for example.
// The next train goes without it.
var errTrainOver = errors.New("the merge train is over")

// train is a merge train on its way. It is used by one goroutine.
type train struct {
	head  *merge   // which runs it
	all   []*merge // head, and the others in order
	crew  *Crew
	base  string // of the ledger, when the train began
	chain *workspace.Train
	cars  []*merge // the tasks that are locked on this machine, in order
	// merged are the cars that have a merge commit, in order, and own is why head is not one.
	merged []*merge
	own    error
	// report is what became of the cars.
	report rules.ReportTrain
	locks  map[*merge]io.Closer
}

func (t *train) run(ctx context.Context) error {
	t.base = t.crew.exchange.KnownBase()
	if err := t.lock(ctx); err != nil {
		return err
	}
	if landed, err := t.reportLanded(ctx); landed || err != nil {
		return err
	}
	if err := t.crew.exchange.Obtain(ctx, "", t.base); err != nil {
		return err
	}
	repo := t.crew.project.Repo
	if here, err := repo.BaseCommit(ctx); err != nil {
		return err
	} else if here != t.base && !t.report.Moves {
		return errBaseMoved
	}
	chain, err := repo.OpenTrain(ctx, t.base)
	if err != nil {
		return err
	}
	defer chain.Close()
	t.chain = chain
	if err := t.merge(ctx); err != nil {
		return err
	}
	if err := t.check(ctx); err != nil {
		return err
	}
	return t.land(ctx)
}

// lock locks the tasks of the train against other sessions of this machine. One that is in use is
// left behind.
func (t *train) lock(ctx context.Context) error {
	t.cars, t.locks = []*merge{t.head}, map[*merge]io.Closer{}
	for _, car := range t.all[1:] {
		if !car.holdsLease() {
			continue
		}
		lock, err := t.crew.tryLockWork(car.work)
		if err != nil {
			return err
		}
		if lock != nil {
			t.cars, t.locks[car] = append(t.cars, car), lock
		}
	}
	if slices.ContainsFunc(t.cars, (*merge).succeedsPeer) { // see lockWork
		return t.crew.reapOrphans(ctx)
	}
	return nil
}

// unlock lets other sessions use the tasks. It comes before their leases end: the next train leaves
// behind what is still locked.
func (t *train) unlock(cars []*merge) {
	for _, car := range cars {
		if lock := t.locks[car]; lock != nil {
			lock.Close()
			delete(t.locks, car)
		}
	}
}

// reportLanded records the merges of an earlier train that took place although its merger crashed.
// The other tasks wait for the next train.
func (t *train) reportLanded(ctx context.Context) (landed bool, err error) {
	for _, car := range t.cars {
		merged, err := car.landed(ctx, car.workItem().Task)
		if err != nil && car == t.head {
			return false, err
		}
		if err == nil && merged.Commit != "" {
			t.merged = append(t.merged, car)
			t.report.Merges = append(t.report.Merges,
				rules.TrainMerge{Epoch: car.epoch, Commit: merged.Commit, Before: merged.Before})
		}
	}
	if len(t.merged) == 0 {
		return false, nil
	}
	return true, t.submitReport(ctx)
}

// merge merges the tasks. The train goes without one that cannot be merged.
func (t *train) merge(ctx context.Context) error {
	for _, car := range t.cars {
		err := t.add(ctx, car)
		conflict := (*workspace.ConflictError)(nil)
		refused := errors.Is(err, workspace.ErrUnchanged) || errors.As(err, &conflict)
		switch {
		case err == nil:
			t.merged = append(t.merged, car)
			continue
		case ctx.Err() != nil || car == t.head && !refused:
			return err
		case car == t.head: // reporting it ends the lease, which is needed until the train arrives
			t.own = err
			continue
		case refused:
			err = car.settle(ctx, rules.ReportMerge{Moves: t.report.Moves}, workspace.Merged{},
				err)
		}
		if err != nil && !errors.Is(err, workspace.ErrNextTrain) {
			t.crew.log.Warn("merging without a task", "work", car.work, "error",
				workspace.Explain(err))
		}
	}
	return nil
}

// add merges one task.
func (t *train) add(ctx context.Context, car *merge) error {
	w := car.workItem()
	if err := t.crew.exchange.Obtain(ctx, car.work, w.Task.Commit); err != nil {
		return err
	}
	request, err := car.request(ctx, w)
	if err != nil {
		return err
	}
	return t.chain.Add(ctx, request)
}

// check finds out how many of the merges can land.
func (t *train) check(ctx context.Context) error {
	until := time.Now().Add(t.crew.box.Config.Deliver.TrainTime)
	results := map[int]rules.ReportMerge{}
	good, bad, err := bisect(len(t.merged), func() bool { return time.Now().Before(until) },
		func(n int) (passed bool, err error) {
			var result rules.ReportMerge
			err = t.chain.Check(ctx, n, func(ctx context.Context, dir string) error {
				return t.head.check(ctx, dir, &result)
			})
			failed := (*failedChecksError)(nil)
			if errors.As(err, &failed) {
				result.Refusal, err = failed.Error(), nil
			}
			results[n] = result
			return result.Refusal == "", err
		})
	if err != nil {
		return err
	}
	if bad == good+1 {
		t.report.Failed = t.merged[bad-1].epoch
		t.report.Refusal, t.report.Body = results[bad].Refusal, results[bad].Body
	}
	t.report.Rows, t.merged = results[good].Rows, t.merged[:good]
	return nil
}

// bisect returns the largest number of merges, of n, that is known to pass, and the smallest that
// is known to fail, 0 if none is. It assumes that a train does not pass if a shorter one fails, so
// that the culprit is the last merge of the shortest one that fails. When the time is over, it
// checks no more than it needs to decide about the first merge.
func bisect(n int, inTime func() bool, check func(n int) (passed bool, err error)) (
	good, bad int, err error,
) {
	for next := n; next > good; {
		passed, err := check(next)
		switch {
		case err != nil:
			return 0, 0, err
		case passed:
			good = next
		default:
			bad = next
		}
		switch {
		case bad == 0 || bad == good+1 || good > 0 && !inTime():
			return good, bad, nil
		case !inTime():
			next = 1
		default:
			next = (good + bad) / 2
		}
	}
	return good, bad, nil
}

// land moves the base to the last of the merges, and records them.
func (t *train) land(ctx context.Context) error {
	for i, car := range t.merged {
		t.report.Merges = append(t.report.Merges, rules.TrainMerge{Epoch: car.epoch,
			Commit: t.chain.Commit(i + 1), Before: t.chain.Commit(i)})
	}
	n := len(t.merged)
	if n > 0 {
		if err := t.prepare(ctx, n); err != nil {
			return err
		}
	}
	if n > 0 && !t.report.Moves {
		if err := t.chain.Land(ctx, n); err != nil {
			return err
		}
	}
	return t.submitReport(ctx)
}

// prepare records what is about to land.
func (t *train) prepare(ctx context.Context, n int) error {
	tree, err := t.chain.Tree(ctx, n)
	if err != nil {
		return err
	}
	if err := t.crew.exchange.Publish(ctx, "", t.chain.Commit(n)); err != nil {
		return err
	}
	return t.record(rules.PrepareTrain{Session: t.head.id, Tree: tree, Merges: t.report.Merges})
}

// record carries out a command. It returns errBaseMoved or errTrainOver if the rules refuse it.
func (t *train) record(c rules.Command) error {
	_, err := t.head.submit(c)
	switch {
	case err == nil:
		return nil
	case t.crew.exchange.KnownBase() != t.base:
		return errBaseMoved
	case isRefusal(err), signalbox.CodeOf(err) == signalbox.CodeConflict:
		return fmt.Errorf("%w: %w", errTrainOver, err)
	}
	return err
}

// submitReport reports what became of the train, and cleans up after the tasks that are merged.
func (t *train) submitReport(ctx context.Context) error {
	named := map[uint64]bool{t.report.Failed: true}
	if t.own != nil {
		named[t.head.epoch] = true
	}
	for _, m := range t.report.Merges {
		named[m.Epoch] = true
	}
	for _, car := range t.all {
		if !named[car.epoch] && car.holdsLease() {
			t.report.Waiting = append(t.report.Waiting, car.epoch)
			t.unlock([]*merge{car})
		}
	}
	if err := t.record(t.report); err != nil {
		return err
	}
	if t.report.Moves {
		t.crew.follower.Observe(context.WithoutCancel(ctx), false)
	}
	for _, car := range t.merged {
		car.removeCompleted(ctx)
	}
	return nil
}
