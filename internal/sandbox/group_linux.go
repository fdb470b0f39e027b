package sandbox

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroups is where control groups are mounted: those of version 2, or a folder for each controller
// of version 1. Systems with both have version 2, without controllers, in the folder unified.
const cgroups = "/sys/fs/cgroup"

// cpuPeriod is the period in which a group may use its share of the processors, in microseconds.
const cpuPeriod = 100_000

// Group is a control group: the system limits what its processes use together, and can end all of
// them.
type Group struct {
	dirs []string // one for version 2, and one for each controller of version 1
	home []string // for each, that of this process
	// folder is the one of dirs through which the processes can be ended; nil means none.
	folder *os.File
	// unified means that folder is of version 2, and the only one: a process can be started in it.
	unified bool
}

// Kinds are the control groups that NewGroup tries.
type Kinds int

const (
	// Unified are groups of version 2. A program starts in one without delay.
	Unified Kinds = iota
	// AllGroups are also those of version 1, to which processes must be moved. That takes about 10
	// ms.
	AllGroups
)

// NewGroup creates an empty group with limits, whose processes can be ended together. It fails if
// the system grants this user no such group, which is usual for a login without a systemd session
// of its own. The caller calls Remove.
func NewGroup(limits Limits, kinds Kinds) (*Group, error) {
	name := groupPrefix + rand.Text()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	g, err := newUnifiedGroup(own, name, limits)
	if err == nil || kinds == Unified {
		return g, err
	}
	// With limits of version 1, a group of version 2 can still end the processes.
	if g, err = newUnifiedGroup(own, name, Limits{}); err != nil {
		g = &Group{}
	}
	g.unified = false
	return g.orRemove(g.split(own, name, limits))
}

// setting is a file of a group and what to write to it.
type setting struct{ controller, file, value string }

// newUnifiedGroup creates a group of version 2: beside the group of this process, or above, or in
// it if only that was delegated. A group that has processes itself cannot have groups with limits
// in it.
func newUnifiedGroup(own []byte, name string, limits Limits) (*Group, error) {
	path, found := ownGroup(own, "")
	root := unifiedRoot()
	if !found || root == "" {
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
	add(int64(limits.CPU), "cpu", "cpu.max", fmt.Sprintf("%d %d", limits.CPU*cpuPeriod/1000,
		cpuPeriod))
	parents := []string{}
	for parent := path; parent != "/"; {
		parent = filepath.Dir(parent)
		parents = append(parents, parent)
	}
	var err error
	for _, parent := range append(parents, path) {
		g := &Group{unified: true}
		if err = g.create(filepath.Join(root, parent, name), filepath.Join(root, path),
			settings); err == nil {
			return g.orRemove(g.open())
		}
	}
	return nil, err
}

// unifiedRoot returns where control groups of version 2 are mounted, "" if they are not.
func unifiedRoot() string {
	for _, root := range []string{cgroups, cgroups + "/unified"} {
		var mounted unix.Statfs_t
		if unix.Statfs(root, &mounted) == nil && mounted.Type == unix.CGROUP2_SUPER_MAGIC {
			return root
		}
	}
	return ""
}

// split adds a group of version 1 for each controller that is needed. The controller pids is needed
// to end the processes, unless a group of version 2 does.
func (g *Group) split(own []byte, name string, limits Limits) error {
	processes := setting{"pids", "pids.max", "max"}
	if limits.Processes > 0 {
		processes.value = strconv.Itoa(limits.Processes)
	}
	for _, s := range []struct {
		setting
		needed bool
	}{
		{setting{"memory", "memory.limit_in_bytes", strconv.FormatInt(limits.Memory, 10)},
			limits.Memory > 0},
		{setting{"cpu", "cpu.cfs_quota_us", strconv.Itoa(limits.CPU * cpuPeriod / 1000)},
			limits.CPU > 0},
		{processes, limits.Processes > 0 || g.folder == nil},
	} {
		if !s.needed {
			continue
		}
		path, found := ownGroup(own, s.controller)
		if !found {
			return fmt.Errorf("there is no control group for %s", s.controller)
		}
		root := filepath.Join(cgroups, s.controller, path)
		if err := g.create(filepath.Join(root, name), root, []setting{s.setting}); err != nil {
			return err
		}
	}
	if g.folder == nil { // the last one is that of pids
		return g.open()
	}
	return nil
}

// ownGroup returns the path of this process's group for a controller of version 1, or "" for
// version 2.
func ownGroup(own []byte, controller string) (path string, found bool) {
	for line := range bytes.Lines(own) {
		fields := strings.SplitN(strings.TrimSpace(string(line)), ":", 3)
		if len(fields) == 3 && (controller == "" && fields[0] == "0" && fields[1] == "" ||
			controller != "" && hasElement(fields[1], controller)) {
			return fields[2], true
		}
	}
	return "", false
}

func hasElement(list,
	element string) bool {
	return strings.Contains(","+list+",", ","+element+",")
}

// create creates a folder of the group and writes its settings. home is the group of this process
// there.
func (g *Group) create(dir, home string, settings []setting) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, s := range settings {
		err := writeExisting(filepath.Join(dir, s.file), s.value)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("the controller %s is not available in %s", s.controller,
				filepath.Dir(dir))
		}
		if err != nil {
			return errors.Join(err, os.Remove(dir))
		}
	}
	g.dirs, g.home = append(g.dirs, dir), append(g.home, home)
	return nil
}

