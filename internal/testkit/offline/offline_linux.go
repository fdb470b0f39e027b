package offline

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"signalbox/internal/testkit/npm"
)

// run runs a command in network and mount namespaces of its own. Root may create them directly;
// other users need a user namespace, which the system may forbid. There they stay who they are.
func run(t *testing.T, command func() *exec.Cmd) error {
	t.Helper()
	const flags = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS
	runtime.LockOSThread() // the command ends with the thread that started it
	defer runtime.UnlockOSThread()
	err := error(syscall.EPERM)
	if os.Geteuid() == 0 {
		cmd := command()
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
		err = cmd.Run()
	}
	if errors.Is(err, syscall.EPERM) {
		cmd := command()
		uid, gid := os.Geteuid(), os.Getegid()
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags: flags | syscall.CLONE_NEWUSER, Pdeathsig: syscall.SIGKILL,
			AmbientCaps: []uintptr{unix.CAP_NET_ADMIN},
			UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}}
		err = cmd.Run()
	}
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		npm.SkipOrFail(t, "cannot create a network namespace: %v; run the test as root, or allow user "+
			"namespaces (sysctl kernel.unprivileged_userns_clone=1, or "+
			"kernel.apparmor_restrict_unprivileged_userns=0)", err)
	}
	return err
}

// Start brings up the loopback interface of the namespace, and checks that there is no other
// interface.
func Start(t *testing.T) {
	t.Helper()
	interfaces, err := net.Interfaces()
	if err != nil || len(interfaces) != 1 || interfaces[0].Flags&net.FlagLoopback == 0 {
		t.Fatalf("the namespace has other interfaces: %v, %v", interfaces, err)
	}
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(socket)
	// struct ifreq: a name, and a union of 24 bytes that starts with the flags.
	request := struct {
		name  [16]byte
		flags uint16
		_     [22]byte
	}{flags: syscall.IFF_UP | syscall.IFF_RUNNING}
	copy(request.name[:], interfaces[0].Name)
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(socket), syscall.SIOCSIFFLAGS,
		uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		t.Fatalf("bring up the loopback interface: %v", errno)
	}
}
