package sandbox

import (
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Detect returns what this system can enforce, except for namespaces: only an attempt shows whether the system grants them, which
// package process makes.
var Detect = sync.OnceValue(func() Support {
	s := Support{System: "linux", Seccomp: hasSeccomp()}
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		s.Why = "Landlock: " + errno.Error()
		return s
	}
	s.Landlock = int(version)
	return s
})

// hasSeccomp reports whether the kernel has seccomp filters.
func hasSeccomp() bool {
	actions, err := os.ReadFile("/proc/sys/kernel/seccomp/actions_avail")
	return canFilter && err == nil && strings.Contains(string(actions), "errno")
}
