package crew

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/checks"
	"signalbox/internal/run/forge"
	"signalbox/internal/run/workspace"
)

// A session carries out one lease. Its steps, in order:
//
//	run            keeps the lease alive and releases it at the end
//	attempt        takes the work lock of this machine
//	carryOut       does what the lease is for: an agentRun, a checksRun or a merge
//
// The session itself only holds the lease and talks to the ledger under it.

var (
	errLeaseLost   = errors.New("the lease is lost")
	errInterrupted = errors.New("the crew is stopping")
)

type session struct {
	crew    *Crew
	work    string
	id      string
	role    signalbox.Role
	epoch   uint64
	expires time.Time
	// train are sessions with the same id that hold the leases of tasks which this one merges
	// together with its own; see train.go
	train  []*session
	cancel context.CancelCauseFunc
	over   <-chan struct{} // closed when the session must end
	// done when the lease is lost, also if the session was being ended already
	leased  context.Context
	unlease context.CancelFunc

	assignment assignment
}

// assignment is what a lease is for.
type assignment interface {
	// carryOut does it, while the work is locked on this machine, and reports the result to the
	// ledger. After an error that can pass it is called again.
	carryOut(ctx context.Context) error
}

// newAssignment returns what the lease of a session is for. The secret of the lease is for its
// agent.
func newAssignment(s *session, granted rules.Answer, secret string) assignment {
	switch s.role {
	case signalbox.RoleCI:
		return &checksRun{s, taskBranch{s}}
	case signalbox.RoleMerger:
		return newMerge(s)
	}
	return &agentRun{session: s, names: granted.Names, agent: granted.Agent, secret: secret,
		wake: make(chan struct{}, 1), spending: make(chan struct{}, 1),
		messages: make(chan struct{}, 1)}
}

// run carries out the lease, and makes sure that it is not left behind.
func (s *session) run(ctx context.Context) {
	stopKeeping := s.keepLease(context.WithoutCancel(ctx))
	// What fails because of a full disk or another git's lock is tried again.
	err := s.retry(ctx, s.isPermanent, func() error { return s.attempt(ctx) })
	stopKeeping()
	s.releaseTrain(ctx)
	left := leftBy(err)
	if left != nil {
		s.crew.log.Warn("processes did not end; the task waits until they have", "work", s.work,
			"role", s.role, "error", left)
	}
	switch {
	case errors.Is(context.Cause(ctx), errLeaseLost):
		if s.holdsLease() { // it could not be renewed in time; its agent was ended
			s.try(rules.Release{Work: s.work, Session: s.id, Epoch: s.epoch,
				Reason: "its lease could not be renewed"})
		}
	case err == nil, errors.Is(err, errLeaseLost), errors.Is(err, checks.ErrSetupFailed):
	case left != nil:
		var unreported *rules.Turn
		if started, ok := errors.AsType[*startedError](err); ok {
			unreported = started.unreported
		}
		s.fail(ctx, rules.FailProcesses, left.Error(), unreported)
	case ctx.Err() != nil:
		s.release(ctx, "the crew was stopped")
	case errors.Is(err, rules.ErrNothingToClaim):
		s.release(ctx, "")
	default:
		s.fail(ctx, rules.FailWorkspace, workspace.Explain(err), nil)
	}
}

func (s *session) isPermanent(err error) bool {
	code := signalbox.CodeOf(err)
	_, started := errors.AsType[*startedError](err)
	return started || leftBy(err) != nil || errors.Is(err, errLeaseLost) ||
		errors.Is(err, checks.ErrSetupFailed) || errors.Is(err, rules.ErrNothingToClaim) ||
		errors.Is(err, forge.ErrLogin) || errors.Is(err, forge.ErrRefused) ||
		code == signalbox.CodeUsage || code == signalbox.CodeNotFound
}

// attempt does the work of the lease. It holds a lock, so that no other session of this machine
// does the same work, until everything has ended that it started.
func (s *session) attempt(ctx context.Context) (err error) {
	lock, err := s.lockWork(ctx)
	if err != nil {
		return err
	}
	defer func() { afterLeft(err, func() { lock.Release() }) }()
	return s.assignment.carryOut(ctx)
}

// retry calls f, with increasing pauses, until it succeeds, returns a permanent error, or the
// session ends.
func (s *session) retry(ctx context.Context, permanent func(error) bool, f func() error) error {
	delay := time.Duration(0)
	for i := 0; ; i++ {
		err, delays := f(), s.crew.opts.delays.retry
		switch {
		case err == nil || ctx.Err() != nil || permanent(err):
			return err
		case i < len(delays):
			delay = delays[i]
		case isOutage(err): // it costs the task no attempt, and the human is not asked
			delay = min(2*delay, maxOutagePause)
		default:
			return err
		}
		s.crew.log.Warn("retrying", "work", s.work, "role", s.role, "in", delay, "error",
			workspace.Explain(err))
		select {
		case <-ctx.Done():
			return err
		case <-time.After(delay):
		}
	}
}

// maxOutagePause is the longest pause before a remote repository, or its forge, that cannot be
// reached is tried again.
const maxOutagePause = 5 * time.Minute

// isOutage reports whether the network or a server is the cause of an error, so that it ends by
// itself.
func isOutage(err error) bool {
	return errors.Is(err, forge.ErrTemporary) || errors.Is(err, journal.ErrUnavailable) ||
		workspace.IsOutage(err)
}

