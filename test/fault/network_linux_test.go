package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// networkVariable is set in a test process that runs in namespaces of its own. Its value is the
// Unix socket of a PostgreSQL server, or "-" if the test needs none.
const networkVariable = "SIGNALBOX_FAULT_NETWORK"

// inNetwork runs a test in a process that has its own network, mounts and process ids. Whatever the
// test starts and sets up there disappears with that process, even if it is killed. start starts a
// server outside, and returns its Unix socket, which can be reached from every network; nil starts
// none.
func inNetwork(t *testing.T, start func(testing.TB) string,
	do func(t *testing.T, n *network, postgres string)) {
	t.Helper()
	if postgres := os.Getenv(networkVariable); postgres != "" {
		do(t, newNetwork(t), postgres)
		return
	}
	requireTools(t, "ip", "nsenter", "git", "flock")
	postgres := "-"
	if start != nil {
		postgres = start(t)
	}
	temporary, err := os.MkdirTemp("", "sb-") // short, because the names of Unix sockets are
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(temporary) })
	self, err := os.Executable()
	check(t, err)
	cmd := exec.CommandContext(t.Context(), self, self, "-test.run=^"+t.Name()+"$", "-test.v",
		"-test.timeout=30m")
	cmd.Env = append(os.Environ(), childVariable+"=init", networkVariable+"="+postgres, "TMPDIR="+
		temporary, "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL, // when the thread that started it ends
	}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(),
			Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(),
			Size: 1}}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	if cmd.Process == nil || strings.Contains(string(out), notPermitted) {
		skipOrFail(t, "this test needs namespaces and a network bridge: run the tests as root, in a container with --privileged (%v)\n%s", err, out)
	}
	if err != nil {
		t.Fatalf("in the namespaces: %v\n%s", err, out)
	}
	t.Logf("in the namespaces:\n%s", out)
}

// sharedPostgres returns the socket of the PostgreSQL server of all tests.
func sharedPostgres(t testing.TB) string { return postgresServer.Need(t).Socket() }

// initChild is the first process of a process namespace. It runs the program in its arguments, and
// waits for the processes that others leave behind.
func initChild(_ context.Context, args []string) error {
	err := errors.Join(syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("proc", "/proc", "proc", 0, ""))
	if err != nil {
		return fmt.Errorf("%s: %w", notPermitted, err)
	}
	os.Unsetenv(childVariable)
	process, err := os.StartProcess(args[0], args,
		&os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return err
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return err
		case pid == process.Pid && (status.Exited() || status.Signaled()):
			if status.ExitStatus() != 0 {
				return fmt.Errorf("the test ended with status %d", status.ExitStatus())
			}
			return nil
		}
	}
}

// network is a switch to which machines are connected. The test itself is connected too.
type network struct {
	machines []*machine
}

// machine is a network namespace with one interface.
type machine struct {
	t       testing.TB
	address string
	link    string // the end of its cable at the switch
	path    string // of its namespace

	mu    sync.Mutex
	conns []net.Conn // that it relays; guarded by mu
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "ip",
			args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: ip %v: %v: %s", notPermitted, args, err, out)
		}
	}
	ip("link", "set", "lo", "up")
	ip("link", "add", "switch", "type", "bridge")
	ip("address", "add", "10.77.0.254/24", "dev", "switch")
	ip("link", "set", "switch", "up")
	return &network{}
}

// add connects a new machine.
func (n *network) add(t testing.TB) *machine {
	t.Helper()
	number := len(n.machines) + 1
	m := &machine{t: t, address: fmt.Sprintf("10.77.0.%d", number),
		link: fmt.Sprintf("cable%d", number)}
	space, err := newNamespace()
	check(t, err)
	t.Cleanup(func() { unix.Close(space) })
	m.path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), space)
	run(t, "ip", "link", "add", m.link, "type", "veth", "peer", "name", "eth0", "netns", m.path)
	run(t, "ip", "link", "set", m.link, "master", "switch", "up")
	m.run("ip", "link", "set", "lo", "up")
	m.run("ip", "address", "add", m.address+"/24", "dev", "eth0")
	m.run("ip", "link", "set", "eth0", "up")
	n.machines = append(n.machines, m)
	return m
}

// newNamespace returns a file descriptor of a new network namespace.
func newNamespace() (space int, err error) {
	err = onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		space, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	})
	return space, err
}

// onOwnThread calls f on a thread that may be changed, because it ends afterwards.
func onOwnThread(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock
		result <- f()
	}()
	return <-result
}

// run runs a program that must succeed.
func run(t testing.TB, name string, args ...string) {
	t.Helper()
	// also when the test ends
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

// run runs a program on the machine.
func (m *machine) run(name string, args ...string) {
	m.t.Helper()
	run(m.t, "nsenter", append([]string{"--net=" + m.path, "--", name}, args...)...)
}

// enter makes a command run on the machine.
func (m *machine) enter(cmd *exec.Cmd) {
	nsenter, err := exec.LookPath("nsenter")
	check(m.t, err)
	cmd.Args = append([]string{"nsenter", "--net=" + m.path, "--", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = nsenter
}

// unplug pulls the cable, and plug puts it back.
func (m *machine) unplug() { run(m.t, "ip", "link", "set", m.link, "down") }
func (m *machine) plug()   { run(m.t, "ip", "link", "set", m.link, "up") }

// cut loses everything that two machines send to each other, and mend ends that. Others still reach
// both.
func cut(a, b *machine) {
	// to a hardware address that does not exist
	for _, from := range [][2]*machine{{a, b}, {b, a}} {
		from[0].run("ip", "neighbour", "replace", from[1].address, "lladdr", "02:00:00:00:00:99",
			"dev", "eth0", "nud", "permanent")
	}
}

func mend(a, b *machine) {
	for _, from := range [][2]*machine{{a, b}, {b, a}} {
		from[0].run("ip", "neighbour", "del", from[1].address, "dev", "eth0")
	}
}

// relay accepts connections on the machine and connects them to a Unix socket of the test, until
// the test ends.
func (m *machine) relay(port int, socket string) {
	m.t.Helper()
	var listener net.Listener
	check(m.t, onOwnThread(func() error {
		space, err := unix.Open(m.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(space)
		if err := unix.Setns(space, unix.CLONE_NEWNET); err != nil {
			return err
		}
		listener, err = net.Listen("tcp", fmt.Sprintf("%s:%d", m.address, port))
		return err
	}))
	m.t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			m.mu.Lock()
			m.conns = append(m.conns, from)
			m.mu.Unlock()
			go connect(from, "unix", socket)
		}
	}()
}

// reset breaks all connections that the machine has relayed so far.
func (m *machine) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	m.conns = nil
}

// connect copies bytes between a connection and an address in both directions until either side is
// closed.
func connect(from net.Conn, network, address string) {
	defer from.Close()
	to, err := net.DialTimeout(network, address, 10*time.Second)
	if err != nil {
		return
	}
	defer to.Close()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			io.Copy(pair[0], pair[1])
			done <- struct{}{}
		}()
	}
	<-done
}
