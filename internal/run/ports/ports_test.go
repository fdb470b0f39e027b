package ports

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"signalbox/internal/testkit/must"
)

// reserve reserves ports for a folder in a register.
func reserve(t *testing.T, register, folder string, count int) int {
	t.Helper()
	must.Succeed(t, os.MkdirAll(folder, 0o700))
	first, err := Reserve(register, folder, count)
	must.Succeed(t, err)
	return first
}

func TestReservePorts(t *testing.T) {
	dir := t.TempDir()
	register, a, b := filepath.Join(dir, "r", "ports.json"), filepath.Join(dir, "a"),
		filepath.Join(dir, "b")
	first := reserve(t, register, a, 10)
	// A server of the folder itself does not change what it gets.
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(first)))
	if err != nil {
		t.Fatalf("the port %d is not free: %v", first, err)
	}
	defer l.Close()
	if again := reserve(t, register, a, 10); again != first {
		t.Errorf("got %d, then %d", first, again)
	}
	other := reserve(t, register, b, 10)
	if other < first+10 && first < other+10 {
		t.Errorf("two folders got %d and %d", first, other)
	}
	must.Succeed(t, os.Remove(a))
	reserve(t, register, filepath.Join(dir, "c"), 10)
	ranges, err := readRegister(register)
	if err != nil || len(ranges) != 2 {
		t.Errorf("after a folder was removed, the register has %v, %v", ranges, err)
	}
	if bigger := reserve(t, register, b, 20); bigger < 20000 || bigger+20 > 32000 {
		t.Errorf("a larger range begins at %d", bigger)
	}
}

// TestReservePortsAvoidsOthers occupies the ports that a folder would get.
func TestReservePortsAvoidsOthers(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "tree")
	first := reserve(t, filepath.Join(dir, "one.json"), folder, 10)
	for _, host := range []string{"127.0.0.1", ""} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(first+7)))
		if err != nil {
			t.Skip("another program took the port:", err)
		}
		second := reserve(t, filepath.Join(dir, host+"other.json"), folder, 10)
		l.Close()
		if second == first {
			t.Errorf("got %d to %d, although a program listens on %q %d", first, first+9, host,
				first+7)
		}
	}
}

func TestReservePortsAtOnce(t *testing.T) {
	dir := t.TempDir()
	register := filepath.Join(dir, "ports.json")
	var mu sync.Mutex
	var all []portRange
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			folder := filepath.Join(dir, strconv.Itoa(i))
			err := os.Mkdir(folder, 0o700)
			first, failed := Reserve(register, folder, 5)
			if err := errors.Join(err, failed); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, other := range all {
				if other.overlaps(first, 5) {
					t.Errorf("%d overlaps %d", first, other.First)
				}
			}
			all = append(all, portRange{folder, first, 5})
		})
	}
	group.Wait()
}

func TestReservePortsWithoutRoom(t *testing.T) {
	dir := t.TempDir()
	register := filepath.Join(dir, "ports.json")
	reserve(t, register, filepath.Join(dir, "a"), 1)
	err := withRegister(register, func([]portRange) ([]portRange, error) {
		return []portRange{{dir, firstPort, lastPort - firstPort}}, nil
	})
	must.Succeed(t, err)
	if _, err := Reserve(register, filepath.Join(dir, "b"), 10); !errors.Is(err, ErrNoPorts) {
		t.Errorf("got %v", err)
	}
	if Free(register, 10) || !Free(filepath.Join(dir, "none.json"), 10) {
		t.Error("Free is wrong")
	}
}

// A register that cannot be decoded is not an empty one: the ports in it belong to worktrees that
// exist.
func TestDamagedRegister(t *testing.T) {
	dir := t.TempDir()
	register := filepath.Join(dir, "ports.json")
	for _, text := range []string{"", "{", `{"folder": "a"}`, `[{"folder": 1}]`} {
		must.Succeed(t, os.WriteFile(register, []byte(text), 0o600))
		if _, err := Reserve(register, dir, 10); err == nil ||
			!strings.Contains(err.Error(), register) {
			t.Errorf("%q: %v", text, err)
		}
		if now, err := os.ReadFile(register); err != nil || string(now) != text {
			t.Errorf("%q was changed to %q, %v", text, now, err)
		}
		if Free(register, 10) {
			t.Errorf("%q: ports are free", text)
		}
	}
}
