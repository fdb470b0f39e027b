package process

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// bytesUnread is the ioctl that returns the number of bytes in a pipe or a socket: FIONREAD.
const bytesUnread = 0x4004667f

// zombie is the state of a process that has ended but was not reaped: SZOMB.
const zombie = 5

// lookUp returns what the system reports about a process, and whether it exists.
func lookUp(pid int) (processInfo, bool) {
	if pid <= 0 {
		return processInfo{}, false
	}
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid {
		return processInfo{}, false
	}
	start := info.Proc.P_starttime
	return processInfo{fmt.Sprintf("%d.%06d", start.Sec, start.Usec), info.Proc.P_stat == zombie},
		true
}

// ownsGroup reports whether a group whose leader is gone is the one that was recorded. It is not if
// the system was rebooted since. Otherwise the system does not reuse the id while the group has
// members.
func ownsGroup(id ID) bool {
	var seconds int64
	if _, err := fmt.Sscanf(id.Started, "%d.", &seconds); err != nil {
		return false
	}
	boot, err := unix.SysctlTimeval("kern.boottime")
	return err == nil && seconds >= boot.Sec
}

// members returns the running processes of a leader's group. Processes that carry a session cannot
// be found on this system.
func members(leader int, _ string) (all []member) {
	if leader <= 0 {
		return nil
	}
	infos, err := unix.SysctlKinfoProcSlice("kern.proc.pgrp", leader)
	if err != nil {
		return nil
	}
	for _, info := range infos {
		if pid := int(info.Proc.P_pid); info.Proc.P_stat != zombie && pid != os.Getpid() {
			all = append(all, member{pid: pid, grouped: true})
		}
	}
	return all
}

// endGroup does nothing: there are no control groups.
func endGroup(ID) []Left { return nil }

// leftOf describes processes that did not end.
func leftOf(all []member) (left []Left) {
	for _, m := range all {
		name := ""
		if info, err := unix.SysctlKinfoProc("kern.proc.pid", m.pid); err == nil {
			name = unix.ByteSliceToString(info.Proc.P_comm[:])
		}
		left = append(left, Left{m.pid, name})
	}
	return left
}

// waitForExit waits until a child has ended, without reaping it.
func waitForExit(pid int) {
	// If kqueue fails, poll: the caller must not take a running program for one that has ended.
	for waitKqueue(pid); ; time.Sleep(longPause) {
		if s, ok := lookUp(pid); !ok || s.ended {
			return
		}
	}
}

// waitKqueue waits until the system reports that a process has ended, or fails to.
func waitKqueue(pid int) {
	queue, err := unix.Kqueue()
	if err != nil {
		return
	}
	defer unix.Close(queue)
	unix.CloseOnExec(queue)
	var want unix.Kevent_t
	unix.SetKevent(&want, pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	want.Fflags = unix.NOTE_EXIT
	got := make([]unix.Kevent_t, 1)
	for {
		if _, err := unix.Kevent(queue, []unix.Kevent_t{want}, got, nil); !errors.Is(err,
			unix.EINTR) {
			return
		}
	}
}
