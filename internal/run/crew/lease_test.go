package crew

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
)

// A lease that cannot be renewed is given up before it expires: 30 seconds before, or a third of a
// shorter TTL.
func TestLeaseMargin(t *testing.T) {
	for _, test := range []struct{ ttl, lost time.Duration }{
		{10 * time.Minute, 10*time.Minute - 30*time.Second},
		{3 * time.Minute, 150 * time.Second},
		{time.Minute, 40 * time.Second},
		{6 * time.Second, 4 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var lost []time.Duration
			began := time.Now()
			k := leaseKeeper{
				ttl: test.ttl,
				renew: func(context.Context) (time.Time,
					error) {
					return time.Time{}, errors.New("the disk is full")
				},
				lost: func() { lost = append(lost, time.Since(began)); cancel() },
			}
			k.keep(ctx, began.Add(test.ttl))
			synctest.Wait()
			if !slices.Equal(lost, []time.Duration{test.lost}) {
				t.Errorf("TTL %s: lost after %v, want %s", test.ttl, lost, test.lost)
			}
		})
	}
}

// Machines that share a ledger need leases that are long enough for their clocks to differ.
func TestCheckLease(t *testing.T) {
	for _, tt := range []struct {
		ttl, grace time.Duration
		fine       bool
	}{
		{config.Default().Lease.TTL, config.Default().Grace, true},
		{20 * time.Second, time.Second, true},
		{18 * time.Second, time.Second, false},
		{15 * time.Second, 0, false},
		{16 * time.Second, 0, true},
	} {
		err := checkLease("lease.ttl", tt.ttl, time.Minute, tt.grace)
		if tt.fine != (err == nil) {
			t.Errorf("%s, %s: %v", tt.ttl, tt.grace, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "lease.ttl is "+tt.ttl.String()) ||
			!strings.Contains(err.Error(), "(grace)") || signalbox.HintOf(err) == "") {
			t.Error(err)
		}
	}
	s := set(t, scene{plan: task("T1"), settings: "lease: {ttl: 10s}\n"})
	s.box.Config.Journal = "postgres://db/x"
	if _, err := New(t.Context(), s.box, s.project,
		nil); signalbox.CodeOf(err) != signalbox.CodeUsage {
		t.Errorf("a crew starts with leases that are too short: %v", err)
	}
}

// A lease is renewed each time a third of it has passed, and each renewal moves the deadline.
func TestLeaseRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 9 * time.Minute
		ctx, cancel := context.WithCancel(t.Context())
		began, failing := time.Now(), false
		var renewed []time.Duration
		lost := time.Duration(0)
		k := leaseKeeper{
			ttl: ttl,
			renew: func(context.Context) (time.Time, error) {
				if failing {
					return time.Time{}, errors.New("locked")
				}
				renewed = append(renewed, time.Since(began))
				failing = len(renewed) == 5
				return time.Now().Add(ttl), nil
			},
			lost: func() { lost = time.Since(began); cancel() },
		}
		k.keep(ctx, began.Add(ttl))
		synctest.Wait()
		if want := []time.Duration{3 * time.Minute, 6 * time.Minute, 9 * time.Minute, 12 * time.Minute, 15 * time.Minute}; !slices.Equal(renewed, want) {
			t.Errorf("renewed after %v, want %v", renewed, want)
		}
		if want := 15*time.Minute + ttl - 30*time.Second; lost != want {
			t.Errorf("lost after %s, want %s", lost, want)
		}
	})
}

// After a failure the renewal is retried soon: after a twentieth of the TTL, at most 5 seconds.
func TestLeaseRenewalIsRetried(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{time.Hour: 5 * time.Second,
		time.Minute: 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var tries []time.Time
			k := leaseKeeper{ttl: ttl, lost: func() { t.Error("the lease is lost") },
				renew: func(context.Context) (time.Time, error) {
					if tries = append(tries, time.Now()); len(tries) == 2 {
						cancel()
					}
					return time.Time{}, errors.New("locked")
				}}
			k.keep(ctx, time.Now().Add(ttl))
			if got := tries[1].Sub(tries[0]); got != want {
				t.Errorf("TTL %s: retried after %s, want %s", ttl, got, want)
			}
		})
	}
}

// A refusal of the rules ends the session at once.
func TestRefusedRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := 0
		k := leaseKeeper{ttl: time.Minute, lost: func() { lost++ },
			renew: func(context.Context) (time.Time, error) {
				return time.Time{}, &rules.RefusedError{Reason: signalbox.ReasonStaleLease}
			}}
		k.keep(t.Context(), time.Now().Add(time.Minute))
		if lost != 1 {
			t.Errorf("lost %d times, want once", lost)
		}
	})
}

// A session is cancelled with errLeaseLost when its lease is about to expire.
func TestSessionEndsWithItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config.Default()
		c.Lease.TTL = time.Hour
		ctx, cancel := context.WithCancelCause(t.Context())
		s := &session{crew: &Crew{box: &box.Box{Config: c}},
			expires: time.Now().Add(10 * time.Minute), cancel: cancel, unlease: func() {}}
		began := time.Now()
		renewing, stop := context.WithCancel(t.Context())
		go s.renewLease(renewing)
		<-ctx.Done()
		stop()
		if took := time.Since(began); took != 10*time.Minute-30*time.Second ||
			!errors.Is(context.Cause(ctx), errLeaseLost) {
			t.Errorf("cancelled after %s: %v", took, context.Cause(ctx))
		}
	})
}
