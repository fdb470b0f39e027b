package hostile

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"signalbox/internal/testkit/must"
)

// secretVariable is in the environment of signalbox and of the bystander.
const secretVariable = "HOSTILE_SECRET"

// patience is how long the tests wait for something that must happen.
const patience = 3 * time.Minute

// scene describes a stage.
type scene struct {
	// settings are added to the configuration; agent and check are the settings of the agent and of
	// the check.
	settings, agent, check string
	// uid is the user that runs everything, if it is not the user of the test.
	uid int
	// root is the folder for everything; empty means a temporary folder.
	root string
	// linked says that the path of the home folder contains a symbolic link.
	linked bool
	// inside says that the user's checkout is a worktree inside another one.
	inside bool
	// system is what a filter of system calls simulates; empty means this one.
	system string
	// ungrouped says that the user has no control groups. Otherwise root gives a user without
	// namespaces some, as systemd does.
	ungrouped bool
	// guarded says that a process around signalbox reaps what outlives it, and reports it: see
	// playGuard.
	guarded bool
	// path are folders with more programs, before those of the system.
	path []string
}

// stage is a machine for the attack: a user with a home folder and a project, a run of signalbox on
// it, and other programs.
type stage struct {
	t testing.TB
	scene
	layout
	secret string // what the attacker must not get
	root   string

	// group is the control group in which the programs of the user start; nil means that of the
	// test.
	group *os.File
	run   *exec.Cmd
	log   string
	ended chan struct{}

	mutex    sync.Mutex
	messages strings.Builder // everything that arrived at sockets and at the terminal
	queued   []string
	settled  bool // what programs have sent has arrived
}

// newStage prepares everything, and starts all programs but signalbox.
func newStage(t testing.TB, of scene) *stage {
	t.Helper()
	s := &stage{t: t, scene: of, root: of.root, secret: "canary-" + rand.Text()}
	if s.root == "" {
		s.root = t.TempDir()
	}
	s.layout = layout{Home: filepath.Join(s.root, "home"), Project: filepath.Join(s.root, "project"), Bin: filepath.Join(s.root, "bin"),
		Run: filepath.Join(s.root, "run"), Program: program, Tag: "h" +
			strings.ToLower(rand.Text()[:6]), Mounts: namespace("mnt"),
		Terminals: map[string]string{},
		Alone:     of.uid != 0}
	s.log, s.Git = filepath.Join(s.root, "run.log"), filepath.Join(s.Project, ".git")
	repository := s.Project
	if of.inside {
		s.Project = filepath.Join(s.Project, "inside")
	}
	s.Box = filepath.Join(s.Project, ".signalbox")
	if of.linked {
		s.check(os.MkdirAll(s.Home, 0o755))
		s.check(os.Symlink("home", filepath.Join(s.root, "link")))
		s.Home = filepath.Join(s.root, "link")
	}
	shared, err := os.MkdirTemp("/dev/shm", "hostile-")
	s.check(err)
	t.Cleanup(func() { os.RemoveAll(shared) })
	s.Shared = shared
	s.write(filepath.Join(shared, "canary"), s.secret)
	for _, name := range secretFiles {
		s.write(filepath.Join(s.Home, name), s.secret+"\n")
	}
	s.write(filepath.Join(s.root, "other", "notes.txt"), s.secret+"\n")
	for _, name := range []string{".bashrc", ".gitconfig", ".ssh/known_hosts",
		".claude/settings.json", ".config/autostart/x", ".cache/x"} {
		s.write(filepath.Join(s.Home, name), "# nothing\n")
	}
	s.write(filepath.Join(s.Home, ".claude", "settings.json"), "{}\n")
	for _, by := range []string{byAgent, byCheck} {
		a := s.attacker(by, "")
		s.write(emptied(a), "text\n")
		s.write(removed(a), "text\n")
		s.write(filepath.Join(s.Bin, "replaced-by-"+by), "#!/bin/sh\n")
		s.write(filepath.Join(s.Bin, "emptied-by-"+by), "#!/bin/sh\n")
	}
	s.write(filepath.Join(s.Home, "Documents", "tool"), "#!/bin/sh\necho "+s.secret+"\n")
	s.write(filepath.Join(s.Bin, "tool"), "#!/bin/sh\n")
	s.write(filepath.Join(repository, "README.md"), "a project\n")
	s.write(filepath.Join(s.root, "plan.md"), plan)
	s.check(os.MkdirAll(s.Run, 0o755))
	for _, name := range []string{filepath.Join(s.Home, "Documents", "tool"),
		filepath.Join(s.Bin, "tool")} {
		s.check(os.Chmod(name, 0o755))
	}
	copyFile(t, os.Args[0], s.program(), 0o755)
	s.own()
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"config", "user.name", "tester"},
		{"config", "user.email", "tester@localhost"},
		{"add", "-A"}, {"commit", "-q", "-m", "first commit"}} {
		s.must("git", append([]string{"-C", repository}, args...)...)
	}
	if of.inside {
		s.must("git", "-C", repository, "switch", "-q", "-c", "other")
		s.must("git", "-C", repository, "worktree", "add", "-q", s.Project, "main")
	}
	var made struct {
		KeyFile string `json:"key_file"`
	}
	s.check(json.Unmarshal([]byte(s.must(s.Program, "init", "--json")), &made))
	s.Key = made.KeyFile
	if s.uid != 0 && s.system == withoutNamespaces && !s.ungrouped {
		s.delegate()
	}
	s.write(filepath.Join(s.Box, "cache", "canary"), "text\n")
	s.serve()
	s.configure()
	s.makeSetuid()
	s.own()
	return s
}

