package journal

import (
	"context"
	"time"
)

// Level is how serious a finding is.
type Level string

const (
	OK      Level = "ok"
	Warning Level = "warning" // it works, but something should be fixed
	Problem Level = "problem" // something does not work, or events can be lost
)

// Finding is one thing that an Inspector found out about the database behind a journal. Its texts
// are for people, and contain no secrets.
type Finding struct {
	// Name is what was looked at, in a word or two: server, replicas, fsync, rights, lag.
	Name   string
	Level  Level
	Detail string
	// Fix is what to do, "" if nothing.
	Fix string
}

// Inspector is implemented by journals whose database has something to check besides what it
// stores: its version, its replicas and how far they lag, whether it syncs what it stores, the
// rights of the user. Inspect writes nothing. It returns what it found so far together with an
// error, and does not block longer than ctx allows.
type Inspector interface {
	Inspect(ctx context.Context) ([]Finding, error)
}

// Clock is implemented by journals whose database has a clock of its own. The caller of Time
// measures how long the call takes and how far the clock of this machine deviates, so Inspect does
// neither. Time takes one round trip.
type Clock interface {
	Time(ctx context.Context) (time.Time, error)
}

// Expecter is implemented by journals whose servers cannot always prove that they are current.
// Expect says that the log had the event seq: Head and Read then return ErrUnavailable, and do not
// say that the log is shorter, unless that is proven.
type Expecter interface {
	Expect(seq uint64)
}
