package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"signalbox/internal/sandbox"
)

func init() {
	children["bind"] = bindPort
	children["call"] = makeCall
}

// child makes a program of this test run one of its functions, which the policy allows it to read.
func (f *fixture) child(what, argument string) {
	f.spec.Argv = []string{os.Args[0], argument}
	f.spec.Env = append(f.spec.Env, childVariable+"="+what, "GORACE=atexit_sleep_ms=0")
	f.spec.Sandbox.Read = append(f.spec.Sandbox.Read, filepath.Dir(os.Args[0]))
}

// bindPort binds a TCP socket to a port that the system chooses, and prints the result.
func bindPort(string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	fmt.Println(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	return nil
}

// makeCall makes a system call whose arguments are invalid, and prints the result.
func makeCall(number string) error {
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	const invalid = ^uintptr(0)
	_, _, errno := unix.Syscall(uintptr(n), invalid, 0, 0)
	fmt.Println(int(errno))
	return nil
}

// With the network off, Landlock alone lets a program bind no port, not even one that the system
// chooses. The filter of system calls would refuse the socket before that, so this test does not
// use it.
func TestLandlockRefusesToBind(t *testing.T) {
	needSupport(t, false)
	for name, tt := range map[string]struct {
		network sandbox.Network
		want    string
	}{
		"off": {sandbox.Network{Off: true}, unix.EACCES.Error() + "\n"},
		// so that the test proves something
		"ports": {sandbox.Network{Ports: []uint16{1}}, "<nil>\n"},
	} {
		f := newFixture(t, "")
		f.child("bind", "")
		support := sandbox.Detect()
		support.Seccomp = false
		f.spec.simulated, f.spec.Sandbox.Mode, f.spec.Sandbox.Network = &support, sandbox.Warn,
			tt.network
		if _, out := f.run(t); out != tt.want {
			t.Errorf("%s: %q, want %q", name, out, tt.want)
		}
	}
}

// The filter refuses calls that mount, also new ones, and does not know those that came after it.
func TestFilteredCalls(t *testing.T) {
	for number, want := range map[uintptr]unix.Errno{
		unix.SYS_OPEN_TREE:      unix.EPERM,
		unix.SYS_OPEN_TREE_ATTR: unix.EPERM,
		unix.SYS_LISTNS:         unix.ENOSYS,
		1 << 20:                 unix.ENOSYS,
		unix.SYS_CLOSE:          unix.EBADF,
	} {
		for _, namespaces := range []bool{true, false} {
			needSupport(t, namespaces)
			f := newFixture(t, "")
			f.child("call", strconv.Itoa(int(number)))
			if !namespaces {
				f.withoutNamespaces()
			}
			if _, out := f.run(t); out != fmt.Sprintln(int(want)) {
				t.Errorf("call %d, namespaces %v: %q, want %d", number, namespaces, out, int(want))
			}
		}
	}
}
