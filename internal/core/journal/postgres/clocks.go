package postgres

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/internal/core/journal"
	"signalbox/internal/text"
)

// A process that follows the log shows how far the clock of its machine is ahead of that of the
// database: in the name of the connection on which it receives notifications, which every role of
// the server can see. A table would need rights and a new version of the tables, and what a machine
// has written there would stay when the machine is gone.

const (
	// clockPause is the time between two comparisons of the clocks.
	clockPause = 30 * time.Second
	// slowClock is the duration of a comparison that says nothing about the clocks.
	slowClock = time.Second
)

// showClock names a connection after the box, and what the clock of this machine shows.
func (j *Journal) showClock(ctx context.Context, conn *pgx.Conn) error {
	var there time.Time
	here, measured := j.opts.clock(), time.Now()
	err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&there)
	took := time.Since(measured)
	if err != nil || took > slowClock {
		return err
	}
	machine, _ := os.Hostname() // "" if the machine has no name
	ahead := here.Add(took / 2).Sub(there).Round(time.Millisecond)
	_, err = conn.Exec(ctx, "SELECT set_config('application_name', $1, false)",
		fmt.Sprintf("%s %s %s", j.channel(), ahead, machine))
	return err
}

// Clocks returns the clocks of the machines whose processes follow the log now.
func (j *Journal) Clocks(ctx context.Context) (clocks []journal.MachineClock, err error) {
	err = j.Do(ctx, func(ctx context.Context) error {
		rows, err := j.pool.Query(ctx,
			"SELECT application_name FROM pg_stat_activity WHERE datname = current_database()")
		if err != nil {
			return err
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[*string])
		clocks = j.clocksIn(names)
		return err
	}, "read the clocks of the machines")
	return clocks, err
}

// clocksIn returns the clocks that the names of connections show. Of the processes of one machine,
// it takes the one that shows the largest difference: two machines may have the same name.
func (j *Journal) clocksIn(names []*string) []journal.MachineClock {
	found := map[string]time.Duration{}
	for _, name := range names {
		if name == nil {
			continue
		}
		shown, ours := strings.CutPrefix(*name, j.channel()+" ")
		ahead, machine, _ := strings.Cut(shown, " ")
		difference, err := time.ParseDuration(ahead)
		if !ours || err != nil {
			continue
		}
		machine = text.Printable(machine)
		if other, known := found[machine]; !known || difference.Abs() > other.Abs() {
			found[machine] = difference
		}
	}
	clocks := make([]journal.MachineClock, 0, len(found))
	for machine, ahead := range found {
		clocks = append(clocks, journal.MachineClock{Machine: machine, Ahead: ahead})
	}
	slices.SortFunc(clocks, func(a, b journal.MachineClock) int {
		return cmp.Compare(a.Machine, b.Machine)
	})
	return clocks
}
