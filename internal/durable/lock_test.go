package durable

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/internal/testkit/must"
)

// childVariable makes this test binary run one of children, as another process.
const childVariable = "DURABLE_TEST_CHILD"

func TestMain(m *testing.M) {
	do, isChild := children[os.Getenv(childVariable)]
	if !isChild {
		os.Exit(m.Run())
	}
	if err := do(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var children = map[string]func(dir string) error{
	"hold":  holdLock,
	"count": countUp,
	"full":  runOutOfRoom,
}

// child starts another process.
func child(t *testing.T, what, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), childVariable+"="+what, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

// holdLock acquires the lock, prints a line, and exits at the end of its input, without releasing
// the lock.
func holdLock(dir string) error {
	if _, err := Acquire(context.Background(), filepath.Join(dir, "lock")); err != nil {
		return err
	}
	fmt.Println("locked")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "ended"), nil, 0o600)
}

// holder starts a process that holds the lock.
func holder(t *testing.T, dir string) (cmd *exec.Cmd, stdin io.Closer) {
	t.Helper()
	cmd = child(t, "hold", dir)
	stdin, err := cmd.StdinPipe()
	must.Succeed(t, err)
	stdout, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "locked\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	return cmd, stdin
}

func TestLockWaitsForAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	cmd, stdin := holder(t, dir)
	asking := make(chan struct{})
	acquired := make(chan error)
	go func() {
		close(asking)
		lock, err := Acquire(context.Background(), filepath.Join(dir, "lock"))
		if err == nil {
			if _, early := os.Stat(filepath.Join(dir, "ended")); early != nil {
				err = fmt.Errorf("the other process still holds the lock: %w", early)
			}
			lock.Release()
		}
		acquired <- err
	}()
	<-asking
	stdin.Close()
	if err := <-acquired; err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestLockIsReleasedWhenHolderIsKilled(t *testing.T) {
	dir := t.TempDir()
	cmd, _ := holder(t, dir)
	must.Succeed(t, cmd.Process.Kill())
	lock, err := Acquire(context.Background(), filepath.Join(dir, "lock"))
	must.Succeed(t, err)
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
	cmd.Wait()
}

const rounds = 100

// countUp increments a number in a file, which fails if two processes do it at the same time.
func countUp(dir string) error {
	for range rounds {
		lock, err := Acquire(context.Background(), filepath.Join(dir, "lock"))
		if err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, "number"))
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "number"), []byte(strconv.Itoa(n+1)),
			0o600); err != nil {
			return err
		}
		if err := lock.Release(); err != nil {
			return err
		}
	}
	return nil
}

func TestOneAtATime(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "number"), []byte("0"), 0o600))
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if err := child(t, "count", dir).Run(); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() { // and in one process
			if err := countUp(dir); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	checkFolder(t, dir, map[string]string{"lock": "", "number": strconv.Itoa(4 * rounds)})
}

// TestTryLockFor acquires a lock that is released in time, and stops waiting for one that is not.
func TestTryLockFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "lock")
		open := func() *os.File {
			f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
			must.Succeed(t, err)
			t.Cleanup(func() { f.Close() })
			return f
		}
		holder, other := open(), open()
		try := func(file *os.File, want bool, after time.Duration) {
			t.Helper()
			start := time.Now()
			if locked, err := TryLockFor(file, time.Second); err != nil || locked != want ||
				time.Since(start) != after {
				t.Errorf("locked: %t, %v, after %v", locked, err, time.Since(start))
			}
		}
		try(holder, true, 0)
		try(other, false, time.Second)
		given := make(chan error, 1)
		time.AfterFunc(990*time.Millisecond, func() { given <- UnlockFile(holder) })
		try(other, true, time.Second)
		if err := <-given; err != nil {
			t.Error(err)
		}
	})
}

func TestLockInMissingFolder(t *testing.T) {
	if _, err := Acquire(context.Background(),
		filepath.Join(t.TempDir(), "gone", "lock")); err == nil {
		t.Error("a lock in a missing folder")
	}
}
