package durable

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"signalbox/internal/testkit/must"
)

// mountedVariable names the file that this test mounts over another one, in a namespace.
const mountedVariable = "SIGNALBOX_TEST_MOUNTED"

// A file that is mounted over another one, as containers do with a file of the host, cannot be
// replaced. It is overwritten.
func TestRewriteMounted(t *testing.T) {
	if folder := os.Getenv(mountedVariable); folder != "" {
		target := filepath.Join(folder, "target")
		must.Succeed(t, syscall.Mount(filepath.Join(folder, "file"), target, "", syscall.MS_BIND,
			""))
		must.Succeed(t, Rewrite(target, []byte("new")))
		return
	}
	folder := t.TempDir()
	for name, text := range map[string]string{"file": "a long old text", "target": "covered"} {
		must.Succeed(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestRewriteMounted$")
	cmd.Env = append(os.Environ(), mountedVariable+"="+folder)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
	if out, err := cmd.CombinedOutput(); err != nil {
		if _, ran := err.(*exec.ExitError); !ran {
			t.Skipf("there are no user namespaces: %v", err)
		}
		t.Fatalf("%v\n%s", err, out)
	}
	for name, want := range map[string]string{"file": "new", "target": "covered"} {
		if text, err := os.ReadFile(filepath.Join(folder, name)); string(text) != want {
			t.Errorf("%s has %q, %v, want %q", name, text, err, want)
		}
	}
}
