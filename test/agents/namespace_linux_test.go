package agents_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"unsafe"
)

// runInNamespace runs a command in its own network namespace. Root may create one directly; other users need a user namespace, which
// the system may forbid.
func runInNamespace(t *testing.T, command func() *exec.Cmd) error {
	t.Helper()
	err := error(syscall.EPERM)
	if os.Geteuid() == 0 {
		cmd := command()
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		err = cmd.Run()
	}
	if errors.Is(err, syscall.EPERM) {
		cmd := command()
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}}
		err = cmd.Run()
	}
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		skipOrFail(t, "cannot create a network namespace: %v; run the test as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, "+
			"or kernel.apparmor_restrict_unprivileged_userns=0)", err)
	}
	return err
}

// onlyLoopback brings up the loopback interface of a new namespace, and checks that there is no other interface.
func onlyLoopback(t *testing.T) {
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
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(socket), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); errno != 0 {
		t.Fatalf("bring up the loopback interface: %v", errno)
	}
}