// open opens the last folder, through which the processes can be ended.
func (g *Group) open() (err error) {
	g.folder, err = os.Open(g.dirs[len(g.dirs)-1])
	return err
}

// orRemove returns the group, or removes what exists of it if err is not nil.
func (g *Group) orRemove(err error) (*Group, error) {
	if err != nil {
		g.Remove()
		return nil, err
	}
	return g, nil
}

// Folder returns the folder through which the processes of the group can be ended, for KillGroup.
// It is closed by Remove.
func (g *Group) Folder() *os.File { return g.folder }

// Unified reports whether a process can be started in the group, with the descriptor of Folder.
// Otherwise Add must move it.
func (g *Group) Unified() bool { return g.unified }

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
			{"memory.events", "oom_kill", "memory"}, {"memory.oom_control", "oom_kill", "memory"},
			{"pids.events", "max", "processes"},
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

// GroupProcesses returns the processes of a group. folder is the descriptor of its Folder.
func GroupProcesses(folder int) (pids []int, err error) {
	fd, err := unix.Openat(folder, "cgroup.procs", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "cgroup.procs")
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	for field := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 { // 0 is one in another namespace
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// KillGroup kills all processes of a group, this one included if it is in it. folder is the
// descriptor of its Folder. Killed processes take a moment to disappear. Without cgroup.kill, which
// is new in Linux 5.14 and in version 2, the group may have no more processes from now on, so that
// none of them can start another, and each is killed; then the caller must repeat it until there
// are none.
func KillGroup(folder int) error {
	err := writeAt(folder, "cgroup.kill", "1")
	if err == nil {
		return nil
	}
	if limited := writeAt(folder, "pids.max", "0"); limited != nil {
		return errors.Join(err, limited)
	}
	pids, err := GroupProcesses(folder)
	for _, pid := range pids {
		if pid != os.Getpid() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	return err
}

// writeAt writes to a file in a folder, which the system must have made.
func writeAt(folder int, name, text string) error {
	fd, err := unix.Openat(folder, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(text))
	return errors.Join(err, unix.Close(fd))
}

// Remove removes the group after its processes have ended. The system may take a moment to notice
// that.
func (g *Group) Remove() {
	if g.folder != nil {
		g.folder.Close()
	}
	for _, dir := range g.dirs {
		for pause := time.Millisecond; pause < time.Second; pause *= 2 {
			if err := os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
				break
			}
			time.Sleep(pause)
		}
	}
}

// groupPrefix begins the names of all groups.
const groupPrefix = "signalbox-"

// OpenGroup opens a group that another process made and could not remove, by the path of its
// Folder. It fails with fs.ErrNotExist if the group is gone.
func OpenGroup(path string) (*Group, error) {
	if !strings.HasPrefix(path, cgroups+"/") ||
		!strings.HasPrefix(filepath.Base(path), groupPrefix) || path != filepath.Clean(path) {
		return nil, fmt.Errorf("%q is not a control group of signalbox", path)
	}
	g := &Group{dirs: []string{path}}
	return g, g.open()
}
