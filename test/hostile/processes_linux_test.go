package hostile

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// processAttempts are attempts to inspect, change and end other processes, and to outlive the
// session.
func processAttempts() []attempt {
	all := []attempt{
		reads("the environment of another process",
			func(a *attacker) string { return fmt.Sprintf("/proc/%d/environ", a.Bystander.PID) }),
		reads("the environment of signalbox in /proc",
			func(a *attacker) string { return fmt.Sprintf("/proc/%d/environ", a.Coordinator) }),
		reads("a file through the root of another process", func(a *attacker) string {
			return fmt.Sprintf("/proc/%d/root%s", a.Bystander.PID,
				filepath.Join(a.Home, ".ssh", "id_ed25519"))
		}),
		reads("a file through the root of signalbox", func(a *attacker) string {
			return fmt.Sprintf("/proc/%d/root%s", a.Coordinator,
				filepath.Join(a.Home, ".ssh", "id_ed25519"))
		}),
		{name: "read a file through the root of process 1", root: true, effect: leaked,
			try: func(a *attacker) (string, error) {
				text, err := readFile("/proc/1/root" + filepath.Join(a.Home, ".ssh", "id_ed25519"))
				if errors.Is(err, os.ErrPermission) {
					// it may have more capabilities than root has here
					err = errors.Join(err, errMissing)
				}
				return text, err
			}},
		reads("a file through the working folder of signalbox", func(a *attacker) string {
			return fmt.Sprintf("/proc/%d/cwd/.signalbox/signalbox.yaml", a.Coordinator)
		}),
		reads("a removed file through another process", func(a *attacker) string {
			return fmt.Sprintf("/proc/%d/fd/%d", a.Bystander.PID, a.Bystander.FD)
		}),
		{name: "read the environment of another session", try: otherSession,
			effect: func(s *stage, _ *attacker, evidence string) bool {
				return slices.Contains(strings.Fields(evidence), s.Victim.Session)
			}},
		{name: "read the ledger through descriptors of signalbox",
			try: func(a *attacker) (string, error) {
				fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", a.Coordinator))
				if len(fds) == 0 {
					return "", errors.Join(err, errors.New("no descriptors to see"))
				}
				for _, fd := range fds {
					if target, _ := os.Readlink(fd); filepath.Base(target) == "ledger.db" {
						return readFile(fd)
					}
				}
				return "", errors.New("the ledger is not open")
			}, effect: func(_ *stage, _ *attacker, evidence string) bool {
				return strings.HasPrefix(evidence, "SQLite format 3")
			}},
		{name: "read the memory of another process in /proc", effect: leaked,
			try: func(a *attacker) (string, error) {
				f, err := os.Open(fmt.Sprintf("/proc/%d/mem", a.Bystander.PID))
				if err != nil {
					return "", err
				}
				buffer := make([]byte, 64)
				n, err := f.ReadAt(buffer, int64(a.Bystander.Address))
				return string(buffer[:n]), err
			}},
		{name: "read the memory of another process", effect: leaked,
			try: func(a *attacker) (string, error) {
				buffer := make([]byte, 64)
				n, err := unix.ProcessVMReadv(a.Bystander.PID,
					[]unix.Iovec{{Base: &buffer[0], Len: 64}},
					[]unix.RemoteIovec{{Base: a.Bystander.Address, Len: 64}}, 0)
				return string(buffer[:max(n, 0)]), err
			}},
		{name: "list the memory of signalbox",
			try: func(a *attacker) (string,
				error) {
				return readFile(fmt.Sprintf("/proc/%d/maps", a.Coordinator))
			}},
		{name: "read the command lines of other processes",
			open: "command lines of running programs",
			try: func(a *attacker) (string,
				error) {
				return readFile(fmt.Sprintf("/proc/%d/cmdline", a.Bystander.PID))
			},
			effect: func(_ *stage, _ *attacker,
				evidence string) bool {
				return strings.Contains(evidence, partBystander)
			}},
		{name: "take a descriptor of another process", effect: leaked,
			try: func(a *attacker) (string, error) {
				pidfd, err := unix.PidfdOpen(a.Bystander.PID, 0)
				if err != nil {
					return "", err
				}
				fd, err := unix.PidfdGetfd(pidfd, a.Bystander.FD, 0)
				if err != nil {
					return "", err
				}
				buffer := make([]byte, 64)
				n, err := unix.Pread(fd, buffer, 0)
				return string(buffer[:max(n, 0)]), err
			}},
		{name: "trace another process",
			try: func(a *attacker) (string, error) { return "attached", traces(a.Bystander.PID) }},
		{name: "trace signalbox",
			try: func(a *attacker) (string, error) { return "attached", traces(a.Coordinator) }},
		{name: "trace what started it",
			try: func(a *attacker) (string, error) { return onKeeper(traces) }},
		{name: "signal signalbox",
			try: func(a *attacker) (string,
				error) {
				return "sent", unix.Kill(a.Coordinator, unix.SIGURG)
			}},
		{name: "signal what started it", try: func(a *attacker) (string, error) {
			return onKeeper(func(pid int) error {
				if pid == 1 {
					return errors.New("the first process of a namespace, which ignores what it does not expect")
				}
				return unix.Kill(pid, unix.SIGURG)
			})
		}},
		{name: "signal another session",
			try: func(a *attacker) (string,
				error) {
				return "sent", unix.Kill(a.Victim.PID, unix.SIGURG)
			}},
		{name: "limit another process", try: func(a *attacker) (string, error) {
			size := uint64(a.number(4097))
			return "limited", unix.Prlimit(a.Bystander.PID, unix.RLIMIT_CORE,
				&unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}, nil)
		}, effect: func(s *stage, a *attacker, _ string) bool {
			return s.bystanderNumber("limits", "Max core file size") >= a.number(4097)
		}},
		{name: "slow down another process", open: "priority",
			try: func(a *attacker) (string, error) {
				return "slower", unix.Setpriority(unix.PRIO_PROCESS, a.Bystander.PID, a.slower(1))
			},
			effect: func(s *stage, a *attacker,
				_ string) bool {
				return s.priority() >= a.slower(1)
			}},
		{name: "slow down all processes of the user", try: func(a *attacker) (string, error) {
			if !a.Alone {
				return "", fmt.Errorf("not tried on the user's other processes: %w", errMissing)
			}
			return "slower", unix.Setpriority(unix.PRIO_USER, 0, a.slower(2))
		}, private: true, effect: func(s *stage, a *attacker,
			_ string) bool {
			return s.priority() >= a.slower(2)
		}},
		{name: "signal all processes", try: func(a *attacker) (string, error) {
			if !a.Alone {
				return "", fmt.Errorf("not tried on the user's other processes: %w", errMissing)
			}
			return "sent", unix.Kill(-1, harmless(a))
		}, private: true, effect: func(s *stage, a *attacker,
			_ string) bool {
			return s.signalled(int(harmless(a)))
		}},
		{name: "have another process killed first", try: func(a *attacker) (string, error) {
			return "written", os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", a.Bystander.PID),
				[]byte(strconv.Itoa(a.number(901))), 0)
		}, effect: func(s *stage, a *attacker, _ string) bool {
			return s.bystanderNumber("oom_score_adj", "") >= a.number(901)
		}},
		{name: "enter the namespaces of signalbox", root: true, effect: leaked,
			try: func(a *attacker) (string, error) {
				runtime.LockOSThread()
				if err := unix.Unshare(unix.CLONE_FS); err != nil {
					return "", err
				}
				fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/mnt", a.Coordinator), unix.O_RDONLY, 0)
				if err == nil {
					err = unix.Setns(fd, unix.CLONE_NEWNS)
				}
				if err != nil {
					return "", err
				}
				return readFile(filepath.Join(a.Home, ".ssh", "id_ed25519"))
			}},
		{name: "create a user namespace", try: func(*attacker) (string, error) {
			cmd := exec.Command("true")
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
			return "created", cmd.Run()
		}},
		{name: "create a mount namespace as another root", effect: nil,
			try: func(*attacker) (string, error) {
				cmd := exec.Command("true")
				cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
					UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
					GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
				return "created", cmd.Run()
			}},
		{name: "create a user namespace with the 32-bit interface", try: oldInterface},
		{name: "run a setuid program", try: func(a *attacker) (string, error) {
			out, err := run(a.dir, filepath.Join(a.Bin, "setuid"), partIdentity)
			if errors.Is(err, os.ErrNotExist) {
				return "", errors.Join(err, errMissing) // only root can make one of another user
			}
			if err == nil && strings.TrimSpace(out) == strconv.Itoa(os.Getuid()) {
				err = errors.New("it is the same user")
			}
			return out, err
		}},
	}
	return slices.Concat(all, signalAttempts(), hidingAttempts())
}

