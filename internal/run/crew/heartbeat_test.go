package crew

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// heart is a heartbeat without a ledger.
type heart struct {
	*heartbeat
	running sync.WaitGroup
	began   time.Time
	lost    map[uint64]time.Duration // when each session was ended
	mu      sync.Mutex               // guards lost
}

func newHeart(renew func(context.Context, []uint64) (map[uint64]time.Time, error)) *heart {
	h := &heart{began: time.Now(), lost: map[uint64]time.Duration{}}
	h.heartbeat = &heartbeat{ttl: config.DefaultLeaseChecks, renew: renew, spawn: h.running.Go}
	return h
}

// hold keeps the lease of a session that expires after some time.
func (h *heart) hold(epoch uint64, after time.Duration) (stop func()) {
	return h.keep([]*session{{epoch: epoch, expires: time.Now().Add(after), unlease: func() {},
		crew: &Crew{box: &box.Box{Config: config.Default()}},
		cancel: func(error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.lost[epoch] = time.Since(h.began)
		}}})
}

func (h *heart) ended() map[uint64]time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.lost)
}

// extended renews all leases.
func extended(_ context.Context, epochs []uint64) (map[uint64]time.Time, error) {
	live := map[uint64]time.Time{}
	for _, epoch := range epochs {
		live[epoch] = time.Now().Add(config.DefaultLeaseChecks)
	}
	return live, nil
}

// One heartbeat renews all leases at once, and none is sent while there is no lease.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var beats []string
		h := newHeart(nil)
		h.renew = func(ctx context.Context, epochs []uint64) (map[uint64]time.Time, error) {
			slices.Sort(epochs)
			beats = append(beats, fmt.Sprint(time.Since(h.began), epochs))
			return extended(ctx, epochs)
		}
		ttl := config.DefaultLeaseChecks
		first := h.hold(1, ttl)
		time.Sleep(10 * time.Second)
		second, third := h.hold(2, ttl), h.hold(3, ttl)
		time.Sleep(10 * time.Second)
		first()
		time.Sleep(15 * time.Second)
		second()
		third()
		time.Sleep(time.Hour)
		fourth := h.hold(4, ttl)
		time.Sleep(15*time.Second + 1)
		fourth()
		h.running.Wait()
		want := []string{"15s [1 2 3]", "30s [2 3]", "1h0m50s [4]"}
		if !slices.Equal(beats, want) || len(h.ended()) > 0 {
			t.Errorf("beats %v, want %v; ended %v", beats, want, h.ended())
		}
	})
}

// A session ends before its lease does, if the lease cannot be renewed, and at once if it is over.
func TestHeartbeatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeart(func(context.Context, []uint64) (map[uint64]time.Time, error) {
			return nil, errors.New("no route to host")
		})
		ttl := config.DefaultLeaseChecks
		h.hold(1, ttl)
		h.hold(2, ttl-5*time.Second) // granted before, but known later
		time.Sleep(10 * time.Second)
		h.hold(3, ttl)
		time.Sleep(time.Minute)
		h.running.Wait()
		margin := config.LeaseMargin(ttl)
		want := map[uint64]time.Duration{1: ttl - margin, 2: ttl - margin - 5*time.Second,
			3: ttl - margin + 10*time.Second}
		for epoch, at := range want {
			if got := h.ended()[epoch]; got != at {
				t.Errorf("session %d was ended after %s, want %s", epoch, got, at)
			}
		}
		if tolerance := 5 * time.Second; margin-leaseGrace(ttl, time.Hour) < 2*tolerance {
			t.Errorf("a margin of %s is too short for clocks that differ by %s", margin, tolerance)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		h := newHeart(func(ctx context.Context, epochs []uint64) (map[uint64]time.Time, error) {
			live, _ := extended(ctx, epochs)
			delete(live, 2)
			return live, nil
		})
		stop := h.hold(1, config.DefaultLeaseChecks)
		h.hold(2, config.DefaultLeaseChecks)
		time.Sleep(time.Hour)
		if got := h.ended(); len(got) != 1 || got[2] != 15*time.Second {
			t.Errorf("ended: %v", got)
		}
		stop()
		h.running.Wait()
	})
}

