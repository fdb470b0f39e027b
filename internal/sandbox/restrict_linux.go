package sandbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Restrict makes the system enforce a policy for the calling thread, as far as s supports it, and
// for everything that the thread starts from now on. There is no way back, so the caller must have
// locked the goroutine to its thread, and must let the thread end with the goroutine.
//
// Files and processes are restricted by Landlock, the rest by a filter of system calls. The thread
// has no capabilities afterwards, and programs that it executes cannot gain any.
func Restrict(p *Policy, s Support) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if s.Landlock > 0 {
		if err := restrictFiles(p, s); err != nil {
			return fmt.Errorf("restrict files: %w", err)
		}
	}
	if s.Seccomp {
		if err := filterCalls(p, s); err != nil {
			return fmt.Errorf("filter system calls: %w", err)
		}
	}
	return nil
}

// dropCapabilities removes all capabilities of the calling thread. no_new_privs keeps programs that
// it executes from gaining any, even as root.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	for capability := uintptr(0); ; capability++ {
		if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, capability, 0, 0, 0); err != nil {
			break // there are no more
		}
		// Only a thread that has CAP_SETPCAP may do this. For others, no_new_privs is enough.
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}
