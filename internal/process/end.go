//go:build linux || darwin

package process

import (
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	firstPause = time.Millisecond
	longPause  = 50 * time.Millisecond
	// killTime is how long the system may take to do a KILL.
	killTime = 5 * time.Second
)

// member is a process that belongs to a program and lives.
type member struct {
	pid     int
	grouped bool // it is in the program's group, and is signalled with it
}

// seen is what the system says about a process.
type seen struct {
	started string
	ended   bool // and not yet reaped
}

// Alive reports whether the process is there and has not ended.
func (id ID) Alive() bool {
	s, ok := look(id.PID)
	return ok && id.matches(s) && !s.ended
}

func (id ID) matches(s seen) bool { return id.PID > 0 && id.Started != "" && s.started == id.Started }

// EndOrphan ends a process of an earlier run with its group: TERM, grace, KILL. It waits until they are gone. A process
// with another start time is another process, and is left alone; found says whether there was anything to end. Of a process
// that has ended the group may live on, and is ended.
func EndOrphan(id ID, grace time.Duration) (found bool, err error) {
	if id.PID <= 0 || id.Started == "" {
		return false, nil
	}
	if s, ok := look(id.PID); ok && !id.matches(s) || !ok && !ownsGroup(id) {
		return false, nil
	}
	find := func() []member {
		// As long as one of the group lives its number belongs to nobody else. A leader that is not the noted one shows
		// that the group is gone.
		if s, ok := look(id.PID); ok && !id.matches(s) {
			return nil
		}
		return members(id.PID, "")
	}
	first, left := endAll(find, func(sig unix.Signal) { signalAll(id.PID, find(), sig) }, grace)
	if left > 0 {
		return true, fmt.Errorf("%d processes of group %d do not end", left, id.PID)
	}
	return first > 0, nil
}

// EndSession ends all processes that carry a session in their environment: TERM, grace, KILL. It waits until they are
// gone and says how many there were. They can be found on Linux only; elsewhere there are none.
func EndSession(session string, grace time.Duration) (ended int, err error) {
	// A process that is ending does not tell any more what it carries, some time before it has ended.
	found := make(map[int]ID)
	find := func() []member {
		all := members(0, session)
		for _, m := range all {
			if s, ok := look(m.pid); ok {
				found[m.pid] = ID{PID: m.pid, Started: s.started}
			}
		}
		for pid, id := range found {
			if !slices.ContainsFunc(all, func(m member) bool { return m.pid == pid }) && id.Alive() {
				all = append(all, member{pid: pid})
			}
		}
		return all
	}
	ended, left := endAll(find, func(sig unix.Signal) { signalAll(0, find(), sig) }, grace)
	if left > 0 {
		return ended, fmt.Errorf("%d processes of session %s do not end", left, session)
	}
	return ended, nil
}

// endAll ends what find finds, and reports how many there were at first and how many would not go.
func endAll(find func() []member, signal func(unix.Signal), grace time.Duration) (first, left int) {
	if first = len(find()); first == 0 {
		return 0, 0
	}
	signal(unix.SIGTERM)
	if left = awaitNone(find, grace, nil); left == 0 {
		return first, 0
	}
	// Again each time: a process that forks faster than it is looked for must not get away.
	return first, awaitNone(find, killTime, func() { signal(unix.SIGKILL) })
}

// awaitNone looks until nothing is found, or for as long as it may, and reports what is left. Nothing tells of the end of
// a process that is not a child, so it has to look.
func awaitNone(find func() []member, atMost time.Duration, before func()) (left int) {
	deadline := time.Now().Add(atMost)
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		if before != nil {
			before()
		}
		left = len(find())
		remaining := time.Until(deadline)
		if left == 0 || remaining <= 0 {
			return left
		}
		time.Sleep(min(pause, remaining))
	}
}

// signalAll signals a group as a whole, so that nothing in it can fork past the signal, and each member outside it.
func signalAll(group int, all []member, sig unix.Signal) {
	if group > 0 && len(all) > 0 {
		_ = unix.Kill(-group, sig) // gone is as good
	}
	for _, m := range all {
		if m.grouped {
			continue
		}
		if p, err := os.FindProcess(m.pid); err == nil {
			_ = p.Signal(sig)
			_ = p.Release()
		}
	}
}