// waitingChecks is a check of tasks that says that it runs, and waits for a file.
func waitingChecks(dir string) string {
	return fmt.Sprintf("checks: [{name: wait, command: 'case $SIGNALBOX_WORK in T*) touch %s/started-$SIGNALBOX_WORK; until test -e %s/go; do sleep 0.1; done;; esac'}]\n", dir, dir)
}

// Of several machines, the one that runs checks renews the leases of all of them with one event.
func TestHeartbeatOfChecks(t *testing.T) {
	dir := t.TempDir()
	s := set(t, scene{plan: task("T1") + task("T2"), git: true,
		settings: "lease: {checks: 30s}\n" + waitingChecks(dir),
		options:  Options{seams: seams{machines: true}}})
	r := s.begin()
	for _, id := range []string{"T1", "T2"} {
		s.awaitFile(filepath.Join(dir, "started-"+id))
	}
	await[rules.LeasesRenewed](s, "", len(all[rules.LeasesRenewed](s, ""))+1)
	s.shell(dir, "touch go")
	r.complete("T1", "T2")
	var granted []recorded[rules.LeaseGranted]
	for _, id := range []string{"T1", "T2"} {
		for _, g := range all[rules.LeaseGranted](s, id) {
			if g.Body.Role == signalbox.RoleCI {
				granted = append(granted, g)
			}
		}
	}
	if !slices.ContainsFunc(all[rules.LeasesRenewed](s, ""),
		func(r recorded[rules.LeasesRenewed]) bool {
			return !slices.ContainsFunc(granted, func(g recorded[rules.LeaseGranted]) bool {
				return !slices.Contains(r.Body.Epochs, g.Seq) ||
					!r.Body.Expires.After(g.Body.Expires)
			})
		}) {
		t.Errorf("no event renews all of %+v", granted)
	}
	none[rules.LeaseRenewed](s, "")
	none[rules.LeaseExpired](s, "")
}

// The checks of a machine that is cut off are ended before their leases expire, and another machine
// runs them, although the leases of agents are long.
func TestChecksOfAMachineThatIsCutOff(t *testing.T) {
	dir := t.TempDir()
	s := set(t, scene{plan: task("T1") + task("T2"), git: true,
		settings: "lease: {checks: 30s}\n" + waitingChecks(dir)})
	b, line := s.plug()
	options := Options{seams: seams{machines: true}, Stay: true, Actor: "first",
		Roles: []signalbox.Role{signalbox.RoleDeveloper, signalbox.RoleCI}}
	r := s.beginIn(b, options)
	for _, id := range []string{"T1", "T2"} { // both slots
		s.awaitFile(filepath.Join(dir, "started-"+id))
	}
	line.pull(false)
	s.await("the checks have ended", func() bool { return len(r.crew.runningSessions()) == 0 })
	s.shell(dir, "touch go")
	if o := s.beginIn(s.box, Options{seams: options.seams, Actor: "second"}).end(); o.Standing !=
		rules.StandingComplete {
		t.Fatalf("the run ended %s: %v", o.Standing, o.Reasons)
	}
	s.wantCompleted("T1", "T2")
	for _, id := range []string{"T1", "T2"} {
		for _, granted := range all[rules.LeaseGranted](s, id) {
			if short := granted.Body.Expires.Sub(s.at(granted.Seq)) == 30*time.Second; short !=
				(granted.Body.Role == signalbox.RoleCI || granted.Body.Role == signalbox.RoleMerger) {
				t.Errorf("%s: the lease of the %s expires at %s", id, granted.Body.Role,
					granted.Body.Expires)
			}
		}
		only[rules.LeaseExpired](s, id)
	}
	line.plugIn()
	r.halt()
}

// at returns the time of an event.
func (s *stage) at(seq uint64) time.Time {
	s.t.Helper()
	for e, err := range s.box.Events(context.Background(), 0) {
		must.Succeed(s.t, err)
		if e.Seq == seq {
			return e.Time
		}
	}
	s.t.Fatalf("there is no event %d", seq)
	return time.Time{}
}