func rootOnly(t attempt) attempt { t.root = true; return t }

func traces(pid int) error {
	runtime.LockOSThread()
	return unix.PtraceSeize(pid) // does not stop it; ends with this process
}

// onKeeper calls f with the process that started the agent or the check, and with that one's
// parent, and returns those for which it succeeded.
func onKeeper(f func(pid int) error) (string, error) {
	agent := os.Getppid()
	var reached []string
	var failed error
	for pid := parentOf(agent); pid > 0; pid = parentOf(pid) {
		if err := f(pid); err != nil {
			failed = err
			continue
		}
		reached = append(reached, strconv.Itoa(pid))
		if len(reached) == 1 {
			break // the next one might be a stranger
		}
	}
	if len(reached) > 0 {
		return strings.Join(reached, " "), nil
	}
	return "", errors.Join(failed, errors.New("no process reached"))
}

// parentOf returns the parent of a process, or 0.
func parentOf(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

// otherSession returns the sessions in the environments of all processes that work on the victim's
// task.
func otherSession(*attacker) (string, error) {
	var sessions []string
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env := strings.Split(fileText(file), "\x00")
		for _, variable := range env {
			if session, ok := strings.CutPrefix(variable, "SIGNALBOX_SESSION="); ok &&
				slices.Contains(env, "SIGNALBOX_WORK="+victimTask) {
				sessions = append(sessions, session)
			}
		}
	}
	if len(sessions) == 0 {
		return "", fmt.Errorf("it is in none of %d environments", len(files))
	}
	return strings.Join(sessions, " "), nil
}

