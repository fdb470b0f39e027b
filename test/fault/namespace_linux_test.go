package fault

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"signalbox/internal/core/box"
)

// namespaceVariable is set in a test process that runs in its own namespaces, whose mounts and
// limits no other process sees. Its value is an empty folder to use as a mount point.
const namespaceVariable = "SIGNALBOX_FAULT_NAMESPACE"

// notPermitted is the message of a process in the namespace that lacks a permission.
const notPermitted = "not permitted on this machine"

// inNamespace runs a test in a process with its own user and mount namespaces, and passes it a
// mount point.
func inNamespace(t *testing.T, do func(t *testing.T, dir string)) {
	t.Helper()
	if dir := os.Getenv(namespaceVariable); dir != "" {
		// Mounts must not propagate to the parent namespace.
		checkPermitted(t, syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
		do(t, dir)
		return
	}
	self, err := os.Executable()
	check(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), namespaceVariable+"="+t.TempDir(), "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL, // when the thread that started it ends
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	if cmd.Process == nil || strings.Contains(string(out), notPermitted) {
		skipOrFail(t, "this test needs a user namespace that may mount: run the tests as root, in a container with --privileged (%v)\n%s", err, out)
	}
	if err != nil {
		t.Fatalf("in the namespace: %v\n%s", err, out)
	}
}

// checkPermitted fails the test with notPermitted if err is not nil.
func checkPermitted(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", notPermitted, err)
	}
}

// mount mounts a file system until the test ends.
func mount(t *testing.T, source, dir, kind string, flags uintptr, data string) {
	t.Helper()
	checkPermitted(t, syscall.Mount(source, dir, kind, flags, data))
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// smallDisk returns a site without a box whose project is on a file system of the given size.
func smallDisk(t *testing.T, dir, size string) *site {
	t.Helper()
	mount(t, "tmpfs", dir, "tmpfs", 0, "size="+size)
	s := emptySite(t)
	s.project = dir
	s.box = filepath.Join(dir, box.FolderName)
	return s
}
