package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	rightsToRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// rightsToWrite are those that every version has. Nothing grants the right to make devices.
	rightsToWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	rightsToMakeDevices = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	// rightsOnFiles are those that a rule for a file, rather than for a folder, may grant.
	rightsOnFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV | rightToReachSockets

	rightToReachSockets = 1 << 16 // of named Unix sockets, since version 9
	ruleNetPort         = 2
)

// landlockPort is a rule about a TCP port.
type landlockPort struct{ access, port uint64 }

// fileRights returns all rights of a version of Landlock that concern files, and those of a path
// that may be changed.
func fileRights(version int) (all, write uint64) {
	write = rightsToRead | rightsToWrite
	for _, right := range []struct {
		since int
		bit   uint64
	}{{2, unix.LANDLOCK_ACCESS_FS_REFER}, {3, unix.LANDLOCK_ACCESS_FS_TRUNCATE}, {5, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV}, {9, rightToReachSockets}} {
		if version >= right.since {
			write |= right.bit
		}
	}
	return write | rightsToMakeDevices, write
}

// restrictFiles forbids the calling thread to use files, TCP ports, signals and abstract sockets
// that the policy does not allow.
func restrictFiles(p *Policy, s Support) error {
	all, write := fileRights(s.Landlock)
	attributes := unix.LandlockRulesetAttr{Handled_access_fs: all}
	offline := p.Network.Off && !s.Namespaces // in a namespace of its own it reaches only itself
	if s.Landlock >= abiPorts && (offline || len(p.Network.Ports) > 0) {
		attributes.Handled_access_net = unix.LANDLOCK_ACCESS_NET_CONNECT_TCP | unix.LANDLOCK_ACCESS_NET_BIND_TCP
	}
	if s.Landlock >= abiScopes {
		attributes.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	size := unsafe.Offsetof(attributes.Quiet_access_fs) // what follows is not used
	// older versions refuse fields that they do not know, even zero ones in part
	switch {
	case s.Landlock < abiPorts:
		size = unsafe.Offsetof(attributes.Handled_access_net)
	case s.Landlock < abiScopes:
		size = unsafe.Offsetof(attributes.Scoped)
	}
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(&attributes)), size, 0)
	if errno != 0 {
		return fmt.Errorf("create rules: %w", errno)
	}
	defer unix.Close(int(set))
	for _, path := range append(systemPaths(s), p.Read...) {
		if err := allowPath(set, path, rightsToRead); err != nil {
			return err
		}
	}
	if s.Namespaces { // the new root shows nothing else
		if err := allowPath(set, "/", unix.LANDLOCK_ACCESS_FS_READ_DIR); err != nil {
			return err
		}
		if p.Network.Server != nil { // its own, see mountHosts
			if err := allowPath(set, hostsFile, rightsToRead); err != nil {
				return err
			}
		}
	}
	for _, path := range append(devicePaths(s), p.writable()...) {
		if err := allowPath(set, path, write); err != nil {
			return err
		}
	}
	if attributes.Handled_access_net != 0 && !p.Network.Off {
		// Port 0 is one that the system chooses, for a server that only this program knows.
		rules := []landlockPort{{unix.LANDLOCK_ACCESS_NET_BIND_TCP, 0}}
		for _, port := range p.Network.Ports {
			rules = append(rules, landlockPort{attributes.Handled_access_net, uint64(port)})
		}
		for _, rule := range rules {
			if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, set, ruleNetPort,
				uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
				return fmt.Errorf("allow TCP port %d: %w", rule.port, errno)
			}
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); errno != 0 {
		return fmt.Errorf("apply rules: %w", errno)
	}
	return nil
}

// allowPath allows rights for a path, if it exists.
func allowPath(set uintptr, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) ||
		errors.Is(err, unix.ENOTDIR) {
		return nil // nothing to allow
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= rightsOnFiles
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, set,
		unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("allow %s: %w", path, errno)
	}
	return nil
}

// devices are the devices that every program may use.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// devicePaths returns what programs may change in /dev.
func devicePaths(s Support) (paths []string) {
	for _, name := range devices {
		paths = append(paths, "/dev/"+name)
	}
	if s.Namespaces { // then these are the program's own
		paths = append(paths, "/dev/pts", "/dev/ptmx", "/dev/shm")
	}
	return paths
}

// systemPaths returns what programs may always read. In a new root it is what that root has anyway.
func systemPaths(s Support) []string {
	if s.Namespaces {
		return []string{"/proc", "/dev", "/sys"}
	}
	return []string{"/proc", "/sys"}
}