// slower returns a nice value above all that were set before. step is 1 or 2.
func (a *attacker) slower(step int) int { return a.Bystander.Nice + 2*a.number(0) + step }

// harmless returns a signal that does nothing to processes which do not wait for it.
func harmless(a *attacker) unix.Signal {
	if a.by == byAgent {
		return unix.SIGWINCH
	}
	return unix.SIGCONT
}

// The signals that the bystander counts. Programs send different ones.
const firstSignal = 40

// signalAttempts are attempts to send a signal to a process of the same user.
func signalAttempts() (all []attempt) {
	for i, way := range []struct {
		name string
		send func(pid, sig int) error
	}{
		{"a signal", func(pid, sig int) error { return unix.Kill(pid, unix.Signal(sig)) }},
		{"a signal to its group",
			func(pid, sig int) error { return unix.Kill(-pid, unix.Signal(sig)) }},
		{"a signal to a thread",
			func(pid, sig int) error { return unix.Tgkill(pid, pid, unix.Signal(sig)) }},
		{"a signal to a thread of any process", func(pid, sig int) error {
			_, _, errno := unix.Syscall(unix.SYS_TKILL, uintptr(pid), uintptr(sig), 0)
			return asError(errno)
		}},
		{"a signal with a value to a thread", func(pid, sig int) error {
			info := struct {
				signo, errno, code int32
				_                  [116]byte
			}{signo: int32(sig), code: -1} // SI_QUEUE
			_, _, errno := unix.Syscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(pid), uintptr(pid),
				uintptr(sig), uintptr(unsafe.Pointer(&info)), 0, 0)
			return asError(errno)
		}},
		{"a signal through a descriptor", func(pid, sig int) error {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				return err
			}
			return unix.PidfdSendSignal(fd, unix.Signal(sig), nil, 0)
		}},
		{"a queued signal", func(pid, sig int) error {
			info := struct {
				signo, errno, code int32
				_                  [116]byte
			}{signo: int32(sig), code: -1} // SI_QUEUE
			_, _, errno := unix.Syscall(unix.SYS_RT_SIGQUEUEINFO, uintptr(pid), uintptr(sig),
				uintptr(unsafe.Pointer(&info)))
			return asError(errno)
		}},
		{"the signal of a socket", func(pid, sig int) error {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			_, noOwner := unix.FcntlInt(uintptr(pair[0]), unix.F_SETOWN, pid)
			_, noSignal := unix.FcntlInt(uintptr(pair[0]), unix.F_SETSIG, sig)
			_, notAsync := unix.FcntlInt(uintptr(pair[0]), unix.F_SETFL, unix.O_ASYNC)
			_, err = unix.Write(pair[1], []byte("x"))
			return errors.Join(noOwner, noSignal, notAsync, err)
		}},
	} {
		all = append(all, attempt{name: "send " + way.name,
			try: func(a *attacker) (string,
				error) {
				return "sent", way.send(a.Bystander.PID, a.number(firstSignal+3*i))
			},
			// Nobody is told whether the signal of a socket arrives.
			private: way.name == "the signal of a socket",
			effect: func(s *stage, a *attacker,
				_ string) bool {
				return s.signalled(a.number(firstSignal + 3*i))
			}})
	}
	return all
}

