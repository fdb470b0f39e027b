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
	// killTime is how long processes may take to disappear after SIGKILL. A busy machine may stand
	// still for several seconds.
	killTime = 15 * time.Second
)

// member is a running process that belongs to a program.
type member struct {
	pid     int
	grouped bool // it is in the program's process group, which is signalled as a whole
	keeper  bool // it ends others if it is asked to
}

// processInfo is what the system reports about a process.
type processInfo struct {
	started string
	ended   bool // but not yet reaped
}

// Alive reports whether the process exists and has not ended.
func (id ID) Alive() bool {
	s, ok := lookUp(id.PID)
	return ok && id.matches(s) && !s.ended
}

func (id ID) matches(s processInfo) bool {
	return id.PID > 0 && id.Started != "" && s.started == id.Started
}

// EndOrphan ends a process of an earlier run with its group: SIGTERM, grace, SIGKILL. It waits
// until they are gone. If the process has ended, the rest of its group is ended. A process with the
// same pid but another start time is not touched. found reports whether there was anything to end.
func EndOrphan(id ID, grace time.Duration) (found bool, err error) {
	if id.PID <= 0 || id.Started == "" {
		return false, nil
	}
	defer func() {
		if left := endGroup(id); err == nil && len(left) > 0 { // its keeper was killed, too
			found, err = true, &LeftError{Processes: left}
		}
	}()
	if s, ok := lookUp(id.PID); ok && !id.matches(s) || !ok && !ownsGroup(id) {
		return false, nil
	}
	find := func() []member {
		// The system does not reuse the id of a group while it has members. If the pid belongs to
		// another process now, the group is gone.
		if s, ok := lookUp(id.PID); ok && !id.matches(s) {
			return nil
		}
		return members(id.PID, "")
	}
	first, left := endAll(find, func(sig unix.Signal) { signalAll(id.PID, find(), sig) }, grace,
		killTime)
	if len(left) > 0 {
		return true, &LeftError{Processes: leftOf(left)}
	}
	return first > 0, nil
}

// EndSession ends all processes that carry a session in their environment: SIGTERM, grace, SIGKILL.
// It waits until they are gone, and returns how many there were. It finds processes only on Linux.
func EndSession(session string, grace time.Duration) (ended int, err error) {
	// The environment of a process that is ending cannot be read some time before it has ended, so
	// remember what was found.
	found := make(map[int]ID)
	find := func() []member {
		all := members(0, session)
		for _, m := range all {
			if s, ok := lookUp(m.pid); ok {
				found[m.pid] = ID{PID: m.pid, Started: s.started}
			}
		}
		for pid, id := range found {
			if !slices.ContainsFunc(all, func(m member) bool { return m.pid == pid }) &&
				id.Alive() {
				all = append(all, member{pid: pid})
			}
		}
		return all
	}
	ended, left := endAll(find, func(sig unix.Signal) { signalAll(0, find(), sig) }, grace,
		killTime)
	if len(left) > 0 {
		return ended, fmt.Errorf("session %s: %w", session, &LeftError{Processes: leftOf(left)})
	}
	return ended, nil
}

// endAll ends the processes that find returns: SIGTERM, grace, SIGKILL. It returns how many there
// were at first, and those that are left after atMost.
func endAll(find func() []member, signal func(unix.Signal), grace,
	atMost time.Duration) (first int, left []member) {
	if first = len(find()); first == 0 {
		return 0, nil
	}
	signal(unix.SIGTERM)
	if left = waitUntilNone(find, grace, nil); len(left) == 0 {
		return first, nil
	}
	// Signal before each look, so that a process that forks quickly cannot escape.
	return first, waitUntilNone(find, atMost, func() { signal(unix.SIGKILL) })
}

// waitUntilNone polls until find returns nothing, at most for atMost, and returns what remains. It
// must poll, because the system does not report the end of a process that is not a child.
func waitUntilNone(find func() []member, atMost time.Duration, before func()) (left []member) {
	deadline := time.Now().Add(atMost)
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		if before != nil {
			before()
		}
		left = find()
		remaining := time.Until(deadline)
		if len(left) == 0 || remaining <= 0 {
			return left
		}
		time.Sleep(min(pause, remaining))
	}
}

// signalAll signals a group as a whole, so that no member can escape by forking, and each member
// outside it. A keeper is never killed, but asked to kill: what it keeps might not be found without
// it.
func signalAll(group int, all []member, sig unix.Signal) {
	kept := slices.ContainsFunc(all, func(m member) bool { return m.keeper })
	if group > 0 && len(all) > 0 && !kept {
		_ = unix.Kill(-group, sig) // it may be gone already
	}
	for _, m := range all {
		if m.grouped && !kept {
			continue
		}
		sig := sig
		if m.keeper && sig == unix.SIGKILL {
			sig = killRequest
		}
		if p, err := os.FindProcess(m.pid); err == nil {
			_ = p.Signal(sig)
			_ = p.Release()
		}
	}
}