// plan has the task of the attacker, and one that is worked on at the same time.
const plan = `# Two tasks

#### Task attack: Attack

**Work**: attack
**Acceptance Criteria**
- [ ] it is done
**Blocked By**: none

#### Task victim: Work

**Work**: work
**Acceptance Criteria**
- [ ] it is done
**Blocked By**: none
`

// program is the file that plays all parts on this stage.
func (s *stage) program() string { return filepath.Join(s.Bin, "hostile") }

func (s *stage) attacker(by, name string) *attacker {
	return &attacker{layout: s.layout, by: by, name: name}
}

// configure writes the configuration of the box.
func (s *stage) configure() {
	s.t.Helper()
	text := fmt.Sprintf(`# %s
agent: hostile
agents:
  hostile:
    command: [%q, %s, "{role}", "{task}"]
    format: plain
%schecks:
  - name: hostile
    command: exec %s %s
%sslots: 9
grace: 1s
%s`, s.secret, s.program(), partAgent, s.scene.agent, s.program(), partCheck, s.scene.check, s.settings)
	s.write(filepath.Join(s.Box, "signalbox.yaml"),
		strings.ReplaceAll(text, "$PORT", strconv.Itoa(s.AllowedPort)))
}

func (s *stage) check(err error) {
	s.t.Helper()
	must.Succeed(s.t, err)
}

func (s *stage) write(path, text string) {
	s.t.Helper()
	s.check(os.MkdirAll(filepath.Dir(path), 0o755))
	s.check(os.WriteFile(path, []byte(text), 0o644))
}

func copyFile(t testing.TB, from, to string, mode os.FileMode) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, mode)
	}
	if err == nil {
		err = os.Chmod(to, mode)
	}
	must.Succeed(t, err)
}

// user is the user that runs everything.
func (s *stage) user() int {
	if s.uid != 0 {
		return s.uid
	}
	return os.Getuid()
}

// own gives everything on the stage to its user.
func (s *stage) own() {
	s.t.Helper()
	if s.uid == 0 {
		return
	}
	for dir := s.root; dir != os.TempDir() && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		s.check(err)
		// others must stay able to write where everybody can, as in /dev/shm
		if info.Mode().Perm()&0o055 != 0o055 {
			s.check(os.Chmod(dir, 0o755))
		}
	}
	for _, root := range []string{s.root, s.Shared} {
		s.check(filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if err == nil && filepath.Base(path) != "setuid" {
				err = os.Lchown(path, s.uid, s.uid)
			}
			return err
		}))
	}
}

