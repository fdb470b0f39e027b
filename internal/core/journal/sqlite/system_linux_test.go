package sqlite

// Tests that need Linux: full disks, limits and missing permissions.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/journaltest"
	"signalbox/internal/testkit/must"
)

func systemChildren() map[string]childFunc {
	return map[string]childFunc{"full": fillDisk, "limited": exceedFileSize}
}

// TestFullDisk fills a small disk of its own.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may mount a disk")
	}
	cmd := child(t, "full", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	runChild(t, cmd)
}

func fillDisk(ctx context.Context, args []string) error {
	dir := args[0]
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		return fmt.Errorf("%w: mount: %w", errSkip, err)
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
		return err
	}
	j, err := Open(ctx, dir, &Options{Create: true})
	if err != nil {
		return err
	}
	stored, appendErr := uint64(0), error(nil)
	for appendErr == nil {
		if appendErr = j.Append(ctx, stored, eventsAfter(stored, 1, 20_000)); appendErr == nil {
			stored++
		}
	}
	n, err := countEvents(ctx, j)
	if err != nil || n != stored || n == 0 {
		return fmt.Errorf("%d events are there, %d were stored: %w", n, stored, err)
	}
	_, putErr := j.PutBlob(ctx, strings.NewReader(strings.Repeat("blob", 1<<18)))
	saveErr := j.SaveSnapshot(ctx, journal.Snapshot{State: make([]byte, 1<<20)})
	for _, err := range []error{appendErr, putErr, saveErr} {
		forPeople := (*signalbox.Error)(nil)
		if !errors.As(err, &forPeople) || forPeople.Hint != hintFull {
			return fmt.Errorf("wrong error on a full disk: %v", err)
		}
	}
	if !errors.Is(appendErr, journal.ErrNotStored) {
		return fmt.Errorf("append does not say that nothing was stored: %w", appendErr)
	}
	if left, err := os.ReadDir(filepath.Join(dir, blobTempFolder)); err != nil || len(left) != 0 {
		return fmt.Errorf("the blob left %v, %w", left, err)
	}

	if err := os.Remove(ballast); err != nil {
		return err
	}
	if err := grow(ctx, j, 3, 20_000); err != nil {
		return fmt.Errorf("after there was room again: %w", err)
	}
	if err := j.Close(); err != nil {
		return err
	}
	return withJournal(ctx, dir, func(j *Journal) error {
		if n, err := countEvents(ctx, j); err != nil || n != stored+3 {
			return fmt.Errorf("after reopening %d events, want %d: %w", n, stored+3, err)
		}
		return nil
	})
}

// TestFileSizeLimit fails writes in the middle of COMMIT, with an error that leaves open what
// happened.
func TestFileSizeLimit(t *testing.T) {
	runChild(t, child(t, "limited", t.TempDir()))
}

func exceedFileSize(ctx context.Context, args []string) error {
	j, err := Open(ctx, args[0], &Options{Create: true})
	if err != nil {
		return err
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	free := limit.Cur
	limit.Cur = 300_000
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	stored, appendErr := uint64(0), error(nil)
	for appendErr == nil {
		if appendErr = j.Append(ctx, stored, eventsAfter(stored, 1, 20_000)); appendErr == nil {
			stored++
		}
	}
	if errors.Is(appendErr, journal.ErrNotStored) || errors.Is(appendErr, journal.ErrConflict) ||
		!errors.Is(appendErr, errUncertain) {
		return fmt.Errorf("the outcome of a failed COMMIT is not unknown: %w", appendErr)
	}
	if forPeople := (*signalbox.Error)(nil); !errors.As(appendErr, &forPeople) ||
		forPeople.Hint != hintDisk {
		return fmt.Errorf("wrong hint: %w", appendErr)
	}
	limit.Cur = free
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if n, err := countEvents(ctx, j); err != nil || n != stored {
		return fmt.Errorf("%d events are there, %d were stored: %w", n, stored, err)
	}
	if err := grow(ctx, j, 3, 20_000); err != nil {
		return fmt.Errorf("after the limit was lifted: %w", err)
	}
	if n, err := countEvents(ctx, j); err != nil || n != stored+3 {
		return fmt.Errorf("%d events are there, %d were stored: %w", n, stored+3, err)
	}
	return j.Close()
}

// asOther calls f with the file permissions of another user. Only the calling thread loses those of
// root.
func asOther(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err := unix.Setfsuid(65534); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

// publicFolder returns a folder that every user can access.
func publicFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sqlitejournal")
	must.Succeed(t, err)
	t.Cleanup(func() {
		os.Chmod(dir, 0o700)
		os.RemoveAll(dir)
	})
	return dir
}

// protect lets every user read the box, and only root write it.
func protect(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d files: %v", len(files), err)
	}
	for _, file := range files {
		must.Succeed(t, os.Chmod(file, 0o444))
	}
	must.Succeed(t, os.Chmod(dir, 0o555))
}

