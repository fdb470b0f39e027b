//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// canFilter reports whether filterCalls knows the system calls of this processor.
const canFilter = true

// The layout of what a filter sees: struct seccomp_data.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16 // 8 bytes each; the low half is first on the processors that we know
)

const (
	newNamespace = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS |
		unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME
	socketType = 0xf // the bits of a socket's type that are not flags
	ioprioUser = 3   // IOPRIO_WHO_USER
)

// forbiddenCalls change the system, look into other processes, or reach what Landlock does not
// know. Most need capabilities that the program does not have; a kernel has had faults in all of
// them.
var forbiddenCalls = append([]uintptr{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP,
	unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT,
	unix.SYS_OPEN_TREE,
	unix.SYS_OPEN_TREE_ATTR, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	unix.SYS_MOUNT_SETATTR, unix.SYS_SETNS,
	unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT,
	unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_ADD_KEY, unix.SYS_KEYCTL, unix.SYS_REQUEST_KEY,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD,
	unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_VHANGUP,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_LOOKUP_DCOOKIE,
}, archCalls...)

// missingCalls are reported as unknown, so that programs use what they used before these existed. A
// filter cannot look at the arguments of clone3, and io_uring makes calls that no filter sees.
var missingCalls = []uintptr{unix.SYS_CLONE3, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER,
	unix.SYS_IO_URING_REGISTER}

// lastCall is the newest call that was considered here. Later ones are reported as unknown, too:
// one that mounts, say, would pass otherwise.
const lastCall = unix.SYS_FILE_SETATTR

// sharedCalls use memory, queues and semaphores of System V, which all programs of a user share.
var sharedCalls = []uintptr{
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_MSGGET, unix.SYS_MSGSND,
	unix.SYS_MSGRCV, unix.SYS_MSGCTL,
	unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
}

// filterCalls installs a filter of system calls for the calling thread.
func filterCalls(p *Policy, s Support) error {
	filter := callFilter(p, s)
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0,
		uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return fmt.Errorf("install: %w", errno)
	}
	return nil
}

// callFilter returns the filter for a policy.
func callFilter(p *Policy, s Support) []unix.SockFilter {
	code := block(
		// programs for another processor would have other numbers
		load(offsetArch), unless(auditArch, deny(unix.ENOSYS)),
		load(offsetNumber), foreignNumbers, whenAbove(lastCall, deny(unix.ENOSYS)),
	)
	for _, number := range forbiddenCalls {
		code = append(code, when(number, deny(unix.EPERM))...)
	}
	for _, number := range missingCalls {
		code = append(code, when(number, deny(unix.ENOSYS))...)
	}
	code = append(code, block(
		when(unix.SYS_CLONE, load(arg(0)), whenAny(newNamespace, deny(unix.EPERM)), allow),
		when(unix.SYS_UNSHARE, load(arg(0)), whenAny(newNamespace, deny(unix.EPERM)), allow),
		// They put characters into the terminal's input.
		when(unix.SYS_IOCTL, load(arg(1)), when(unix.TIOCSTI, deny(unix.EPERM)),
			when(unix.TIOCLINUX, deny(unix.EPERM)), allow),
		when(unix.SYS_SOCKET, socketFilter(p, s)),
	)...)
	// otherwise the program sees only its own processes, shared memory and message queues
	if !s.Namespaces {
		for _, number := range []uintptr{unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY,
			unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR} {
			code = append(code, when(number, load(arg(0)), when(0, allow), deny(unix.EPERM))...)
		}
		// Of itself or of its group, but not of another process or of all processes of the user.
		for number, user := range map[uintptr]uintptr{unix.SYS_SETPRIORITY: unix.PRIO_USER,
			unix.SYS_IOPRIO_SET: ioprioUser} {
			code = append(code, when(number, load(arg(0)), when(user, deny(unix.EPERM)),
				load(arg(1)), when(0, allow), deny(unix.EPERM))...)
		}
		for _, number := range sharedCalls {
			code = append(code, when(number, deny(unix.EPERM))...)
		}
	}
	if s.reachesSockets() {
		// One end of a pair of datagram sockets can send to any other socket.
		code = append(code, when(unix.SYS_SOCKETPAIR, load(arg(1)), keep(socketType),
			when(unix.SOCK_DGRAM, deny(unix.EACCES)), allow)...)
	}
	if len(p.Network.Ports) > 0 { // a connection that begins with data is not checked by Landlock
		for number, flags := range map[uintptr]int{unix.SYS_SENDTO: 3, unix.SYS_SENDMSG: 2,
			unix.SYS_SENDMMSG: 3} {
			code = append(code, when(number, load(arg(flags)),
				whenAny(unix.MSG_FASTOPEN, deny(unix.EPERM)), allow)...)
		}
	}
	return append(code, allow...)
}

