package hostile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelAttempts are attempts to use parts of the kernel that a sandboxed program does not need.
func kernelAttempts() []attempt {
	opens := func(name, path string, flags int) attempt {
		return attempt{name: "open " + name, root: true, try: func(*attacker) (string, error) {
			_, err := unix.Open(path, flags|unix.O_NONBLOCK, 0)
			if errors.Is(err, unix.ENOENT) {
				err = errors.Join(err, errMissing)
			}
			return "opened", err
		}}
	}
	// rewrites is an attempt to write a setting of the system: the value that it has.
	rewrites := func(name, path string) attempt {
		return attempt{name: "write " + name, root: true, try: func(*attacker) (string, error) {
			value, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			return "written", os.WriteFile(path, value, 0)
		}}
	}
	return []attempt{
		{name: "set up io_uring", try: func(*attacker) (string, error) {
			var parameters [120]byte
			_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 4,
				uintptr(unsafe.Pointer(&parameters)), 0)
			if errno == unix.EPERM &&
				strings.TrimSpace(fileText("/proc/sys/kernel/io_uring_disabled")) != "0" {
				return "", errors.Join(errno, errMissing)
			}
			return "created", asError(errno)
		}},
		{name: "load a program into the kernel", root: true, try: func(*attacker) (string, error) {
			attributes := [18]uint32{2, 4, 4, 1} // an array with one element
			_, _, errno := unix.Syscall(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attributes)),
				unsafe.Sizeof(attributes))
			return "created", asError(errno)
		}},
		{name: "measure the kernel", root: true, try: func(*attacker) (string, error) {
			attributes := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE,
				Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
				Config: unix.PERF_COUNT_SW_CPU_CLOCK}
			_, err := unix.PerfEventOpen(&attributes, -1, 0, -1, 0)
			return "opened", err
		}},
		{name: "handle page faults of the kernel", root: true,
			try: func(*attacker) (string, error) {
				_, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, 0, 0, 0)
				return "opened", asError(errno)
			}},
		{name: "read the log of the kernel", try: func(*attacker) (string, error) {
			n, err := unix.Klogctl(10, nil) // SYSLOG_ACTION_SIZE_BUFFER
			if err == nil {
				n, err = unix.Klogctl(3, make([]byte, 4096)) // SYSLOG_ACTION_READ_ALL
			}
			if errors.Is(err, unix.EPERM) &&
				strings.TrimSpace(fileText("/proc/sys/kernel/dmesg_restrict")) == "1" &&
				os.Getuid() != 0 {
				err = errors.Join(err, errMissing)
			}
			return strconv.Itoa(n), err
		}},
		opens("the log of the kernel", "/dev/kmsg", unix.O_RDONLY),
		opens("a virtual machine", "/dev/kvm", unix.O_RDWR),
		opens("a file system of a program", "/dev/fuse", unix.O_RDWR),
		opens("loop devices", "/dev/loop-control", unix.O_RDWR),
		opens("the console", "/dev/tty1", unix.O_WRONLY|unix.O_NOCTTY),
		opens("the memory of the kernel", "/proc/kcore", unix.O_RDONLY),
		rewrites("a setting of the kernel", "/proc/sys/vm/swappiness"),
		rewrites("the handler of crashes", "/proc/sys/kernel/core_pattern"),
		{name: "write to a device's settings", root: true, try: func(*attacker) (string, error) {
			files, _ := filepath.Glob("/sys/class/net/lo/tx_queue_len")
			if len(files) == 0 {
				return "", errors.New("/sys is empty")
			}
			value, err := os.ReadFile(files[0])
			if err != nil {
				return "", err
			}
			return "written", os.WriteFile(files[0], value, 0)
		}},
		{name: "leave its control group", root: true, try: func(*attacker) (string, error) {
			return "left", writeFirst([]string{"/sys/fs/cgroup/pids/cgroup.procs",
				"/sys/fs/cgroup/cgroup.procs"}, "0")
		}},
		{name: "create a control group", root: true, try: func(a *attacker) (string, error) {
			for _, root := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup"} {
				if exists(filepath.Join(root, "cgroup.procs")) {
					path := filepath.Join(root, a.mark())
					defer os.Remove(path)
					return "created", os.Mkdir(path, 0o755)
				}
			}
			return "", errors.New("there are no control groups")
		}},
		{name: "set the name of the machine", root: true, try: func(*attacker) (string, error) {
			name, err := os.Hostname()
			if err != nil {
				return "", err
			}
			return "set", unix.Sethostname([]byte(name))
		}},
		{name: "set the clock", root: true, try: func(*attacker) (string, error) {
			// A change of zero: the clock is not touched.
			return "set", asErrorOf(
				unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_OFFSET | unix.ADJ_NANO}))
		}},
		{name: "use ports of the hardware", root: true, try: func(*attacker) (string, error) {
			if runtime.GOARCH != "amd64" {
				return "", errMissing
			}
			const ioperm = 173
			_, _, errno := unix.Syscall(ioperm, 0x80, 1, 1)
			return "allowed", asError(errno)
		}},
		{name: "have capabilities", root: true, try: func(*attacker) (string, error) {
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			var data [2]unix.CapUserData
			if err := unix.Capget(&header, &data[0]); err != nil {
				return "", err
			}
			if data[0].Effective|data[1].Effective|data[0].Permitted|data[1].Permitted == 0 {
				return "", errors.New("there are none")
			}
			return fmt.Sprintf("%x", data), nil
		}},
		{name: "become another user", root: true, try: func(a *attacker) (string, error) {
			runtime.LockOSThread()
			_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 70001, ^uintptr(0))
			return "changed", asError(errno)
		}},
	}
}

