package process

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// pending asks for the number of bytes in a pipe: FIONREAD.
const pending = 0x4004667f

// zombie is the state of a process that ended and was not reaped: SZOMB.
const zombie = 5

func look(pid int) (seen, bool) {
	if pid <= 0 {
		return seen{}, false
	}
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid {
		return seen{}, false
	}
	start := info.Proc.P_starttime
	return seen{fmt.Sprintf("%d.%06d", start.Sec, start.Usec), info.Proc.P_stat == zombie}, true
}

// ownsGroup tells whether a group whose leader is gone is the one that was noted. It is not if the system was started since;
// otherwise its number cannot have become that of another while one of it lives.
func ownsGroup(id ID) bool {
	var seconds int64
	if _, err := fmt.Sscanf(id.Started, "%d.", &seconds); err != nil {
		return false
	}
	boot, err := unix.SysctlTimeval("kern.boottime")
	return err == nil && seconds >= boot.Sec
}

// members finds the living processes of a leader's group. What else carries a session cannot be told here.
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
			all = append(all, member{pid, true})
		}
	}
	return all
}

// awaitEnd waits for the end of a child and leaves it to be reaped.
func awaitEnd(pid int) {
	// Should the system not tell, it has to be looked for: whatever comes after must not take a living program for one
	// that has ended.
	for tell(pid); ; time.Sleep(longPause) {
		if s, ok := look(pid); !ok || s.ended {
			return
		}
	}
}

// tell waits until the system tells that a process has ended, or cannot.
func tell(pid int) {
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
		if _, err := unix.Kevent(queue, []unix.Kevent_t{want}, got, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