// workItem returns the session's work as it is now.
func (s *session) workItem() (w *rules.Work) {
	s.crew.box.Engine.View(func(state *rules.State) { w, _ = state.Work(s.work) })
	return w
}

// loseLease ends the session because it no longer has its lease, or will soon not have it.
func (s *session) loseLease() {
	s.cancel(errLeaseLost)
	s.unlease()
}

// endWithLease makes stop end a program when the lease is lost, until the result is called.
// Whatever time the program was given to end before, for another reason, it must be gone before the
// lease can be granted elsewhere.
func (s *session) endWithLease(stop func(grace time.Duration)) (done func() bool) {
	return context.AfterFunc(s.leased, func() {
		stop(leaseGrace(s.ttl(), s.crew.box.Config.Grace))
	})
}

// submitTimeout bounds what must be recorded even though the session has ended.
const submitTimeout = time.Minute

// submit carries out a command even if the session is being ended. While the ledger cannot be
// reached it waits, unless the session is being ended.
func (s *session) submit(c rules.Command) (rules.Answer, error) {
	ctx, cancel := s.recording()
	defer cancel()
	return s.crew.box.Engine.DoPatiently(ctx, s.over, c)
}

// try is submit without waiting for a ledger that cannot be reached, for commands that are not
// worth the wait or must not be delayed.
func (s *session) try(c rules.Command) (rules.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), submitTimeout)
	defer cancel()
	return s.crew.box.Engine.Do(ctx, c)
}

// put stores a blob, as submit carries out a command.
func (s *session) put(data []byte) (signalbox.Hash, error) { return s.store(bytes.NewReader(data)) }

// store is put for data that is not in memory.
func (s *session) store(data io.ReadSeeker) (digest signalbox.Hash, err error) {
	ctx, cancel := s.recording()
	defer cancel()
	waiting, stop := context.WithCancel(ctx) // until the session ends
	defer stop()
	go func() {
		select {
		case <-s.over:
			stop()
		case <-waiting.Done():
		}
	}()
	err = s.crew.box.Engine.WhenAvailable(waiting, func() (err error) {
		if _, err := data.Seek(0, io.SeekStart); err != nil {
			return err
		}
		digest, err = s.crew.box.Engine.PutBlob(ctx, data)
		return err
	})
	return digest, err
}

// recording returns a context that is done some time after the session has ended.
func (s *session) recording() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-s.over:
		}
		select {
		case <-ctx.Done():
		case <-time.After(submitTimeout):
			cancel()
		}
	}()
	return ctx, cancel
}

// holdsLease reports whether the ledger, as far as it is known here, says that the session's lease
// is live.
func (s *session) holdsLease() bool {
	lease := s.workItem().Lease
	return lease != nil && lease.Epoch == s.epoch
}

func (s *session) release(ctx context.Context, reason string) {
	s.end(ctx, "cannot release the work", rules.Release{Work: s.work, Session: s.id, Epoch: s.epoch,
		Reason: reason})
}

// end carries out the last command of the session, which ends its lease. If that fails, for example
// because the disk is full, it tries again until ctx is done. Then the next crew on this machine
// releases the work.
func (s *session) end(ctx context.Context, failure string, c rules.Command) {
	retryUntil(ctx, s.crew.opts.delays.retry, func() bool {
		_, err := s.submit(c)
		if err == nil || isRefusal(err) {
			return true
		}
		then := "trying again"
		if ctx.Err() != nil {
			then = "the next run on this machine will try"
		}
		s.crew.log.Warn(failure+"; "+then, "work", s.work, "error", err)
		return false
	})
}

// retryUntil calls f until it returns true, with increasing pauses, or until ctx is done, but at
// least once.
func retryUntil(ctx context.Context, delays []time.Duration, f func() bool) {
	for i := 0; !f() && ctx.Err() == nil && len(delays) > 0; i++ {
		select {
		case <-ctx.Done():
		case <-time.After(delays[min(i, len(delays)-1)]):
		}
	}
}

func (s *session) fail(ctx context.Context, cause rules.FailCause, detail string,
	turn *rules.Turn) {
	s.end(ctx, "cannot record a failure", rules.ReportFailure{Session: s.id, Epoch: s.epoch,
		Cause: cause, Detail: detail, Turn: turn})
}

// isRefusal reports whether err is a decision of the rules, and not a failure such as a clock that
// jumped.
func isRefusal(err error) bool {
	refused := (*rules.RefusedError)(nil)
	return errors.As(err, &refused)
}

// asLeaseLost turns a refusal of a command under this session's lease into errLeaseLost. Other
// errors are returned unchanged.
func asLeaseLost(err error) error {
	if isRefusal(err) {
		return fmt.Errorf("%w: %w", errLeaseLost, err)
	}
	return err
}

// live shows what the session does.
func (s *session) live(line string) {
	if s.crew.opts.Live != nil {
		s.crew.opts.Live(agent.Activity{Work: s.work, Session: s.id, Role: s.role, Text: line})
	}
}

// job returns what runs the setup commands and checks of the session.
func (s *session) job() *checks.Job {
	task := s.workItem().Task
	j := &checks.Job{Runner: s.crew.checks, Work: s.work, Role: string(s.role), Put: s.put,
		Show:     s.live,
		Baseline: task != nil && task.Kind == rules.KindBaseline, EndWithLease: s.endWithLease}
	j.Report = func(report rules.ReportSetup) error {
		report.Session, report.Epoch = s.id, s.epoch
		_, err := s.submit(report)
		return asLeaseLost(err)
	}
	return j
}