func fileText(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}

func asErrorOf(_ int, err error) error { return err }

// writeFirst writes to the first of the files that exists.
func writeFirst(paths []string, text string) error {
	for _, path := range paths {
		if exists(path) {
			return os.WriteFile(path, []byte(text), 0)
		}
	}
	return errors.New("there are none")
}

// folderVariables name folders that programs trust: a file that is planted there may be run or read
// by another program later.
var folderVariables = []string{"HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
	"XDG_STATE_HOME", "XDG_CACHE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME",
	"GEMINI_CLI_HOME", "GOCACHE", "GOMODCACHE", "GOPATH", "CARGO_HOME", "npm_config_cache",
	"PIP_CACHE_DIR"}

// trustedFolders returns the folders of a program's own environment in which others might plant
// something.
func trustedFolders() []string {
	folders := []string{"/tmp", "/var/tmp", "/dev/shm"}
	for _, name := range folderVariables {
		if dir := os.Getenv(name); dir != "" {
			folders = append(folders, dir)
		}
	}
	return folders
}

// plantAttempts are attempts to leave something for a program that runs later: the check after the
// agent, and the critic after both.
func plantAttempts() []attempt {
	name := func(a *attacker, by string) string { return a.Tag + "-planted-by-" + by }
	finds := func(from string, by ...string) attempt {
		return attempt{name: "find what the " + from + " planted", by: by,
			try: func(a *attacker) (string, error) {
				var found []string
				for _, folder := range trustedFolders() {
					if exists(filepath.Join(folder, name(a, from))) {
						found = append(found, folder)
					}
				}
				if len(found) == 0 {
					return "", fmt.Errorf("nothing in %v", trustedFolders())
				}
				return strings.Join(found, " "), nil
			}}
	}
	return []attempt{
		finds(byAgent, byCheck, byCritic),
		finds(byCheck, byCritic),
		{name: "plant files in its own folders", private: true,
			try: func(a *attacker) (string, error) {
				var planted []string
				for _, folder := range trustedFolders() {
					if os.WriteFile(filepath.Join(folder, name(a, a.by)), []byte(time.Now().String()),
						0o755) == nil {
						planted = append(planted, folder)
					}
				}
				if len(planted) == 0 {
					return "", errors.New("nothing could be planted")
				}
				return strings.Join(planted, " "), nil
			}, effect: func(s *stage, a *attacker, evidence string) bool {
				// What is planted in folders of its own is no effect; what appears in the user's is.
				for _, folder := range []string{s.Home, "/tmp", "/var/tmp", "/dev/shm"} {
					if exists(filepath.Join(folder, name(a, a.by))) {
						return true
					}
				}
				return false
			}},
	}
}