func asError(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

const deafProcess = "leave a process that ignores signals"

// hidingAttempts are attempts to leave a process that outlives the program. The test looks for it
// when the program has ended.
func hidingAttempts() (all []attempt) {
	for _, way := range []struct {
		name string
		hide func(cmd *exec.Cmd)
	}{
		{"leave a process behind", func(*exec.Cmd) {}},
		{"leave a process in another session",
			func(cmd *exec.Cmd) { cmd.SysProcAttr.Setsid = true }},
		{"leave a process in another group",
			func(cmd *exec.Cmd) { cmd.SysProcAttr.Setpgid = true }},
		{deafProcess, func(cmd *exec.Cmd) { cmd.Args = append(cmd.Args, "deaf") }},
		{"leave a process of the parent",
			func(cmd *exec.Cmd) { cmd.SysProcAttr.Cloneflags = syscall.CLONE_PARENT }},
	} {
		var by []string
		if way.name == deafProcess {
			// a check is given longer to end, which would only take time here
			by = []string{byAgent}
		}
		all = append(all, attempt{name: way.name, by: by, private: true,
			prevented: "processes are ended also without a sandbox",
			try: func(a *attacker) (string, error) {
				// This process ends at once, so the other one is adopted by the next reaper.
				cmd := exec.Command(executable(), partHidden, a.mark())
				cmd.Env, cmd.Dir, cmd.SysProcAttr = []string{}, "/", &syscall.SysProcAttr{}
				way.hide(cmd)
				out, err := cmd.StdoutPipe()
				if err == nil {
					err = cmd.Start()
				}
				if err != nil {
					return "", err
				}
				_, err = out.Read(make([]byte, 1)) // it is ready
				return "started", err
			},
			effect: func(s *stage, a *attacker,
				_ string) bool {
				return len(hiddenProcesses(a.mark())) > 0
			}})
	}
	return all
}

// hiddenProcesses returns the processes that were started with a mark.
func hiddenProcesses(mark string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		if args := strings.Split(string(text), "\x00"); len(args) > 2 && args[1] == partHidden &&
			strings.HasPrefix(args[2], mark) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// oldInterface runs a 32-bit program, whose system calls have other numbers: a filter that knows
// only one set lets the other through.
func oldInterface(a *attacker) (string, error) {
	if runtime.GOARCH != "amd64" {
		return "", errMissing
	}
	const base, headers = 0x08048000, 52 + 32
	code := []byte{
		0xb8, 0x36, 0x01, 0x00, 0x00, // mov eax, 310: unshare
		0xbb, 0x00, 0x00, 0x00, 0x10, // mov ebx, CLONE_NEWUSER
		0xcd, 0x80, // int 0x80
		0x31, 0xdb, // xor ebx, ebx
		0x85, 0xc0, // test eax, eax
		0x74, 0x01, // je +1
		0x43,       // inc ebx
		0x31, 0xc0, // xor eax, eax
		0x40,       // inc eax: exit
		0xcd, 0x80, // int 0x80
	}
	u16 := func(n uint16) []byte { return []byte{byte(n), byte(n >> 8)} }
	u32 := func(n uint32) []byte { return append(u16(uint16(n)), u16(uint16(n>>16))...) }
	size := u32(uint32(headers + len(code)))
	program := slices.Concat([]byte{0x7f, 'E', 'L', 'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		u16(2), u16(3), u32(1), u32(base+headers), u32(52), u32(0), u32(0),
		u16(52), u16(32), u16(1), u16(0), u16(0), u16(0),
		u32(1), u32(0), u32(base), u32(base), size, size, u32(5), u32(0x1000), code)
	path := filepath.Join(a.dir, a.mark())
	if err := os.WriteFile(path, program, 0o755); err != nil {
		return "", err
	}
	defer os.Remove(path)
	err := exec.Command(path).Run()
	if errors.Is(err, syscall.ENOEXEC) {
		err = errors.Join(err, errMissing)
	}
	return "created", err
}
