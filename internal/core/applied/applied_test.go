package applied

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/durable"
	"signalbox/internal/testkit/must"
)

// childVariable makes this test binary add events to a file, as another process.
const childVariable = "APPLIED_TEST_CHILD"

func TestMain(m *testing.M) {
	if name := os.Getenv(childVariable); name != "" {
		if err := addInChild(name, os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// addInChild adds the events of history a from one to another, one at a time, and prints a line
// after each. It does not close the file.
func addInChild(name, from, to string) error {
	m, err := Open(name, box)
	if err != nil {
		return err
	}
	first, _ := strconv.Atoi(from)
	last, err := strconv.Atoi(to)
	if err != nil {
		return err
	}
	events := history("a", last)
	for i := first - 1; i < last; i++ {
		if err := m.Add(events[i : i+1]); err != nil {
			return err
		}
		fmt.Println(events[i].Seq)
	}
	_, err = bufio.NewReader(os.Stdin).ReadString('\n') // until it is killed
	return err
}

func child(t *testing.T, name string, from, to int) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], strconv.Itoa(from), strconv.Itoa(to))
	cmd.Env = append(os.Environ(), childVariable+"="+name, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	must.Succeed(t, err)
	t.Cleanup(func() { stdin.Close() })
	stdout, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	return cmd, bufio.NewScanner(stdout)
}

func open(t *testing.T, name string) *Memory {
	t.Helper()
	m, err := Open(name, box)
	must.Succeed(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

func newFile(t *testing.T) string { return filepath.Join(t.TempDir(), FileName) }

// checkRemembered checks that the file has exactly these events.
func checkRemembered(t *testing.T, name string, want []signalbox.Event) {
	t.Helper()
	id, got, err := Read(name)
	if diff := cmp.Diff(rememberAll(want), got); err != nil || id != box || diff != "" {
		t.Errorf("box %q, %v, events (-want +got):\n%s", id, err, diff)
	}
}

func TestAdd(t *testing.T) {
	name := newFile(t)
	if id, events, err := Read(name); id != "" || events != nil || err != nil {
		t.Errorf("without a file: %q, %v, %v", id, events, err)
	}
	m := open(t, name)
	checkRemembered(t, name, nil)
	all := history("a", 1000)
	for _, step := range []struct{ from, to int }{{0, 1}, {1, 3}, {3, 250}, {250, 270}, {240, 265}, {10, 20}, {270, 1000}, {900, 1000}, {0, 700}} {
		must.Succeed(t, m.Add(all[step.from:step.to]))
	}
	checkRemembered(t, name, all[1000-Size:])
	for seq, want := range map[uint64]uint64{0: 769, 743: 1000, 744: 745, 998: 999, 999: 1000,
		1000: 0, 1500: 0} {
		if next, ok := m.Next(seq); ok != (want != 0) || next.Seq != want && ok {
			t.Errorf("after event %d: %v, %t; want %d", seq, next, ok, want)
		}
	}
	if err := m.Add(history("b", 1000)[999:]); !errors.Is(err, ErrOtherEvent) {
		t.Errorf("another history: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	checkRemembered(t, name, all[1000-Size:])
}

func TestOtherBoxIsRefused(t *testing.T) {
	name := newFile(t)
	open(t, name)
	m, err := Open(name, "box-other")
	if m != nil || signalbox.CodeOf(err) != signalbox.CodeUnverified ||
		!strings.Contains(err.Error(), box) || !strings.Contains(err.Error(), "box-other") {
		t.Errorf("memory %v, error %v", m, err)
	}
}

// TestDamagedFileIsUsed opens files of any length and with a damaged header, and adds to them.
func TestDamagedFileIsUsed(t *testing.T) {
	all := history("a", 300)
	for what, damage := range map[string]func(name string) error{
		"empty":                   func(name string) error { return os.Truncate(name, 0) },
		"cut off in the header":   func(name string) error { return os.Truncate(name, 20) },
		"cut off in an event":     func(name string) error { return os.Truncate(name, 1000) },
		"header overwritten":      func(name string) error { return overwrite(name, 3) },
		"first event overwritten": func(name string) error { return overwrite(name, slotSize+3) },
	} {
		t.Run(what, func(t *testing.T) {
			name := newFile(t)
			must.Succeed(t, open(t, name).Add(all[:200]))
			must.Succeed(t, damage(name))
			m := open(t, name)
			must.Succeed(t, m.Add(all[100:]))
			_, got, err := Read(name)
			if err != nil || got[len(got)-1] != remember(&all[299]) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

func overwrite(name string, at int64) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte("damage"), at)
	return errors.Join(err, f.Close())
}

// TestKilledRightAfterAdd kills a process that has added an event and has not closed the file.
func TestKilledRightAfterAdd(t *testing.T) {
	name := newFile(t)
	cmd, lines := child(t, name, 1, 300)
	for lines.Scan() && lines.Text() != "300" {
	}
	must.Succeed(t, cmd.Process.Kill())
	cmd.Wait()
	checkRemembered(t, name, history("a", 300)[300-Size:])
}

// TestProcessesShareTheFile lets processes add the same events at their own pace, from different
// places on.
func TestProcessesShareTheFile(t *testing.T) {
	name := newFile(t)
	const last = 700
	all := history("a", last)
	var running sync.WaitGroup
	for _, from := range []int{1, 200, 500} {
		running.Go(func() {
			cmd, lines := child(t, name, from, last)
			for lines.Scan() && lines.Text() != strconv.Itoa(last) {
			}
			cmd.Process.Kill()
			cmd.Wait()
		})
	}
	for range 2 { // and goroutines of one process
		running.Go(func() {
			m, err := Open(name, box)
			if err != nil {
				t.Error(err)
				return
			}
			for i := 0; i < last; i += 7 {
				if err := m.Add(all[i:min(i+7, last)]); err != nil {
					t.Error(err)
				}
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	checkRemembered(t, name, all[last-Size:])
}

// TestSuspendedProcess adds while another process holds the lock and does not release it.
func TestSuspendedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := newFile(t)
		m := open(t, name)
		all := history("a", 2)
		must.Succeed(t, m.Add(all[:1]))
		holder, err := os.OpenFile(name, os.O_RDWR, 0)
		must.Succeed(t, err)
		defer holder.Close()
		must.Succeed(t, durable.LockFile(holder))
		if err := m.Add(all[:1]); err != nil { // it is there already
			t.Error(err)
		}
		if err := m.Add(all); err == nil ||
			!strings.Contains(err.Error(), "another process has locked") {
			t.Errorf("error %v", err)
		}
	})
}

func TestReplace(t *testing.T) {
	name := newFile(t)
	m := open(t, name)
	lost := history("a", 300)
	must.Succeed(t, m.Add(lost))
	rest := lost[:200]
	must.Succeed(t, m.Replace(rest, name+".lost"))
	checkRemembered(t, name, lost[:200])
	checkRemembered(t, name+".lost", lost[300-Size:])
	if err := m.Replace(rest, name+".lost"); err == nil {
		t.Error("a copy was overwritten")
	}
}
