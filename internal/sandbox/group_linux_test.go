package sandbox

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
	"time"
)

// KillGroup ends all processes of a group, also of version 1, which has no cgroup.kill: there the first look ends them only if none of them can
// start another.
func TestKillGroup(t *testing.T) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for name, create := range map[string]func(*Group) error{
		"version 1": func(g *Group) error { return g.split(own, groupPrefix+"test", Limits{}) },
		"version 2": func(g *Group) error {
			made, err := newUnifiedGroup(own, groupPrefix+"test", Limits{})
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
			cmd := exec.Command("sh", "-c", `read -r _; for i in 1 2 3 4 5; do (while :; do sleep 1000; done) & done; echo; wait`)
			in, noInput := cmd.StdinPipe()
			out, err := cmd.StdoutPipe()
			if noInput != nil || err != nil {
				t.Fatal(noInput, err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				cmd.Process.Kill()
				cmd.Wait()
			})
			if err := g.Add(cmd.Process.Pid); err != nil {
				t.Fatal(err)
			}
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
			if err := KillGroup(folder); err != nil {
				t.Fatal(err)
			}
			cmd.Wait()
			for { // until the system has ended them, which it does not report
				pids, err := GroupProcesses(folder)
				if err != nil {
					t.Fatal(err)
				}
				if len(pids) == 0 {
					break
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	if _, err := OpenGroup(cgroups); err == nil {
		t.Error("a group of others can be opened")
	}
}
