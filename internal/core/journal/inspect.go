package journal

import (
	"context"
	"time"

	"signalbox"
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

// MachineClock is the clock of a machine that uses a journal, or of one of its servers.
type MachineClock struct {
	Machine string
	// Ahead is how far it is ahead of the clock of the database, negative if it is behind.
	Ahead time.Duration
}

// Clocks is implemented by journals that know the clocks of the machines that use them now. Clocks
// returns them by name. A machine on which only short commands run is not among them.
type Clocks interface {
	Clocks(ctx context.Context) ([]MachineClock, error)
}

// Copy is what a server of a replicated journal has found out about its own copy of the log.
type Copy struct {
	// Node is the name of the server.
	Node string
	// Events is how many events it has verified, from the first one on, and Hash the hash of the
	// last of them.
	Events uint64
	Hash   signalbox.Hash
	// Verified is when it last read all of them; zero if the server does not answer.
	Verified time.Time
	// Problem says why the copy is not good, "" if it is.
	Problem string
}

// Replicated is implemented by journals whose servers verify their own copies of the log. Copies
// asks all of them, and takes some seconds if one does not answer.
type Replicated interface {
	Copies(ctx context.Context) ([]Copy, error)
}

// Expecter is implemented by journals whose servers cannot always prove that they are current.
// Expect says that the log had the event seq: Head and Read then return ErrUnavailable, and do not
// say that the log is shorter, unless that is proven.
type Expecter interface {
	Expect(seq uint64)
}
