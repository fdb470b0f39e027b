package crew

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/workspace"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/pgserver"
)

// cable is the connection of one machine to a journal, which a test can pull out.
type cable struct {
	journal.Journal

	mu     sync.Mutex
	out    chan struct{} // closed while the cable is out
	reads  bool          // reading works nevertheless, as on a database that has lost its replicas
	failed int           // calls since it was pulled out
	more   chan struct{} // closed and replaced by each of them
}

// plug opens the box as another machine would, over a cable.
func (s *stage) plug() (*box.Box, *cable) {
	s.t.Helper()
	b := s.open()
	b.Engine.Close()
	c := &cable{Journal: b.Journal, out: make(chan struct{}), more: make(chan struct{})}
	b.Ledger.Journal = c
	var err error
	if b.Engine, err = engine.Open(s.t.Context(), c,
		&engine.Options{Log: slog.New(slog.NewTextHandler(s.log, nil))}); err != nil {
		s.t.Fatal(err)
	}
	return b, c
}

func (c *cable) pull(reads bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed, c.reads = 0, reads
	close(c.out)
}

func (c *cable) plugIn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = make(chan struct{})
}

// awaitFailures waits until some calls have failed since the cable was pulled out.
func (c *cable) awaitFailures(t *testing.T, n int) {
	t.Helper()
	for timeout := time.After(patience); ; {
		c.mu.Lock()
		failed, more := c.failed, c.more
		c.mu.Unlock()
		if failed >= n {
			return
		}
		select {
		case <-more:
		case <-timeout:
			t.Fatalf("%d calls failed, want %d", failed, n)
		}
	}
}

// check returns an error while the cable is out.
func (c *cable) check(read bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.out:
		if read && c.reads {
			return nil
		}
		c.failed++
		close(c.more)
		c.more = make(chan struct{})
		return fmt.Errorf("%w: %w: no route to host", journal.ErrNotStored, journal.ErrUnavailable)
	default:
		return nil
	}
}

func (c *cable) Append(ctx context.Context, expected uint64, events []signalbox.Event) error {
	if err := c.check(false); err != nil {
		return err
	}
	return c.Journal.Append(ctx, expected, events)
}

func (c *cable) Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	if err := c.check(true); err != nil {
		return nil, err
	}
	return c.Journal.Read(ctx, after, limit)
}

func (c *cable) Head(ctx context.Context) (uint64, error) {
	if err := c.check(true); err != nil {
		return 0, err
	}
	return c.Journal.Head(ctx)
}

