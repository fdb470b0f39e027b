package sandbox

import (
	"os"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Detect returns what this system can enforce, except for namespaces: only an attempt shows whether
// the system grants them, which package process makes.
var Detect = sync.OnceValue(func() Support {
	s := Support{System: "linux", Seccomp: hasSeccomp()}
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0,
		unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		s.Why = "Landlock: " + errno.Error()
		return s
	}
	// A container engine may tell the version, and forbid the rest.
	attributes := unix.LandlockRulesetAttr{Handled_access_fs: rightsToRead}
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(&attributes)), unsafe.Offsetof(attributes.Handled_access_net), 0)
	if errno != 0 {
		s.Why = "Landlock: " + errno.Error()
		return s
	}
	unix.Close(int(set))
	s.Landlock = int(version)
	return s
})

// hasSeccomp reports whether the kernel has seccomp filters.
func hasSeccomp() bool {
	actions, err := os.ReadFile("/proc/sys/kernel/seccomp/actions_avail")
	return canFilter && err == nil && strings.Contains(string(actions), "errno")
}
