package sandbox

import (
	"bufio"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"signalbox/internal/testkit/must"
)

// KillGroup ends all processes of a group, also of version 1, which has no cgroup.kill: there the
// first look ends them only if none of them can start another.
func TestKillGroup(t *testing.T) {
	own, err := os.ReadFile("/proc/self/cgroup")
	must.Succeed(t, err)
	unique := groupPrefix + rand.Text()
	for name, create := range map[string]func(*Group) error{
		"version 1": func(g *Group) error { return g.split(own, unique, Limits{}) },
		"version 2": func(g *Group) error {
			made, err := newUnifiedGroup(own, unique, Limits{})
			if err == nil {
				*g = *made
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := &Group{}
			if err := create(g); err != nil {
				t.Skip(err)
			}
			t.Cleanup(g.Remove)
			// It starts others when it is in the group.
			cmd := exec.Command("sh", "-c",
				`read -r _; for i in 1 2 3 4 5; do (while :; do sleep 1000; done) & done; echo; wait`)
			in, noInput := cmd.StdinPipe()
			out, err := cmd.StdoutPipe()
			if noInput != nil || err != nil {
				t.Fatal(noInput, err)
			}
			must.Succeed(t, cmd.Start())
			t.Cleanup(func() {
				cmd.Process.Kill()
				cmd.Wait()
				left, _ := GroupProcesses(int(g.Folder().Fd()))
				for _, pid := range left {
					unix.Kill(pid, unix.SIGKILL)
				}
			})
			must.Succeed(t, g.Add(cmd.Process.Pid))
			if _, err := in.Write([]byte("\n")); err != nil {
				t.Fatal(err)
			}
			if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			folder := int(g.Folder().Fd())
			if pids, err := GroupProcesses(folder); len(pids) < 6 || err != nil {
				t.Fatalf("processes %v, %v", pids, err)
			}
			must.Succeed(t, KillGroup(folder))
			cmd.Process.Signal(unix.SIGTERM) // without effect if it was killed
			cmd.Wait()
			if by := cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(); by != unix.SIGKILL {
				t.Fatalf("it was not killed, but ended by %v", by)
			}
			if most, err := os.ReadFile(filepath.Join(g.Folder().Name(),
				"pids.max")); name == "version 1" && string(most) != "0\n" {
				t.Errorf("the group may have %q processes: %v", most, err)
			}
			if _, err := OpenGroup(filepath.Dir(g.Folder().Name())); err == nil {
				t.Error("a group of others can be opened")
			}
			for { // until the system has ended them, which it does not report
				pids, err := GroupProcesses(folder)
				must.Succeed(t, err)
				if len(pids) == 0 {
					break
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	folder := filepath.Join(t.TempDir(), groupPrefix+"test")
	must.Succeed(t, os.Mkdir(folder, 0o700))
	for _, path := range []string{cgroups, folder, cgroups + "/../../.." + folder} {
		if _, err := OpenGroup(path); err == nil {
			t.Errorf("%s is not a group, but can be opened", path)
		}
	}
}
