package hostile

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The systems that a filter of system calls simulates.
const (
	withoutNamespaces = "without namespaces"
	withoutLandlock   = "without Landlock"
	landlockDisabled  = "Landlock disabled"
	landlockDenied    = "Landlock denied"
)

// playFilter executes a program as on another system. Its arguments are the system, and the program
// with its arguments.
func playFilter(args []string) error {
	runtime.LockOSThread()
	filter := filterOf(args[0])
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0,
		uintptr(unsafe.Pointer(&program))); errno != 0 {
		return fmt.Errorf("install the filter: %w", errno)
	}
	path, err := exec.LookPath(args[1])
	if err != nil {
		return err
	}
	return syscall.Exec(path, args[1:], syscall.Environ())
}

func filterOf(system string) (code []unix.SockFilter) {
	const number, firstArgument = 0, 16 // in struct seccomp_data
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	deny := func(errno syscall.Errno) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K,
			K: unix.SECCOMP_RET_ERRNO | uint32(errno)}
	}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	call := func(nr uintptr, body ...unix.SockFilter) {
		code = append(code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
			Jf: uint8(len(body)), K: uint32(nr)})
		code = append(code, body...)
	}
	code = append(code, load(number))
	switch system {
	case withoutNamespaces:
		const all = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
		for _, nr := range []uintptr{unix.SYS_CLONE, unix.SYS_UNSHARE} {
			call(nr, load(firstArgument),
				unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jf: 1, K: all},
				deny(unix.EPERM), allow)
		}
		call(unix.SYS_CLONE3, deny(unix.ENOSYS))
	case withoutLandlock, landlockDisabled:
		errno := unix.ENOSYS
		if system == landlockDisabled {
			errno = unix.EOPNOTSUPP
		}
		for _, nr := range []uintptr{unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE,
			unix.SYS_LANDLOCK_RESTRICT_SELF} {
			call(nr, deny(errno))
		}
	case landlockDenied: // the version is told, as some container engines do
		call(unix.SYS_LANDLOCK_CREATE_RULESET, load(firstArgument+16),
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1,
				K: unix.LANDLOCK_CREATE_RULESET_VERSION}, allow, deny(unix.EPERM))
	}
	return append(code, allow)
}
