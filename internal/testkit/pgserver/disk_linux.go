package pgserver

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// SmallDisk puts the tables that are created from now on into a file system of its own, of a size
// such as "4m". Mounting it needs the rights of root: without them the test is skipped, and fails
// in CI.
func (s *Server) SmallDisk(t testing.TB, size string) *Disk {
	t.Helper()
	dir := filepath.Join(s.Dir, "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0777,size="+size)
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatalf("this test must run in CI, as root in a container with --privileged: mount: %v",
			err)
	case err != nil:
		t.Skipf("this test must run as root, in a container with --privileged: mount: %v", err)
	}
	t.Cleanup(func() {
		s.Kill() // it uses the disk
		syscall.Unmount(dir, syscall.MNT_DETACH)
	})
	tables := filepath.Join(dir, "tables")
	if err := errors.Join(os.Mkdir(tables, 0o700), giveAway(tables)); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"CREATE TABLESPACE disk LOCATION '" + tables + "'",
		"ALTER DATABASE postgres SET default_tablespace = disk"} {
		if _, err := s.Query(statement); err != nil {
			t.Fatal(err)
		}
	}
	return &Disk{filepath.Join(dir, "filler")}
}

// Disk is a small file system.
type Disk struct{ filler string }

// Fill leaves no space on the disk.
func (d *Disk) Fill() error {
	f, err := os.OpenFile(d.filler, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 4096); ; {
		if _, err := f.Write(block); err != nil {
			if errors.Is(err, syscall.ENOSPC) {
				return nil
			}
			return err
		}
	}
}

// Free ends Fill.
func (d *Disk) Free() error {
	err := os.Remove(d.filler)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