func (c *cable) Watch(ctx context.Context, after uint64) iter.Seq2[signalbox.Event, error] {
	return func(yield func(signalbox.Event, error) bool) {
		c.mu.Lock()
		out := c.out
		c.mu.Unlock()
		watching, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			select {
			case <-out:
				if c.check(true) != nil {
					stop()
				}
			case <-watching.Done():
			}
		}()
		for event, err := range c.Journal.Watch(watching, after) {
			if failed := c.check(true); failed != nil && ctx.Err() == nil {
				err = failed
			}
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

func (c *cable) PutBlob(ctx context.Context, r io.Reader) (signalbox.Hash, error) {
	if err := c.check(true); err != nil {
		return signalbox.Hash{}, err
	}
	return c.Journal.PutBlob(ctx, r)
}

func (c *cable) GetBlob(ctx context.Context, digest signalbox.Hash) (io.ReadCloser, error) {
	if err := c.check(true); err != nil {
		return nil, err
	}
	return c.Journal.GetBlob(ctx, digest)
}

// await waits for a condition that is not in the ledger.
func (s *stage) await(what string, condition func() bool) {
	s.t.Helper()
	for timeout := time.After(patience); !condition(); {
		select {
		case <-timeout:
			s.t.Fatalf("waiting until %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// awaitFile waits for a file that an agent writes.
func (s *stage) awaitFile(name string) {
	s.t.Helper()
	s.await(name+" is written", func() bool { _, err := os.Stat(name); return err == nil })
}

// wantStartedOnce checks that no turn of a task was repeated, and that nothing failed.
func (s *stage) wantStartedOnce(works ...string) {
	s.t.Helper()
	for _, w := range works {
		for role, starts := range s.work(w).Task.Starts {
			if starts != 1 {
				s.t.Errorf("%s: %s was started %d times", w, role, starts)
			}
		}
	}
	if failed := all[rules.AgentFailed](s, ""); len(failed) > 0 {
		s.t.Errorf("agents failed: %+v", failed)
	}
}

// An outage that is shorter than the leases costs nothing: what agents say meanwhile is recorded
// afterwards, and each turn ran once.
func TestPlanSurvivesAnOutage(t *testing.T) {
	t.Run("nothing works", func(t *testing.T) { testOutage(t, false) })
	t.Run("reading works", func(t *testing.T) { testOutage(t, true) })
}

func testOutage(t *testing.T, reads bool) {
	s := set(t, scene{plan: task("T1") + task("T2") + task("T3", "**Blocked By**: T1"), git: true, script: `
on developer *:
    write {task}.done done
    wait for ../../../../{task}.go
    signal READY_FOR_REVIEW: {task}
        Summary: done
`})
	b, line := s.plug()
	r := s.beginIn(b, Options{})
	// then nothing is being recorded, which could end the outage in the log again
	for _, id := range []string{"T1", "T2"} {
		s.awaitFile(filepath.Join(b.Dir, workspace.TreesFolder, id, id+".done"))
	}
	line.pull(reads)
	// the agents end while the ledger cannot be reached
	for _, id := range []string{"T1", "T2", "T3"} {
		s.write(id+".go", "")
	}
	line.awaitFailures(t, 10)
	line.plugIn()
	r.complete()
	must.Succeed(t, s.box.Engine.Refresh(t.Context()))
	s.wantCompleted("T1", "T2", "T3")
	s.wantStartedOnce("T1", "T2", "T3")
	log := s.log.String()
	for text, times := range map[string]int{"the ledger cannot be reached; trying again": 1,
		"the ledger can be reached again": 1, "retrying": 0, "cannot": 1} {
		if got := strings.Count(log, text); got != times {
			t.Errorf("%q was logged %d times, want %d", text, got, times)
		}
	}
}

// A machine that is cut off ends its agent before the lease can be granted again. Another machine
// does the work. When the first is back, what it says about its lease is refused, and what its
// agent changed is kept.
func TestMachineThatIsCutOff(t *testing.T) {
	// The first lease must not be lost before the cable is pulled out, however slow this machine
	// is.
	s := set(t, scene{plan: task("T1"), git: true, settings: "lease: {ttl: 45s}\n", script: `
on developer T1 attempt 1:
    write cut.txt work of the first machine
    hang
`})
	b, line := s.plug()
	r := s.beginIn(b, Options{Stay: true, Actor: "first"})
	s.awaitFile(filepath.Join(b.Dir, workspace.TreesFolder, "T1", "cut.txt"))
	line.pull(false)
	lost := all[rules.LeaseGranted](s, "T1")[0]
	// without the ledger: its lease is all that it knows
	s.await("the agent has ended", func() bool { return len(r.crew.runningSessions()) == 0 })
	if o := s.beginIn(s.box, Options{Actor: "second"}).end(); o.Standing != rules.StandingComplete {
		t.Fatalf("the run ended %s: %v", o.Standing, o.Reasons)
	}
	s.wantCompleted("T1")
	line.plugIn()
	_, err := b.Engine.Do(t.Context(), rules.ReportSignal{Session: lost.Session, Epoch: lost.Seq,
		Signal: signalbox.NameReadyForReview, Named: "T1"})
	if refused := (*rules.RefusedError)(nil); !errors.As(err, &refused) ||
		refused.Reason != signalbox.ReasonStaleLease {
		t.Errorf("a late signal: error %v, want a stale lease", err)
	}
	r.halt()
	if kept := s.git("log", "--all", "--format=%H", "--", "cut.txt"); kept == "" {
		t.Error("the work of the first machine is gone")
	}
	s.wantCompleted("T1")
}

// blockedProgram blocks its supervisor when that closes its input.
type blockedProgram struct {
	*fakeProgram
	until <-chan struct{}
}

func (p *blockedProgram) CloseInput() { <-p.until }

// The agent of a session ends in time also while the crew waits for the ledger, and it gets no more
// time to end than there is before the lease can be granted elsewhere.
func TestAgentEndsBeforeItsLease(t *testing.T) {
	for _, ttl := range []time.Duration{signalbox.MinLeaseTTL, 10 * time.Second, time.Minute,
		signalbox.DefaultLeaseTTL, signalbox.MaxLeaseTTL} {
		for _, grace := range []time.Duration{time.Millisecond, 10 * time.Second, time.Hour} {
			synctest.Test(t, func(t *testing.T) {
				sup := supervise(config.Role{}, 0)
				c := sup.run.crew.box.Config
				c.Lease.TTL, c.Grace = ttl, grace
				ctx, cancel := context.WithCancelCause(t.Context())
				sup.run.cancel, sup.run.expires = cancel, time.Now().Add(ttl)
				began := time.Now()
				blocked := make(chan struct{}) // as by a command that waits for the ledger
				sup.supervisor.program = &blockedProgram{sup.program, blocked}
				sup.program.ends = blocked // once it has ended, no one shortens its grace
				trySend(sup.listener.mustPark)
				waited := make(chan struct{})
				go func() {
					defer close(waited)
					sup.wait(ctx, 100*time.Hour)
				}()
				renewing, stop := context.WithCancel(t.Context())
				go (&leaseKeeper{ttl: ttl, lost: sup.run.loseLease,
					renew: func(context.Context) (time.Time,
						error) {
						return time.Time{}, journal.ErrUnavailable
					}}).
					keep(renewing, sup.run.expires)
				<-sup.program.stopped
				synctest.Wait()
				gone := time.Since(began) + sup.program.grace
				if limit := ttl - clockTolerance(ttl); gone > limit {
					t.Errorf("TTL %s, grace %s: gone after %s, want %s at most", ttl, grace, gone,
						limit)
				}
				if want := min(grace, clockTolerance(ttl)); sup.program.grace != want {
					t.Errorf("TTL %s, grace %s: it has %s to end, want %s", ttl, grace,
						sup.program.grace, want)
				}
				stop()
				close(blocked)
				<-waited
			})
		}
	}
}

// Two machines with clocks that differ as much as they may: whatever the one whose clock is ahead
// does, it is not granted the lease before the agent of the other has ended, and there is never
// more than one live lease.
func TestClocksWithinTolerance(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{signalbox.MinLeaseTTL, signalbox.DefaultLeaseTTL} {
		for _, skew := range []time.Duration{-1, 0, 1} {
			for _, renewals := range []int{0, 2} {
				testSkewedClocks(t, ttl, skew*clockTolerance(ttl), 0, renewals)
				testSkewedClocks(t, ttl, skew*clockTolerance(ttl), clockTolerance(ttl), renewals)
			}
		}
	}
}

// testSkewedClocks tests two clocks that differ by skew. The last event of the second machine,
// whose time is that of the log, is as old as quiet when the first gets its lease, and when it
// renews it.
func testSkewedClocks(t *testing.T, ttl, skew, quiet time.Duration, renewals int) {
	dir := t.TempDir()
	opts := &box.Options{KeyFile: filepath.Join(dir, "key")}
	if _, err := box.Init(t.Context(), filepath.Join(dir, "box"), "me", opts); err != nil {
		t.Fatal(err)
	}
	open := func(now func() time.Time) *box.Box {
		opts := *opts
		opts.Now = now
		b, err := box.Open(t.Context(), filepath.Join(dir, "box"), &opts)
		must.Succeed(t, err)
		t.Cleanup(func() { b.Close() })
		return b
	}
	do := func(b *box.Box, c rules.Command) rules.Answer {
		t.Helper()
		answer, err := b.Engine.Do(t.Context(), c)
		must.Succeed(t, err)
		return answer
	}
	now := time.Now().Round(0) // the true time, which the clock of the first machine shows
	first, second := open(func() time.Time { return now }),
		open(func() time.Time { return now.Add(skew) })
	do(second, rules.OpenWork{Work: "w", Actor: "me"})
	now = now.Add(quiet)
	lease := *do(first, rules.Claim{Work: "w", Role: signalbox.RoleDeveloper, Session: "first",
		Actor: "a", Lease: "l1", TTL: ttl}).Lease
	claim := rules.Claim{Work: "w", Role: signalbox.RoleDeveloper, Session: "second", Actor: "b",
		Lease: "l2", TTL: ttl}
	asked := now
	for range renewals {
		now = now.Add(ttl / 3)
		// the time of the log is that of the second machine
		do(second, rules.OpenWork{Work: fmt.Sprintf("other-%d", now.UnixNano()), Actor: "me"})
		now = now.Add(quiet)
		asked = now
		lease = *do(first, rules.Renew{Work: "w", Session: "first", Epoch: lease.Epoch,
			TTL: ttl}).Lease
	}
	// Now the first machine is cut off. Its agent has ended at the latest when the margin is
	// reached and its grace is over.
	left := (&leaseKeeper{ttl: ttl}).leftAt(now, lease.Expires)
	gone := asked.Add(left + leaseGrace(ttl, time.Hour))
	for step := ttl / 30; ; now = now.Add(step) {
		if now.Sub(asked) > 3*ttl {
			t.Fatalf("TTL %s, skew %s: the lease was never granted again", ttl, skew)
		}
		if _, err := second.Engine.Do(t.Context(), claim); err == nil {
			break
		}
	}
	if now.Before(gone) {
		t.Errorf("TTL %s, skew %s, %d renewals: granted again %s after it was renewed, but the agent may run for %s", ttl, skew, renewals, now.Sub(asked), gone.Sub(asked))
	}
	_, err := first.Engine.Do(t.Context(), rules.Renew{Work: "w", Session: "first",
		Epoch: lease.Epoch, TTL: ttl})
	if refused := (*rules.RefusedError)(nil); !errors.As(err, &refused) ||
		refused.Reason != signalbox.ReasonStaleLease {
		t.Errorf("renewing the old lease: %v", err)
	}
}

// A crew on PostgreSQL carries out its plan while the database is paused, killed and restarted.
// Each task is completed once.
func TestPlanSurvivesOutagesOfPostgreSQL(t *testing.T) {
	pgserver.Need(t)
	server, err := pgserver.Start()
	must.Succeed(t, err)
	t.Cleanup(func() { server.Stop() })
	s := set(t, scene{plan: task("T1") + task("T2") + task("T3") + task("T4"), git: true,
		settings: fmt.Sprintf("journal: %q\nslots: 2\n", server.Address)})
	r := s.begin()
	started := func(n int) {
		t.Helper()
		s.until(fmt.Sprintf("%d agents have started", n), func() bool {
			count := 0
			for _, id := range []string{"T1", "T2", "T3", "T4"} {
				for _, starts := range s.work(id).Task.Starts {
					count += starts
				}
			}
			return count >= n
		})
	}
	restart := func(stop func() error) {
		t.Helper()
		must.Succeed(t, errors.Join(stop(), server.Restart()))
	}
	started(1)
	restart(server.Kill)
	started(4)
	must.Succeed(t, server.Pause())
	s.await("the outage is noticed",
		func() bool { return strings.Contains(s.log.String(), "the ledger cannot be reached") })
	must.Succeed(t, server.Resume())
	started(7)
	restart(server.ShutDown)
	r.complete("T1", "T2", "T3", "T4")
	s.wantStartedOnce("T1", "T2", "T3", "T4")
	if _, err := s.box.Verify(t.Context(), box.VerifyOptions{}); err != nil {
		t.Error(err)
	}
}

// TestCrewStartsInAnOutage makes the ledger unavailable after the box was opened: the new crew
// waits for it.
func TestCrewStartsInAnOutage(t *testing.T) {
	s := set(t, scene{plan: task("T1"), git: true})
	b, line := s.plug()
	line.pull(false)
	var created *Crew
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		created, err = New(t.Context(), b, s.project, &Options{seams: seams{machines: true}})
	}()
	line.awaitFailures(t, 1)
	line.plugIn()
	if <-done; err != nil {
		t.Fatal(err)
	}
	if err := created.Close(); err != nil {
		t.Error(err)
	}
}

// clockTolerance is how far the clocks of the machines of a box may differ so that a lease is never
// granted again while the programs of its last holder run.
func clockTolerance(ttl time.Duration) time.Duration { return config.LeaseMargin(ttl) / 3 }
