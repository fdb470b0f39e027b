package box

import (
	"context"
	"fmt"
	"strings"
	"time"

	"signalbox/internal/config"
	"signalbox/internal/core/journal"
)

// openToCheck opens the ledger for Doctor: read-only if it cannot be written to. On an error it has
// reported what is wrong. The caller closes the ledger, then calls stop. A database that does not
// answer in time is a problem, and does not make Doctor hang.
func (d *doctor) openToCheck(ctx context.Context) (opened *Ledger, inner context.Context,
	stop func(), err error) {
	address, err := config.ReadJournal(d.Dir)
	if err != nil {
		d.fault(Problem, "journal", err, "fix "+config.FileName)
		return nil, nil, nil, err
	}
	// A file needs no timeout, and reading a long ledger may take a while.
	inner, cancel := context.WithCancelCause(ctx)
	database := "the database"
	if address == config.JournalCluster {
		database = "the cluster"
	}
	limit := func(timeout time.Duration, what string) func() bool {
		if address == config.JournalSQLite {
			return func() bool { return true }
		}
		return d.sys.afterFunc(timeout,
			func() { cancel(fmt.Errorf("%s did not %s within %s", database, what, timeout)) })
	}
	within := limit(d.sys.databaseTimeout, "answer")
	l, err := openLedgerAt(inner, d.Dir, address, &d.Options, readWrite)
	if err == nil {
		d.ok("journal", "the journal can be opened")
	} else {
		readable, readErr := openLedgerAt(inner, d.Dir, address, &d.Options, readOnly)
		if readErr != nil {
			if inner.Err() != nil && ctx.Err() == nil {
				err = context.Cause(inner)
			}
			cancel(nil)
			d.fault(Problem, "journal", err, d.fixJournal(address))
			return nil, nil, nil, err
		}
		d.fault(Problem, "journal", fmt.Errorf("the journal is read-only: %w", err),
			"check the owner and the permissions of the box and its files")
		l = readable
	}
	err = d.checkDatabase(inner, l)
	within()
	if err != nil {
		l.Close()
		cancel(nil)
		return nil, nil, nil, err
	}
	within = limit(12*d.sys.databaseTimeout, "deliver the ledger")
	return l, inner, func() { within(); cancel(nil) }, nil
}

func (d *doctor) fixJournal(address string) string {
	if address == config.JournalSQLite {
		return "restore the box from a backup"
	}
	if address == config.JournalCluster {
		return "check that signalbox run, worker or serve runs on more than half of the machines of the cluster, and that they reach each other"
	}
	return "check the setting journal, the network, and that the database runs"
}

// checkDatabase reports what a driver finds out about its database, how fast that answers, and how
// far the clocks differ.
func (d *doctor) checkDatabase(ctx context.Context, l *Ledger) error {
	inspector, ok := l.database().(journal.Inspector)
	if !ok {
		return nil
	}
	findings, err := inspector.Inspect(ctx)
	for _, found := range findings {
		d.add(healthOf(found.Level), found.Name, found.Fix, "%s", found.Detail)
	}
	if clock, ok := l.database().(journal.Clock); ok && err == nil {
		err = d.checkDatabaseClock(ctx, clock)
	}
	if err == nil {
		err = d.checkClocks(ctx, l)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		d.fault(Problem, "database", err, "check that the database runs and answers")
	}
	return err
}

func healthOf(level journal.Level) Health {
	switch level {
	case journal.OK:
		return Healthy
	case journal.Warning:
		return Warning
	}
	return Problem
}

const (
	// slowDatabase is the round trip time that people start to notice: a command takes several.
	slowDatabase = 100 * time.Millisecond
	// noticeableSkew is how far the clocks may differ without a warning.
	noticeableSkew = time.Second
)

// ClockOffset is how far the clock of this machine is ahead of that of the database: negative if it
// is behind.
type ClockOffset struct {
	Ahead time.Duration
	// Took is the time of the round trip in which it was measured. Ahead is certain up to half of
	// it.
	Took time.Duration
}

// certain returns by how much the clocks differ at least.
func (o ClockOffset) certain() time.Duration { return o.Ahead.Abs() - o.Took/2 }

// Text describes a difference that people should correct, "" if there is none.
func (o ClockOffset) Text() string {
	if o.certain() <= noticeableSkew {
		return ""
	}
	return describeSkew("this machine", o.Ahead)
}

