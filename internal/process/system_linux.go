package process

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// bytesUnread is the ioctl that returns the number of bytes in a pipe or a socket.
const bytesUnread = unix.TIOCINQ

// A program takes some microseconds to set up its environment; on a busy machine it may have to
// wait for a core first.
const (
	execTries = 100
	execPause = time.Millisecond
)

// status is what /proc reports about a process.
type status struct {
	processInfo
	parent, group, session int
}

// lookUp returns what the system reports about a process, and whether it exists.
func lookUp(pid int) (processInfo, bool) {
	s, ok := readStatus(pid)
	if !ok {
		return processInfo{}, false
	}
	// The start time counts from boot. Only together with the boot id is it unique.
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		boot = nil
	}
	s.started = strings.TrimSpace(string(boot)) + "/" + s.started
	return s.processInfo, true
}

// ownsGroup reports whether a group whose leader is gone is the one that was recorded. After a
// container restart the same ids may belong to other processes, so at least one member must carry a
// session.
func ownsGroup(id ID) bool {
	return slices.ContainsFunc(members(id.PID, ""), func(m member) bool {
		env, err := os.ReadFile("/proc/" + strconv.Itoa(m.pid) + "/environ")
		return err == nil && m.grouped && bytes.Contains(append([]byte{0}, env...),
			[]byte("\x00"+SessionVariable+"="))
	})
}

// readStatus reads fields 3 to 6 and 22 of /proc/PID/stat. Field 2 is a name in parentheses that
// can contain anything.
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
	s.parent, _ = strconv.Atoi(string(fields[1]))
	s.group, _ = strconv.Atoi(string(fields[2]))
	s.session, _ = strconv.Atoi(string(fields[3]))
	s.started = string(fields[19])
	return s, true
}

// members returns the running processes of a leader's group and system session, and those that
// carry a session of signalbox. Either argument may be zero. This process is never included.
func members(leader int, session string) (all []member) {
	self := os.Getpid()
	for _, pid := range runningProcesses() {
		if pid == self {
			continue
		}
		s, ok := readStatus(pid)
		switch {
		case !ok || s.ended:
		case leader > 0 && s.group == leader:
			all = append(all, member{pid, true, isKeeper(pid, pid == leader)})
		case leader > 0 && (pid == leader || s.session == leader),
			carriesSession(strconv.Itoa(pid), session):
			all = append(all, member{pid, false, isKeeper(pid, pid == leader)})
		}
	}
	return all
}

func runningProcesses() (pids []int) {
	folder, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return nil
	}
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// carriesSession reports whether a process has a session, or one nested in it, in its environment.
func carriesSession(pid, session string) bool {
	if session == "" {
		return false
	}
	env, err := readEnvironment(pid)
	if err != nil {
		return false // it belongs to another user, or is gone
	}
	env = append([]byte{0}, env...)
	variable := "\x00" + SessionVariable + "=" + session
	return bytes.Contains(env, []byte(variable+"\x00")) ||
		bytes.Contains(env, []byte(variable+nestedSeparator))
}

// readEnvironment reads the environment of a process. It is empty for an instant while the process
// executes a new program, and when the program is replaced between open and read, so an empty one
// is read again: otherwise the process would escape from its session.
func readEnvironment(pid string) ([]byte, error) {
	for tries := 1; ; tries++ {
		busy := executing(pid)
		env, err := os.ReadFile("/proc/" + pid + "/environ")
		if err != nil || len(env) > 0 || tries > 1 && !busy || tries == execTries {
			return env, err
		}
		if busy {
			time.Sleep(execPause)
		}
	}
}

// executing reports whether a process is replacing its program: it has memory (field 23 of
// /proc/PID/stat), but no environment yet (field 51).
func executing(pid string) bool {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	return len(fields) > 48 && string(fields[20]) != "0" && string(fields[48]) == "0"
}

// waitForExit waits until a child has ended, without reaping it.
func waitForExit(pid int) {
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}
