package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroups is where control groups are mounted.
const cgroups = "/sys/fs/cgroup"

// cpuPeriod is the period in which a group may use its share of the processors, in microseconds.
const cpuPeriod = 100_000

// Group is a control group: the system limits what its processes use together.
type Group struct {
	dirs []string // one for version 2, one for each controller for version 1
	home []string // for each, that of this process
}

// NewGroup creates an empty group with limits. It fails if the system grants this user no groups, which is usual for a login without a
// systemd session of its own.
func NewGroup(name string, limits Limits) (*Group, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	for _, create := range []func([]byte, string, Limits) (*Group, error){newUnifiedGroup, newSplitGroup} {
		var g *Group
		if g, err = create(own, name, limits); err == nil {
			return g, nil
		}
	}
	return nil, err
}

// setting is a file of a group and what to write to it.
type setting struct{ controller, file, value string }

// newUnifiedGroup creates a group of version 2: beside the group of this process, or above. A group that has processes itself cannot have
// groups with limits in it.
func newUnifiedGroup(own []byte, name string, limits Limits) (*Group, error) {
	path, found := ownGroup(own, "")
	var mounted unix.Statfs_t
	if err := unix.Statfs(cgroups, &mounted); err != nil || mounted.Type != unix.CGROUP2_SUPER_MAGIC || !found {
		return nil, errors.New("there are no control groups of version 2")
	}
	var settings []setting
	add := func(value int64, controller, file, text string) {
		if value > 0 {
			settings = append(settings, setting{controller, file, text})
		}
	}
	add(limits.Memory, "memory", "memory.max", strconv.FormatInt(limits.Memory, 10))
	add(limits.Memory, "memory", "memory.oom.group", "0")
	add(int64(limits.Processes), "pids", "pids.max", strconv.Itoa(limits.Processes))
	add(int64(limits.CPU), "cpu", "cpu.max", fmt.Sprintf("%d %d", limits.CPU*cpuPeriod/1000, cpuPeriod))
	for parent := filepath.Dir(path); ; parent = filepath.Dir(parent) {
		g := &Group{[]string{filepath.Join(cgroups, parent, name)}, []string{filepath.Join(cgroups, path)}}
		if err := g.create(settings, true); err == nil || parent == "/" {
			return g.orRemove(err)
		}
	}
}

// newSplitGroup creates a group of version 1 for each controller that is needed.
func newSplitGroup(own []byte, name string, limits Limits) (*Group, error) {
	g := &Group{}
	for _, s := range []struct {
		setting
		limit int64
	}{
		{setting{"memory", "memory.limit_in_bytes", strconv.FormatInt(limits.Memory, 10)}, limits.Memory},
		{setting{"pids", "pids.max", strconv.Itoa(limits.Processes)}, int64(limits.Processes)},
		{setting{"cpu", "cpu.cfs_quota_us", strconv.Itoa(limits.CPU * cpuPeriod / 1000)}, int64(limits.CPU)},
	} {
		if s.limit == 0 {
			continue
		}
		path, found := ownGroup(own, s.controller)
		if !found {
			return g.orRemove(fmt.Errorf("there is no control group for %s", s.controller))
		}
		part := &Group{dirs: []string{filepath.Join(cgroups, s.controller, path, name)}}
		g.dirs, g.home = append(g.dirs, part.dirs...), append(g.home, filepath.Join(cgroups, s.controller, path))
		if err := part.create([]setting{s.setting}, false); err != nil {
			return g.orRemove(err)
		}
	}
	return g, nil
}

// ownGroup returns the path of this process's group for a controller of version 1, or "" for version 2.
func ownGroup(own []byte, controller string) (path string, found bool) {
	for line := range bytes.Lines(own) {
		fields := strings.SplitN(strings.TrimSpace(string(line)), ":", 3)
		if len(fields) == 3 && (controller == "" && fields[0] == "0" && fields[1] == "" || controller != "" && hasElement(fields[1], controller)) {
			return fields[2], true
		}
	}
	return "", false
}

func hasElement(list, element string) bool { return strings.Contains(","+list+",", ","+element+",") }

// create creates the group's folder and writes its settings.
func (g *Group) create(settings []setting, unified bool) error {
	dir := g.dirs[0]
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, s := range settings {
		err := writeExisting(filepath.Join(dir, s.file), s.value)
		if errors.Is(err, fs.ErrNotExist) && unified {
			err = fmt.Errorf("the controller %s is not available in %s", s.controller, filepath.Dir(dir))
		}
		if err != nil {
			g.Remove()
			return err
		}
	}
	return nil
}

// orRemove returns the group, or removes what exists of it if err is not nil.
func (g *Group) orRemove(err error) (*Group, error) {
	if err != nil {
		g.Remove()
		return nil, err
	}
	return g, nil
}

// Add moves a process into the group. What it starts from then on is in the group too.
func (g *Group) Add(pid int) error { return move(pid, g.dirs) }

// Release moves a process, but not what it started, from the group into that of this process.
func (g *Group) Release(pid int) error { return move(pid, g.home) }

func move(pid int, groups []string) error {
	for _, dir := range groups {
		if err := writeExisting(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return err
		}
	}
	return nil
}

// writeExisting writes to a file that the system must have made.
func writeExisting(name, text string) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// Exceeded returns the limit that processes of the group ran into: memory, processes, or "".
func (g *Group) Exceeded() string {
	for _, dir := range g.dirs {
		for _, source := range []struct{ file, field, limit string }{
			{"memory.events", "oom_kill", "memory"}, {"memory.oom_control", "oom_kill", "memory"}, {"pids.events", "max", "processes"},
		} {
			if count(filepath.Join(dir, source.file), source.field) > 0 {
				return source.limit
			}
		}
	}
	return ""
}

// count returns the number after a name in a file of lines with a name and a number.
func count(file, name string) int {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if field, number, _ := strings.Cut(strings.TrimSpace(line), " "); field == name {
			n, _ := strconv.Atoi(number)
			return n
		}
	}
	return 0
}

// Remove removes the group after its processes have ended. The system may take a moment to notice that.
func (g *Group) Remove() {
	for _, dir := range g.dirs {
		for pause := time.Millisecond; pause < time.Second; pause *= 2 {
			if err := os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
				break
			}
			time.Sleep(pause)
		}
	}
}
