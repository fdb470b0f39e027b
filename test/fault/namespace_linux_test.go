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

// insideVariable tells a test that it runs inside a world of its own, with mounts and limits that nobody else sees. Its
// value is an empty folder to mount something on.
const insideVariable = "SIGNALBOX_FAULT_INSIDE"

// cannot is how a process inside says that the machine does not let it.
const cannot = "the machine does not allow it"

// inside runs a test in a process with namespaces of its own. It gets a folder to mount on.
func inside(t *testing.T, do func(t *testing.T, dir string)) {
	t.Helper()
	if dir := os.Getenv(insideVariable); dir != "" {
		// What is mounted here must not be seen elsewhere.
		allowed(t, syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
		do(t, dir)
		return
	}
	self, err := os.Executable()
	check(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), insideVariable+"="+t.TempDir(), "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL, // when the thread ends that started it
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	if cmd.Process == nil || strings.Contains(string(out), cannot) {
		mayNotSkip(t, "this needs a user namespace with the right to mount: run the tests as root, in a container with --privileged (%v)\n%s", err, out)
	}
	if err != nil {
		t.Fatalf("inside: %v\n%s", err, out)
	}
}

func allowed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", cannot, err)
	}
}

// mount mounts something until the test ends.
func mount(t *testing.T, source, dir, kind string, flags uintptr, data string) {
	t.Helper()
	allowed(t, syscall.Mount(source, dir, kind, flags, data))
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// smallDisk returns a site without a box whose project is on a disk of its own.
func smallDisk(t *testing.T, dir, size string) *site {
	t.Helper()
	mount(t, "tmpfs", dir, "tmpfs", 0, "size="+size)
	s := emptySite(t)
	s.project = dir
	s.box = filepath.Join(dir, box.FolderName)
	return s
}