// makeSetuid makes a program that belongs to another user, and runs as that user. Only root can.
func (s *stage) makeSetuid() {
	s.t.Helper()
	if os.Getuid() != 0 {
		return
	}
	path, other := filepath.Join(s.Bin, "setuid"), 0
	if s.user() == 0 {
		other = unprivileged()
	}
	copyFile(s.t, os.Args[0], path, 0o755)
	s.check(os.Chown(path, other, other))
	s.check(os.Chmod(path, 0o755|os.ModeSetuid))
}

// unprivileged returns a user without an entry in the list of users, and another one for each call:
// tests that run at the same time must not see each other's attacks.
func unprivileged() int { return 640000 + int(users.Add(1)) }

var users atomic.Int32

// command returns a command of the stage's user, in the project's folder.
func (s *stage) command(argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.t.Context(), argv[0], argv[1:]...)
	cmd.Dir = s.root
	if exists(s.Project) {
		cmd.Dir = s.Project
	}
	path := append([]string{s.Bin, filepath.Dir(s.Program)}, s.path...)
	path = append(path, "/usr/local/bin", "/usr/bin", "/bin")
	cmd.Env = []string{"HOME=" + s.Home, "PATH=" + strings.Join(path, ":"), "USER=tester",
		"LANG=C.UTF-8", "GIT_CONFIG_NOSYSTEM=1",
		secretVariable + "=" + s.secret}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if s.uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.uid)}
	}
	if s.group != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(s.group.Fd())
	}
	return cmd
}

// delegate gives the user of the stage a control group, and starts its programs in a group inside
// it.
func (s *stage) delegate() {
	s.t.Helper()
	root := "/sys/fs/cgroup"
	if !exists(filepath.Join(root, "cgroup.controllers")) {
		root = filepath.Join(root, "unified")
	}
	group := filepath.Join(root, "hostile-"+s.Tag)
	if err := os.Mkdir(group, 0o755); err != nil {
		s.t.Skipf("there are no control groups of version 2: %v", err)
	}
	inner := filepath.Join(group, "programs")
	s.check(os.Mkdir(inner, 0o755))
	for _, path := range []string{group, filepath.Join(group, "cgroup.procs"), inner,
		filepath.Join(inner, "cgroup.procs")} {
		s.check(os.Chown(path, s.uid, s.uid))
	}
	var err error
	s.group, err = os.Open(inner)
	s.check(err)
	s.t.Cleanup(func() {
		s.group.Close()
		removed := func(path string) bool {
			err := os.Remove(path)
			return err == nil || errors.Is(err, os.ErrNotExist)
		}
		// A signalbox that was killed leaves the groups of its programs, without processes, to the
		// next run.
		empty := func() bool {
			left, _ := filepath.Glob(filepath.Join(group, "signalbox-*"))
			return !slices.ContainsFunc(left, func(path string) bool { return !removed(path) })
		}
		if !within(patience, func() bool { return empty() && removed(inner) && removed(group) }) {
			left, _ := filepath.Glob(filepath.Join(group, "*", "cgroup.procs"))
			s.t.Errorf("the control group cannot be removed: %v, %s", left,
				fileText(filepath.Join(inner, "cgroup.procs")))
		}
	})
}

// must runs a program that must succeed, and returns its output.
func (s *stage) must(name string, args ...string) string {
	s.t.Helper()
	out, err := s.output(append([]string{name}, args...)...)
	must.Succeed(s.t, err)
	return out
}

func (s *stage) output(argv ...string) (string, error) {
	cmd := s.command(argv...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%v: %w\n%s", argv, err, stderr.Bytes())
	}
	return string(out), err
}

