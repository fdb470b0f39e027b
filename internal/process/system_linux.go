package process

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// pending asks for the number of bytes in a pipe.
const pending = unix.TIOCINQ

// status is what /proc says about a process.
type status struct {
	seen
	group, session int
}

func look(pid int) (seen, bool) {
	s, ok := readStatus(pid)
	if !ok {
		return seen{}, false
	}
	// The start time is counted from when the system started: another start, another time.
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		boot = nil
	}
	s.started = strings.TrimSpace(string(boot)) + "/" + s.started
	return s.seen, true
}

// ownsGroup tells whether a group whose leader is gone is the one that was noted. In a container that was started again the
// same numbers are others' by now, so one of it has to carry a session.
func ownsGroup(id ID) bool {
	return slices.ContainsFunc(members(id.PID, ""), func(m member) bool {
		env, err := os.ReadFile("/proc/" + strconv.Itoa(m.pid) + "/environ")
		return err == nil && m.grouped && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+SessionVariable+"="))
	})
}

// readStatus reads fields 3, 5, 6 and 22 of /proc/PID/stat. Field 2 is a name in brackets that can hold anything.
func readStatus(pid int) (s status, ok bool) {
	if pid <= 0 {
		return status{}, false
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return status{}, false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return status{}, false
	}
	state := string(fields[0])
	s.ended = state == "Z" || state == "X" || state == "x"
	s.group, _ = strconv.Atoi(string(fields[2]))
	s.session, _ = strconv.Atoi(string(fields[3]))
	s.started = string(fields[19])
	return s, true
}

// members finds the living processes of a leader's group and session, and those that carry a session of signalbox.
// Either may be zero. This process is never one of them.
func members(leader int, session string) (all []member) {
	folder, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return nil
	}
	self := os.Getpid()
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == self {
			continue
		}
		s, ok := readStatus(pid)
		switch {
		case !ok || s.ended:
		case leader > 0 && s.group == leader:
			all = append(all, member{pid, true})
		case leader > 0 && (pid == leader || s.session == leader), carries(name, session):
			all = append(all, member{pid, false})
		}
	}
	return all
}

// carries reports whether a process was started with a session, or one within it, in its environment.
func carries(pid, session string) bool {
	if session == "" {
		return false
	}
	env, err := os.ReadFile("/proc/" + pid + "/environ")
	if err != nil {
		return false // of another user, or gone
	}
	env = append([]byte{0}, env...)
	variable := "\x00" + SessionVariable + "=" + session
	return bytes.Contains(env, []byte(variable+"\x00")) || bytes.Contains(env, []byte(variable+within))
}

// awaitEnd waits for the end of a child and leaves it to be reaped.
func awaitEnd(pid int) {
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}
