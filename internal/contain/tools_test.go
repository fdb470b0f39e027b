package contain

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"signalbox/internal/config"
	"signalbox/internal/durable"
	"signalbox/internal/sandbox"
	"signalbox/internal/testkit/must"
)

// openTools opens tools whose temporary files are in a folder of the test.
func openTools(t *testing.T, m *machine) *Tools {
	t.Helper()
	tools, err := m.OpenTools(m.Project)
	must.Succeed(t, err)
	return tools
}

// die releases the lock of tools as the system does when their process is killed.
func die(t *testing.T, tools *Tools) {
	t.Helper()
	must.Succeed(t, errors.Join(durable.UnlockFile(tools.lock), tools.lock.Close()))
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// useTemp makes a folder of the machine the system's folder for temporary files.
func (m *machine) useTemp(name string) {
	m.t.Helper()
	must.Succeed(m.t, os.MkdirAll(m.path(name), 0o700))
	m.t.Setenv("TMPDIR", m.path(name))
	m.t.Setenv("TMP", m.path(name)) // on Windows
}

func TestTools(t *testing.T) {
	m := newMachine(t, "")
	m.useTemp("temp")
	m.Box = ""
	tools := openTools(t, m)
	p, err := tools.Prepare(config.Sandbox{Mode: sandbox.Warn}, nil)
	must.Succeed(t, err)
	for _, folder := range []string{p.home, p.Policy.Temp} {
		if !exists(folder) {
			t.Errorf("there is no folder %s", folder)
		}
		if within(filepath.Join(tools.folder, toolsLock), folder) {
			t.Errorf("a tool could remove the lock in %s", folder)
		}
	}
	must.Succeed(t, tools.Close())
	if left, err := os.ReadDir(m.path("temp")); len(left) > 0 || err != nil {
		t.Errorf("Close left %v, %v", left, err)
	}
}

func TestToolsOfKilledProcesses(t *testing.T) {
	m := newMachine(t, "")
	m.useTemp("temp")
	outside := m.write("outside/file", "")
	in := func(tools *Tools,
		name string) string {
		return filepath.Join(tools.folder, toolsTemp, name)
	}
	check := func(err error) {
		t.Helper()
		must.Succeed(t, err)
	}

	dead, live := openTools(t, m), openTools(t, m)
	check(os.MkdirAll(in(dead, "read-only/folder"), 0o700))
	check(os.Chmod(in(dead, "read-only"), 0o500))
	check(os.Symlink(m.path("outside"), in(dead, "link")))
	check(os.Chmod(m.path("outside"), 0o500))
	defer os.Chmod(m.path("outside"), 0o700)
	die(t, dead)

	// What looks like a leftover, but is not one.
	kept := map[string]string{
		"no lock":            m.write("temp/signalbox-tools-1/tmp/file", ""),
		"another name":       m.write("temp/tools-1/tmp/file", ""),
		"a file":             m.write("temp/signalbox-tools-2", ""),
		"a folder as lock":   m.write("temp/signalbox-tools-3/lock/file", ""),
		"the end of a link":  m.write("target/tmp/file", ""),
		"a file in a link":   m.write("target/lock", ""),
		"a lock that is one": m.write("temp/signalbox-tools-4/tmp/file", ""),
		"of a live process":  live.folder,
	}
	m.write("temp/tools-1/lock", "")
	check(os.Symlink(m.path("target"), m.path("temp/signalbox-tools-5")))
	check(os.Symlink(outside, m.path("temp/signalbox-tools-4/lock")))
	other := m.write("temp/signalbox-tools-6/tmp/file", "")
	m.write("temp/signalbox-tools-6/lock", "")
	if os.Chown(m.path("temp/signalbox-tools-6"), 12345, -1) == nil { // only root can
		kept["of another user"] = other
	}

	tools := openTools(t, m)
	if exists(dead.folder) {
		t.Error("the folder of a killed process is still there")
	}
	for what, name := range kept {
		if !exists(name) {
			t.Errorf("%s: %s was removed", what, name)
		}
	}
	if info, err := os.Stat(m.path("outside")); err != nil || info.Mode().Perm() != 0o500 ||
		!exists(outside) {
		t.Errorf("a link was followed: %v, %v", info, err)
	}
	check(errors.Join(live.Close(), tools.Close()))
}