// serve starts the other programs of the machine: sockets, a terminal, and the bystander.
func (s *stage) serve() {
	s.t.Helper()
	s.Stream, s.HomeSocket, s.Datagram = filepath.Join(s.Run, "stream"),
		filepath.Join(s.Home, "socket"), filepath.Join(s.Run, "datagram")
	s.Abstract = "@" + s.Tag
	for _, address := range []string{s.Stream, s.HomeSocket, s.Abstract} {
		_, err := s.listen("unix", address)
		s.check(err)
	}
	_, err := s.receive("unixgram", s.Datagram)
	s.check(err)
	s.DatagramPort, err = s.receive("udp", "127.0.0.1:0")
	s.check(err)
	s.AllowedPort = s.samePort(func(port int) error {
		_, err := s.receive("udp", fmt.Sprintf("127.0.0.1:%d", port))
		return err
	})
	s.ForbiddenPort = s.samePort(func(port int) error {
		_, err := s.listen("tcp", fmt.Sprintf("[::1]:%d", port))
		if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
			return nil // there is no IPv6
		}
		return err
	})
	for _, path := range []string{s.Stream, s.HomeSocket, s.Datagram} {
		s.check(os.Chmod(path, 0o777))
	}
	var screen *os.File
	screen, s.Terminal = s.openTerminal()
	go s.copyMessages(screen)
	for _, by := range []string{byAgent, byCheck} {
		_, s.Terminals[by] = s.openTerminal()
	}

	cmd := s.command(s.program(), partBystander, filepath.Join(s.root, "signals"), s.Tag)
	cmd.SysProcAttr.Setpgid = true
	in, err := cmd.StdinPipe()
	s.check(err)
	out, err := cmd.StdoutPipe()
	s.check(err)
	cmd.Stderr = os.Stderr
	cmd.Cancel = in.Close // if it were killed, it could not remove its queues and shared memory
	s.check(cmd.Start())
	s.t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	s.check(json.NewDecoder(out).Decode(&s.Bystander))
	s.Bystander.Nice = s.priority()

	if handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, s.Key, 0); err == nil {
		s.KeyHandle, s.KeyHandleType = handle.Bytes(), handle.Type()
	}
}

// samePort listens on a TCP port, and opens a second socket with the same port.
func (s *stage) samePort(second func(port int) error) int {
	s.t.Helper()
	for range 100 {
		port, err := s.listen("tcp", "127.0.0.1:0")
		s.check(err)
		if second(port) == nil {
			return port
		}
	}
	s.t.Fatal("no port is free")
	return 0
}

// listen accepts connections and records what arrives. It returns the port.
func (s *stage) listen(network, address string) (port int, err error) {
	listener, err := net.Listen(network, address)
	if err != nil {
		return 0, err
	}
	s.t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go s.copyMessages(connection)
		}
	}()
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok {
		port = tcp.Port
	}
	return port, nil
}

// receive records what arrives in packets. It returns the port.
func (s *stage) receive(network, address string) (port int, err error) {
	connection, err := net.ListenPacket(network, address)
	if err != nil {
		return 0, err
	}
	s.t.Cleanup(func() { connection.Close() })
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, _, err := connection.ReadFrom(buffer)
			if err != nil {
				return
			}
			s.record(string(buffer[:n]))
		}
	}()
	if udp, ok := connection.LocalAddr().(*net.UDPAddr); ok {
		port = udp.Port
	}
	return port, nil
}

func (s *stage) copyMessages(from io.ReadCloser) {
	defer from.Close()
	for lines := bufio.NewScanner(from); lines.Scan(); {
		s.record(lines.Text())
	}
}

func (s *stage) record(message string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.messages.WriteString(strings.TrimSpace(message) + "\n")
}

// received reports whether a message has arrived.
func (s *stage) received(message string) bool {
	return s.soon(func() bool {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		return strings.Contains(s.messages.String(), message+"\n")
	})
}

// soon reports whether a condition holds. What a program has sent may still be on its way when it
// is called first.
func (s *stage) soon(condition func() bool) bool {
	if s.settled {
		return condition()
	}
	s.settled = !within(time.Second, condition)
	return !s.settled
}

