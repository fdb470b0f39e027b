//go:build unix

package fault

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

const hintPermissions = "check the owner and the permissions of the box and its files"

// unprivileged is the numeric id of the user nobody on Linux and macOS.
const unprivileged = 65534

// dropPrivileges makes commands run as a user to whom file permissions apply. If the tests run as
// root, that is the user nobody, who becomes the owner of the site.
func (s *site) dropPrivileges(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	root := filepath.Dir(s.home)
	for dir := root; dir != os.TempDir() && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		check(t, err)
		if info.Mode().Perm()&0o055 != 0o055 { // others must stay able to write where everybody can
			check(t, os.Chmod(dir, 0o755))
		}
	}
	s.each(t, root, func(name string,
		_ fs.DirEntry) error {
		return os.Lchown(name, unprivileged, unprivileged)
	})
	s.prepare = func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivileged,
			Gid: unprivileged}}
	}
}

// each calls do for every file and folder below root.
func (s *site) each(t *testing.T, root string, do func(name string, entry fs.DirEntry) error) {
	t.Helper()
	check(t, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return do(name, entry)
	}))
}

// chmodBox sets the modes of all files and folders of the box.
func (s *site) chmodBox(t *testing.T, file, folder fs.FileMode) {
	t.Helper()
	s.each(t, s.box, func(name string, entry fs.DirEntry) error {
		if entry.IsDir() {
			return os.Chmod(name, folder)
		}
		return os.Chmod(name, file)
	})
}

// checkReadOnly checks that commands that write fail, and that those that read succeed.
func (s *site) checkReadOnly(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{{"work", "open", "more"},
		{"work", "claim", "by-hand", "--role", "developer"}, {"ledger", "checkpoint"}} {
		s.mustFail(t, 1, "*no permission to open or write the *: *", hintPermissions, args...)
	}
	if v := s.verifyCommand(t, 0); v.Events != tamperEvents || v.Checkpoint.Size == 0 {
		t.Errorf("verify printed %s", asJSON(v))
	}
	for _, args := range [][]string{{"work", "list"}, {"work", "show", "by-hand"},
		{"ledger", "tail"}, {"ledger", "prove", "7"}} {
		s.must(t, args...)
	}
}

// TestReadOnlyFolder removes the write permission of the box. It can still be read and verified.
func TestReadOnlyFolder(t *testing.T) {
	s := newLedger(t)
	s.dropPrivileges(t)
	s.chmodBox(t, 0o400, 0o500)
	s.checkReadOnly(t)
	s.chmodBox(t, 0o600, 0o700)
	s.checkIntact(t)
}

// TestBoxOfAnotherUser runs commands on a box that another user owns.
func TestBoxOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can create a box of another user")
	}
	s := newLedger(t)
	s.dropPrivileges(t)
	s.chmodBox(t, 0o600, 0o700)
	s.each(t, s.box, func(name string, _ fs.DirEntry) error { return os.Lchown(name, 0, 0) })
	for _, args := range [][]string{{"work", "open", "more"}, {"work", "list"},
		{"ledger", "verify"}} {
		s.mustFail(t, 1, "*no permission to open or write the *: *", hintPermissions, args...)
	}
	s.prepare = nil
	s.checkIntact(t)
}
