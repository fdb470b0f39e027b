package crew

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/journal"
	"signalbox/internal/process"
	"signalbox/internal/testkit/must"
)

// deafProgram ignores that it is told to end, and is killed when its grace is over, as
// process.Process does it.
type deafProgram struct {
	fakeProgram
	killed chan struct{}
	mu     sync.Mutex
	killer *time.Timer
	at     time.Time
}

func (p *deafProgram) Wait() process.Exit { <-p.killed; return process.Exit{} }

func (p *deafProgram) Stop(grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Now().Add(grace)
	switch {
	case p.killer == nil:
		p.killer = time.AfterFunc(grace, func() { close(p.killed) })
	case !at.Before(p.at):
		return
	default:
		p.killer.Reset(grace)
	}
	p.at = at
}

// A program that is being ended for another reason, and ignores it, is gone before its lease can be
// granted elsewhere, also if it was given more time than that: because the crew is stopped, or
// because the program has exceeded a limit.
func TestLeaseIsLostDuringTheGrace(t *testing.T) {
	for _, ttl := range []time.Duration{signalbox.MinLeaseTTL, time.Minute,
		signalbox.DefaultLeaseTTL} {
		for _, why := range []string{"the crew is stopped", "the program takes too long"} {
			synctest.Test(t, func(t *testing.T) {
				sup := supervise(config.Role{}, 0)
				s := sup.run
				s.crew.box.Config.Lease.TTL, s.crew.box.Config.Grace = ttl, 100*time.Hour
				program := &deafProgram{killed: make(chan struct{})}
				ctx, cancel := context.WithCancelCause(t.Context())
				s.cancel = cancel
				began, timeout := time.Now(), 1000*time.Hour
				if why == "the crew is stopped" {
					cancel(errInterrupted)
				} else {
					timeout = time.Millisecond
				}
				deaf := s.supervise(program, sup.listener, 0)
				renewing, stop := context.WithCancel(t.Context())
				go (&leaseKeeper{ttl: ttl, lost: s.loseLease,
					renew: func(context.Context) (time.Time,
						error) {
						return time.Time{}, journal.ErrUnavailable
					}}).
					keep(renewing, began.Add(ttl))
				deaf.wait(ctx, timeout)
				<-deaf.exited
				if gone, limit := time.Since(began), ttl-clockTolerance(ttl); gone > limit {
					t.Errorf("TTL %s, %s: gone after %s, want %s at most", ttl, why, gone, limit)
				}
				stop()
				sup.program.Stop(1)
			})
		}
	}
}

// The same with real programs: one that ignores SIGTERM, and one that ends but leaves behind a
// process that ignores it. The time that they are given is so long that they would not end during
// the test.
func TestDeafProgramEndsWithItsLease(t *testing.T) {
	const deaf = `trap "" TERM; echo ready; while :; do sleep 1; done`
	for name, script := range map[string]string{
		"a program": deaf,
		"what a program has left": fmt.Sprintf("sh -c '%s' & trap exit TERM; wait",
			strings.ReplaceAll(deaf, "'", "")),
	} {
		t.Run(name, func(t *testing.T) {
			sh, err := exec.LookPath("sh")
			if err != nil {
				t.Skip(err)
			}
			sup := supervise(config.Role{}, 0)
			s := sup.run
			s.crew.box.Config.Lease.TTL, s.crew.box.Config.Grace = signalbox.MinLeaseTTL,
				100*time.Hour
			ready := &readyWriter{ready: make(chan struct{})}
			running, err := process.Start(process.Spec{Argv: []string{sh, "-c", script},
				Dir: t.TempDir(), Env: process.Environ(), Stdout: ready,
				Grace: s.crew.box.Config.Grace}, nil)
			must.Succeed(t, err)
			defer running.Stop(0)
			ctx, cancel := context.WithCancelCause(t.Context())
			s.cancel = cancel
			<-ready.ready
			supervisor := s.supervise(running, sup.listener, 0)
			cancel(errInterrupted)
			supervisor.wait(ctx, time.Hour)
			s.loseLease()
			select {
			case <-supervisor.exited:
			case <-time.After(time.Minute):
				t.Fatal("it still runs")
			}
			if exit := running.Wait(); !exit.Stopped {
				t.Errorf("exit %+v", exit)
			}
			sup.program.Stop(1)
		})
	}
}

// readyWriter closes ready when something is written.
type readyWriter struct {
	ready chan struct{}
	once  sync.Once
}

func (w *readyWriter) Write(b []byte) (int, error) {
	w.once.Do(func() { close(w.ready) })
	return len(b), nil
}