// within polls for a condition that has no event to wait for. It counts how often it looked, so
// that the time in which the machine did not let it run does not count.
func within(atMost time.Duration, condition func() bool) bool {
	const pause = 5 * time.Millisecond
	for range atMost / pause {
		if condition() {
			return true
		}
		time.Sleep(pause)
	}
	return condition()
}

// inQueue reports whether a message is in the bystander's message queue.
func (s *stage) inQueue(message string) bool {
	for {
		text, err := receiveFromQueue(s.Bystander.Queue)
		if err != nil {
			break
		}
		s.queued = append(s.queued, text)
	}
	return strings.Contains(strings.Join(s.queued, "\n")+"\n", message+"\n")
}

// signalled reports whether the bystander got a signal.
func (s *stage) signalled(number int) bool {
	return s.soon(func() bool {
		return strings.Contains("\n"+fileText(filepath.Join(s.root, "signals")),
			fmt.Sprintf("\n%d\n", number))
	})
}

// bystanderNumber returns the first number after a label in a file of the bystander in /proc.
func (s *stage) bystanderNumber(file, label string) (n int) {
	_, after, _ := strings.Cut(fileText(fmt.Sprintf("/proc/%d/%s", s.Bystander.PID, file)), label)
	fmt.Sscan(after, &n)
	return n
}

// priority returns the nice value of the bystander.
func (s *stage) priority() int {
	_, after, _ := strings.Cut(fileText(fmt.Sprintf("/proc/%d/stat", s.Bystander.PID)), ") ")
	fields := strings.Fields(after)
	if len(fields) < 17 {
		return 0
	}
	n, _ := strconv.Atoi(fields[16])
	return n
}

// openTerminal opens a new terminal, and returns its master end and the path of the other end.
func (s *stage) openTerminal() (master *os.File, path string) {
	s.t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	s.check(err)
	s.t.Cleanup(func() { master.Close() })
	s.check(unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	s.check(err)
	path = fmt.Sprintf("/dev/pts/%d", n)
	if s.uid != 0 {
		s.check(os.Chown(path, s.uid, s.uid))
	}
	// while it is open, the master sees no hangup
	slave, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	s.check(err)
	s.t.Cleanup(func() { slave.Close() })
	return master, path
}

// simulate returns what comes before a command line of signalbox.
func (s *stage) simulate() []string {
	if s.system == "" {
		return nil
	}
	return []string{s.program(), partFilter, s.system}
}

// startRun starts signalbox run.
func (s *stage) startRun() {
	s.t.Helper()
	argv := append(s.simulate(), s.Program, "run", filepath.Join(s.root, "plan.md"), "--plain",
		"--no-wait")
	if s.guarded {
		argv = append([]string{s.program(), partGuard, s.ChainPipe}, argv...)
	}
	s.run = s.command(argv...)
	log, err := os.Create(s.log)
	s.check(err)
	defer log.Close()
	s.run.Stdout, s.run.Stderr = log, log
	s.run.SysProcAttr.Setpgid = true
	s.check(s.run.Start())
	s.Coordinator, s.ended = s.run.Process.Pid, make(chan struct{})
	go func() {
		defer close(s.ended)
		s.run.Wait()
	}()
	s.t.Cleanup(func() {
		s.kill()
		if s.t.Failed() {
			text := fileText(s.log)
			s.t.Logf("signalbox run: %v\n%s", s.run.ProcessState, text[max(0, len(text)-4000):])
		}
	})
}

// kill kills signalbox run and its programs.
func (s *stage) kill() {
	s.run.Process.Kill()
	<-s.ended
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if strings.HasPrefix(fileText(file), s.program()+"\x00") &&
			!strings.Contains(fileText(file), partBystander) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// await waits for a condition while signalbox run is running.
func (s *stage) await(what string, condition func() bool) {
	s.t.Helper()
	over := false
	done := within(patience, func() bool {
		select {
		case <-s.ended:
			over = true
		default:
		}
		return condition() || over
	})
	if !done || over && !condition() {
		s.t.Fatalf("signalbox run: ended %v, waiting for %s", over, what)
	}
}

// find returns the one file with a name in a tree of the box.
func (s *stage) find(name string) string {
	found, _ := filepath.Glob(filepath.Join(s.Box, "*", "*", name))
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

// attack plays the whole attack: it returns when the agent, the check and the critic have made all
// their attempts, and the critic and the victim wait.
func (s *stage) attack() {
	s.t.Helper()
	s.startAttack()
	s.await("the critic", func() bool { return s.find(criticReport) != "" })
}

// startAttack starts the run and tells the attacker where everything is.
func (s *stage) startAttack() {
	s.t.Helper()
	s.startRun()
	s.await("the victim", func() bool { return s.find(victimReport) != "" })
	data, err := os.ReadFile(s.find(victimReport))
	s.check(err)
	s.check(json.Unmarshal(data, &s.Victim))
	if s.Victim.PID = s.processOf(victimTask); s.Victim.PID == 0 {
		s.t.Fatal("the victim does not run")
	}
	for _, dir := range []string{s.Victim.Tree, s.Victim.Home, s.Victim.Temp} {
		path := filepath.Join(dir, victimFile(s.Tag))
		s.write(path, s.secret)
		s.t.Cleanup(func() { os.Remove(path) })
		if s.uid != 0 {
			s.check(os.Chown(path, s.uid, s.uid))
		}
	}
	s.check(writeJSON(filepath.Join(s.Bin, layoutName), s.layout))
	s.t.Cleanup(func() { // files in folders that all users share
		for _, folder := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
			left, _ := filepath.Glob(filepath.Join(folder, s.Tag+"-*"))
			for _, path := range left {
				os.Remove(path)
			}
		}
	})
}

// processOf returns the developer of a task, or 0.
func (s *stage) processOf(task string) int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if fileText(file) == strings.Join([]string{s.program(), partAgent, "developer", task, ""},
			"\x00") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			return pid
		}
	}
	return 0
}

