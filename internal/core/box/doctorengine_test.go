package box

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/core/journal"
)

// inspected is a journal in a database whose driver has something to say about it.
type inspected struct {
	journal.Journal
	findings []journal.Finding
	err      error
	ahead    time.Duration // of its clock
	now      func() time.Time
	clocks   []journal.MachineClock
	hang     bool
	expire   func() // ends the time in which it may answer
}

func (i *inspected) Inspect(ctx context.Context) ([]journal.Finding, error) {
	if i.hang {
		i.expire()
		<-ctx.Done()
		return i.findings, ctx.Err()
	}
	return i.findings, i.err
}

func (i *inspected) Time(context.Context) (time.Time, error) { return i.now().Add(i.ahead), nil }

func (i *inspected) Clocks(context.Context) ([]journal.MachineClock, error) { return i.clocks, nil }

// newMoved returns a box whose ledger is in a database.
func newMoved(t *testing.T) *mover {
	t.Helper()
	m := newMover(t)
	m.must(t, inOther, Moved)
	return m
}

// checkInspected returns what Doctor says about the box with the journal i.
func (m *mover) checkInspected(t *testing.T, i *inspected) map[string]Check {
	t.Helper()
	sys := realSystem()
	sys.databaseTimeout = time.Minute
	if i.hang {
		sys.afterFunc = func(_ time.Duration, f func()) func() bool {
			i.expire = f
			return func() bool { return true }
		}
	}
	i.now = sys.now
	opts := DoctorOptions{Options: *m.opts, Dir: m.dir, system: sys}
	opts.open = func(ctx context.Context, dir, address string, how access,
		o *Options) (j journal.Journal, err error) {
		i.Journal, err = m.openPlace(ctx, dir, address, how, o)
		return i, err
	}
	checks := map[string]Check{}
	for _, check := range Doctor(t.Context(), opts) {
		checks[check.Name] = check
	}
	return checks
}

// Doctor shows what the driver finds, the time of a round trip, and the difference of the clocks.
func TestDoctorDatabase(t *testing.T) {
	checks := newMoved(t).checkInspected(t, &inspected{findings: []journal.Finding{
		{Name: "server", Level: journal.OK, Detail: "version 15"},
		{Name: "fsync", Level: journal.Problem, Detail: "fsync is off", Fix: "turn it on"},
		{Name: "lag", Level: journal.Warning, Detail: "5 MB"}}})
	for _, want := range []Check{
		{Name: "server", Health: Healthy, Detail: "version 15"},
		{Name: "fsync", Health: Problem, Detail: "fsync is off", Fix: "turn it on"},
		{Name: "lag", Health: Warning, Detail: "5 MB"},
	} {
		if diff := cmp.Diff(want, checks[want.Name]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if checks["clock skew"].Health != Healthy || checks["latency"].Health == Problem ||
		checks["ledger"].Health != Healthy {
		t.Errorf("%+v, %+v, %+v", checks["clock skew"], checks["latency"], checks["ledger"])
	}
}

func TestDoctorClockSkew(t *testing.T) {
	m := newMoved(t)
	for _, tt := range []struct {
		ahead  time.Duration
		health Health
		detail string
	}{
		{900 * time.Millisecond, Healthy, ""}, {-900 * time.Millisecond, Healthy, ""},
		{4 * time.Second, Warning, "behind"}, {-4 * time.Second, Warning, "ahead of"},
		{10 * time.Second, Warning, "10s behind"},
		{-10 * time.Second, Problem, "ahead of that of the database: it cannot write"},
		{time.Hour, Problem, "behind that of the database: checks and agents may be ended only 15s before"},
	} {
		got := m.checkInspected(t, &inspected{ahead: tt.ahead})["clock skew"]
		got.Detail = strings.ReplaceAll(got.Detail, "9.999s", "10s") // rounded
		if got.Health != tt.health || tt.health == Problem &&
			!strings.Contains(got.Detail, tt.detail) || got.Fix == "" && tt.health != Healthy {
			t.Errorf("%s: %+v, want %s %q", tt.ahead, got, tt.health, tt.detail)
		}
	}
}

// Doctor shows the clocks of all machines that work with the ledger.
func TestDoctorClocks(t *testing.T) {
	m := newMoved(t)
	for beta, want := range map[time.Duration]Check{
		-900 * time.Millisecond: {Health: Healthy, Detail: "beta -0.9s"},
		2 * time.Second:         {Health: Warning, Detail: "beta +2.0s", Fix: FixClocks},
		-time.Hour:              {Health: Problem, Detail: "beta -3600.0s", Fix: FixClocks},
	} {
		want.Name = "clocks"
		want.Detail = "ahead of (+) or behind (-) that of the database: alpha +1.5s, " + want.Detail +
			", gamma +0.0s"
		if want.Health == Healthy {
			want.Health, want.Fix = Warning, FixClocks // because of alpha
		}
		got := m.checkInspected(t, &inspected{clocks: []journal.MachineClock{
			{Machine: "alpha", Ahead: 1500 * time.Millisecond}, {Machine: "beta", Ahead: beta},
			{Machine: "gamma"}}})["clocks"]
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if got, ok := m.checkInspected(t, &inspected{})["clocks"]; ok {
		t.Errorf("without machines: %+v", got)
	}
	alone := &inspected{clocks: []journal.MachineClock{{Machine: "alpha"}}}
	got := m.checkInspected(t, alone)["clocks"]
	if got.Health != Healthy || got.Fix != "" {
		t.Errorf("a clock that is right: %+v", got)
	}
}

// A database that does not answer is a problem, and the rest is still checked.
func TestDoctorDatabaseHangs(t *testing.T) {
	m := newMoved(t)
	checks := m.checkInspected(t,
		&inspected{hang: true,
			findings: []journal.Finding{{Name: "server", Level: journal.OK, Detail: "version 15"}}})
	if got := checks["database"]; got.Health != Problem ||
		!strings.Contains(got.Detail, "the database did not answer within 1m0s") {
		t.Errorf("%+v", got)
	}
	if checks["server"].Health != Healthy || checks["files"].Name == "" {
		t.Errorf("the rest was not checked: %+v", checks)
	}
	checks = m.checkInspected(t, &inspected{err: errors.New("connection reset")})
	if got := checks["database"]; got.Health != Problem ||
		!strings.Contains(got.Detail, "connection reset") {
		t.Errorf("%+v", got)
	}
}

func TestDoctorDatabaseUnreachable(t *testing.T) {
	m := newMoved(t)
	sys := realSystem()
	sys.databaseTimeout = 50 * time.Millisecond
	opts := DoctorOptions{Options: *m.opts, Dir: m.dir, system: sys}
	opts.open = func(ctx context.Context, _, _ string, _ access,
		_ *Options) (journal.Journal, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, check := range Doctor(t.Context(), opts) {
		if check.Name == "journal" {
			if check.Health != Problem ||
				check.Detail != "the database did not answer within 50ms" ||
				!strings.Contains(check.Fix, "network") {
				t.Errorf("%+v", check)
			}
			return
		}
	}
	t.Error("there is no check of the journal")
}