func TestWithoutWritePermission(t *testing.T) {
	closed, live, killed, copied, secret := publicFolder(t), publicFolder(t), publicFolder(t),
		publicFolder(t), publicFolder(t)
	for _, dir := range []string{closed, secret} {
		must.Succeed(t, withJournal(t.Context(), dir,
			func(j *Journal) error { return journaltest.Contend(t.Context(), j, "x", 5) }))
	}
	must.Succeed(t, journaltest.Contend(t.Context(), open(t, live, nil), "x", 5))
	for _, dir := range []string{killed, copied} {
		journaltest.KillAfter(t, child(t, "append", dir), 5)
	}
	must.Succeed(t, os.Remove(filepath.Join(copied, "ledger.db-shm")))
	for _, dir := range []string{closed, live, killed, copied, secret} {
		protect(t, dir)
	}
	must.Succeed(t, os.Chmod(filepath.Join(secret, ledgerFile), 0))
	asOther(t, func() {
		for _, dir := range []string{closed, live, killed} {
			tryWithoutRights(t, dir)
		}
		_, err := Open(t.Context(), copied, &Options{ReadOnly: true})
		wantError(t, err, "copied while it was in use")
		_, err = Open(t.Context(), secret, &Options{ReadOnly: true})
		wantError(t, err, "permissions")
		_, err = Open(t.Context(), filepath.Join(closed, "..", filepath.Base(closed)),
			&Options{Create: true})
		wantError(t, err, "permissions", os.ErrPermission)
	})
}

func tryWithoutRights(t *testing.T, dir string) {
	t.Helper()
	_, err := Open(t.Context(), dir, nil)
	wantError(t, err, "permissions", os.ErrPermission)
	j, err := Open(t.Context(), dir, &Options{ReadOnly: true})
	if err != nil {
		t.Error(err)
		return
	}
	defer j.Close()
	events, err := j.Read(t.Context(), 0, 1000)
	if head, headErr := j.Head(t.Context()); err != nil || headErr != nil || len(events) < 5 ||
		int(head) != len(events) {
		t.Errorf("%d events, %v; head %d, %v", len(events), err, head, headErr)
	}
	for e, err := range j.Watch(t.Context(), 0) {
		if err != nil || e.Seq == 5 {
			if err != nil {
				t.Error(err)
			}
			break
		}
	}
}

// TestPermissionLost removes the permission to write while the journal is open.
func TestPermissionLost(t *testing.T) {
	dir := publicFolder(t)
	must.Succeed(t, withJournal(t.Context(), dir,
		func(j *Journal) error { return grow(t.Context(), j, 2, 10) }))
	must.Succeed(t, os.Chmod(filepath.Join(dir, ledgerFile), 0o444))
	for _, name := range []string{wakeFile, queueFile} {
		must.Succeed(t, os.Chmod(filepath.Join(dir, name), 0o666))
	}
	must.Succeed(t, os.Chmod(dir, 0o777))
	asOther(t, func() {
		j, err := Open(t.Context(), dir, nil)
		if err != nil {
			wantError(t, err, "permissions")
			return
		}
		defer j.Close()
		wantError(t, j.Append(t.Context(), 2, eventsAfter(2, 1, 10)), "permissions",
			journal.ErrNotStored)
	})
}
