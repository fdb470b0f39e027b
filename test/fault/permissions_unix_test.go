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

const hintRights = "check the owner and the permissions of the box and its files"

// nobody is a user without rights. Its number is the same everywhere that matters.
const nobody = 65534

// asNobody makes commands run by a user for whom rights count: if the tests run as root, by nobody, who then owns the site.
func (s *site) asNobody(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	root := filepath.Dir(s.home)
	for dir := root; dir != os.TempDir() && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		check(t, os.Chmod(dir, 0o755))
	}
	s.each(t, root, func(name string, _ fs.DirEntry) error { return os.Lchown(name, nobody, nobody) })
	s.prepare = func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
}

func (s *site) each(t *testing.T, root string, do func(name string, entry fs.DirEntry) error) {
	t.Helper()
	check(t, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return do(name, entry)
	}))
}

// setRights gives all files of the box one mode and all folders another.
func (s *site) setRights(t *testing.T, file, folder fs.FileMode) {
	t.Helper()
	s.each(t, s.box, func(name string, entry fs.DirEntry) error {
		if entry.IsDir() {
			return os.Chmod(name, folder)
		}
		return os.Chmod(name, file)
	})
}

// onlyReads checks that commands that write are refused, and those that read are not.
func (s *site) onlyReads(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{{"work", "open", "more"}, {"work", "claim", "by-hand", "--role", "developer"}, {"ledger", "checkpoint"}} {
		s.mustFail(t, 1, "*no permission to open or write the *: *", hintRights, args...)
	}
	if v := s.verifyCommand(t, 0); v.Events != tamperEvents || v.Checkpoint == nil {
		t.Errorf("verify says %s", printed(v))
	}
	for _, args := range [][]string{{"work", "list"}, {"work", "show", "by-hand"}, {"ledger", "tail"}, {"ledger", "prove", "7"}} {
		s.must(t, args...)
	}
}

// TestReadOnlyFolder takes the right to write the box away. It can still be read and verified.
func TestReadOnlyFolder(t *testing.T) {
	s := newLedger(t)
	s.asNobody(t)
	s.setRights(t, 0o400, 0o500)
	s.onlyReads(t)
	s.setRights(t, 0o600, 0o700)
	s.mustBeAsBefore(t)
}

// TestFolderOfAnother looks at a box that belongs to somebody else.
func TestFolderOfAnother(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("this takes root, who can make something that others may not open")
	}
	s := newLedger(t)
	s.asNobody(t)
	s.setRights(t, 0o600, 0o700)
	s.each(t, s.box, func(name string, _ fs.DirEntry) error { return os.Lchown(name, 0, 0) })
	for _, args := range [][]string{{"work", "open", "more"}, {"work", "list"}, {"ledger", "verify"}} {
		s.mustFail(t, 1, "*no permission to open or write the *: *", hintRights, args...)
	}
	s.prepare = nil
	s.mustBeAsBefore(t)
}