// FixClock is what to do about clocks that differ.
const FixClock = "correct the clock of this machine or of the database, and use a time service on both"

// FixClocks is what to do about the clocks of other machines.
const FixClocks = "correct that clock, and use a time service on all machines"

// ClockOffset compares the clock of this machine with that of the database; ok is false if the
// database has no clock of its own.
func (l *Ledger) ClockOffset(ctx context.Context) (offset ClockOffset, ok bool, err error) {
	clock, ok := l.database().(journal.Clock)
	if ok {
		offset, err = compareClocks(ctx, clock, l.now)
	}
	return offset, ok, err
}

// Clocks returns the clocks of all machines that work with the ledger now, as far as the database
// knows them.
func (l *Ledger) Clocks(ctx context.Context) ([]journal.MachineClock, error) {
	clocks, ok := l.database().(journal.Clocks)
	if !ok {
		return nil, nil
	}
	return clocks.Clocks(ctx)
}

// ClockText describes a clock that people should correct, "" if it is right.
func ClockText(c journal.MachineClock) string {
	if c.Ahead.Abs() <= noticeableSkew {
		return ""
	}
	return describeSkew(c.Machine, c.Ahead)
}

func describeSkew(whose string, ahead time.Duration) string {
	what := "ahead of"
	if ahead < 0 {
		what = "behind"
	}
	return fmt.Sprintf("the clock of %s is %s %s that of the database", whose,
		ahead.Abs().Round(time.Millisecond), what)
}

// checkClocks compares the clocks of all machines that work with the ledger now.
func (d *doctor) checkClocks(ctx context.Context, l *Ledger) error {
	clocks, err := l.Clocks(ctx)
	if err != nil || len(clocks) == 0 {
		return err
	}
	shown := make([]string, len(clocks))
	health, fix := Healthy, ""
	for i, c := range clocks {
		ahead := c.Ahead.Round(100 * time.Millisecond)
		shown[i] = fmt.Sprintf("%s %+.1fs", c.Machine, ahead.Seconds())
		if ClockText(c) == "" {
			continue
		}
		if fix = FixClocks; c.Ahead.Abs() > journal.MaxAhead {
			health = Problem
		} else if health == Healthy {
			health = Warning
		}
	}
	d.add(health, "clocks", fix, "ahead of (+) or behind (-) that of the database: %s",
		strings.Join(shown, ", "))
	return nil
}

func compareClocks(ctx context.Context, clock journal.Clock,
	now func() time.Time) (ClockOffset, error) {
	begin, measured := now(), time.Now()
	there, err := clock.Time(ctx)
	took := time.Since(measured)
	return ClockOffset{begin.Add(took / 2).Sub(there), took}, err
}

// checkDatabaseClock measures the time of a round trip, and compares the clocks: machines expire
// each other's leases by their own clock.
func (d *doctor) checkDatabaseClock(ctx context.Context, clock journal.Clock) error {
	if _, err := clock.Time(ctx); err != nil { // may connect first, which is not measured
		return err
	}
	offset, err := compareClocks(ctx, clock, d.sys.now)
	if err != nil {
		return err
	}
	if offset.Took > slowDatabase {
		d.add(Warning, "latency", "run signalbox near the database",
			"a round trip to the database takes %s", offset.Took.Round(time.Millisecond))
	} else {
		d.ok("latency", "a round trip to the database takes %s",
			offset.Took.Round(100*time.Microsecond))
	}
	switch margin := d.leaseMargin(ctx); {
	case offset.certain() > journal.MaxAhead && offset.Ahead > 0:
		d.add(Problem, "clock skew", FixClock, "%s: it cannot write to the ledger", offset.Text())
	case offset.certain() > margin:
		d.add(Problem, "clock skew", FixClock,
			"%s: checks and agents may be ended only %s before their lease expires, so two machines may work on one task", offset.Text(), margin)
	case offset.Text() != "":
		d.add(Warning, "clock skew", FixClock, "%s", offset.Text())
	default:
		d.ok("clock skew", "%s", offset.Ahead.Abs().Round(time.Millisecond))
	}
	return nil
}

// leaseMargin returns how long before the shortest lease expires its programs are ended if it cannot
// be renewed.
func (d *doctor) leaseMargin(ctx context.Context) time.Duration {
	lease := config.Default().Lease
	if settings, err := d.load(ctx, d.Dir); err == nil {
		lease = settings.Lease
	}
	return config.LeaseMargin(lease.Short())
}