// reachesSockets reports whether a program could connect to all Unix sockets of its user. Landlock
// hides them since version 9.
func (s Support) reachesSockets() bool { return !s.Namespaces && s.Landlock < abiSockets }

// socketFilter decides which sockets a program may create. Landlock knows TCP ports only.
func socketFilter(p *Policy, s Support) []unix.SockFilter {
	unixSockets := allow
	if s.reachesSockets() {
		// Those of Docker or of the user's session could be reached, which would be the end of the
		// sandbox. Pairs of sockets remain.
		unixSockets = deny(unix.EACCES)
	}
	datagrams := block(load(arg(2)), when(0, allow), when(unix.IPPROTO_UDP, allow),
		deny(unix.EACCES))
	if len(p.Network.Ports) > 0 {
		datagrams = deny(unix.EACCES)
	}
	internet := block(
		load(arg(1)), keep(socketType),
		when(unix.SOCK_STREAM, load(arg(2)), when(0, allow), when(unix.IPPROTO_TCP, allow),
			deny(unix.EPROTONOSUPPORT)),
		when(unix.SOCK_DGRAM, datagrams),
		deny(unix.EACCES),
	)
	if p.Network.Off && !s.Namespaces { // in a namespace of its own it reaches nothing
		internet = deny(unix.EACCES)
	}
	return block(
		load(arg(0)),
		when(unix.AF_UNIX, unixSockets),
		when(unix.AF_INET, internet),
		when(unix.AF_INET6, internet),
		// Programs ask for the addresses of this machine.
		when(unix.AF_NETLINK, load(arg(2)), when(unix.NETLINK_ROUTE, allow), deny(unix.EACCES)),
		deny(unix.EAFNOSUPPORT),
	)
}

func arg(n int) uint32 { return uint32(offsetArgs + 8*n) }

// The instructions below are joined by block. Conditions test what was loaded last, and skip their
// code if they do not hold.

func block(parts ...[]unix.SockFilter) (code []unix.SockFilter) {
	for _, part := range parts {
		code = append(code, part...)
	}
	return code
}

func load(offset uint32) []unix.SockFilter {
	return []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}}
}

func keep(mask uint32) []unix.SockFilter {
	return []unix.SockFilter{{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: mask}}
}

// when runs code, which must end the filter, if the loaded value is equal to value.
func when(value uintptr, code ...[]unix.SockFilter) []unix.SockFilter {
	body := block(code...)
	return append([]unix.SockFilter{{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: skip(body),
		K: uint32(value)}}, body...)
}

func unless(value uint32, code []unix.SockFilter) []unix.SockFilter {
	return append([]unix.SockFilter{{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: skip(code),
		K: value}}, code...)
}

// whenAbove runs code if the loaded value is greater than value.
func whenAbove(value uint32, code []unix.SockFilter) []unix.SockFilter {
	return append([]unix.SockFilter{{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, Jf: skip(code),
		K: value}}, code...)
}

// whenAny runs code if the loaded value has any of the bits.
func whenAny(bits uint32, code []unix.SockFilter) []unix.SockFilter {
	return append([]unix.SockFilter{{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K,
		Jf: skip(code), K: bits}}, code...)
}

// skip returns the length of code as the distance of a jump.
func skip(code []unix.SockFilter) uint8 {
	if len(code) > 255 {
		panic(fmt.Sprintf("a jump over %d instructions", len(code)))
	}
	return uint8(len(code))
}

func deny(errno unix.Errno) []unix.SockFilter { return result(unix.SECCOMP_RET_ERRNO | uint32(errno)) }

var allow = result(unix.SECCOMP_RET_ALLOW)

func result(value uint32) []unix.SockFilter {
	return []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: value}}
}