// finish lets the victim and the critic end, and waits until the run is complete.
func (s *stage) finish() {
	s.t.Helper()
	s.write(filepath.Join(s.Bin, finishName), "")
	s.awaitEnd()
	if code := s.run.ProcessState.ExitCode(); code != 0 {
		s.t.Errorf("signalbox run: exit status %d", code)
	}
}

// awaitEnd waits until signalbox run has ended.
func (s *stage) awaitEnd() {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.t.Fatal("signalbox run did not end")
	}
}

// outcomes returns what a program reported.
func (s *stage) outcomes(by string) (all []outcome) {
	s.t.Helper()
	var text string
	switch by {
	case byAgent:
		text = fileText(filepath.Join(filepath.Dir(s.Victim.Tree), attackTask, agentReport))
	case byCritic:
		text = fileText(s.find(criticReport))
	case byCheck:
		text = s.checkOutput()
	}
	for decoder := json.NewDecoder(strings.NewReader(text)); ; {
		var o outcome
		if err := decoder.Decode(&o); err == io.EOF {
			return all
		} else if err != nil {
			s.t.Fatalf("the report of the %s: %v in %q", by, err, text)
		}
		all = append(all, o)
	}
}

// checkOutput returns what the check of the attacker's task printed.
func (s *stage) checkOutput() string {
	s.t.Helper()
	for line := range strings.Lines(s.must(s.Program, "ledger", "tail", "-n", "0", "--json")) {
		var event struct {
			Type, Work string
			Data       struct {
				Rows []struct{ Output string }
			}
		}
		s.check(json.Unmarshal([]byte(line), &event))
		if event.Work == attackTask && len(event.Data.Rows) > 0 {
			return s.must(s.Program, "blob", "get", event.Data.Rows[0].Output)
		}
	}
	s.t.Fatal("the check has not reported")
	return ""
}
