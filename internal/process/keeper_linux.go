package process

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"signalbox/internal/sandbox"
)

// A keeper is this program, started once more for every program that Start starts. It restricts a thread of its own, starts the program
// from it, and stays outside the sandbox until the program and everything that it started have ended. What the program leaves behind
// becomes a child of the keeper, whatever it does to hide; in a PID namespace the system itself ends it with the keeper.
//
// The keeper is connected with its parent by a socket. If the parent dies, the socket ends, and the keeper kills everything at once. The
// two exchange lines of JSON: order, then messages in both directions.

// keeperName is the name under which this program is started as a keeper.
const keeperName = "signalbox-keeper"

// keeperSocket is the descriptor of the socket.
const keeperSocket = 3

// killRequest is the signal that makes a keeper kill everything. SIGKILL would end the keeper alone.
const killRequest = unix.SIGUSR2

// order says what a keeper should do.
type order struct {
	// File is the program; empty means none: the keeper only prepares the sandbox, which shows whether it can.
	File string
	Argv []string
	Dir  string
	// Sandbox may be nil.
	Sandbox *sandbox.Policy
	Support sandbox.Support
	// Watched are limits that the system does not enforce. The keeper looks from time to time.
	Watched sandbox.Limits
}

// message is what a keeper and its parent tell each other.
type message struct {
	// Started, from the keeper, reports that the program runs. Err reports that it does not, and Errno why.
	Started bool          `json:",omitempty"`
	Err     string        `json:",omitempty"`
	Errno   syscall.Errno `json:",omitempty"`
	// Exited, from the keeper, is the wait status of the program. The keeper then waits for End. Exceeded is the limit for which the
	// keeper killed it.
	Exited   *syscall.WaitStatus `json:",omitempty"`
	Exceeded string              `json:",omitempty"`
	// Signal, to the keeper, is sent to the program and everything that it started.
	Signal unix.Signal `json:",omitempty"`
	// End, to the keeper, ends what the program left behind: SIGTERM, Grace, SIGKILL.
	End   bool          `json:",omitempty"`
	Grace time.Duration `json:",omitempty"`
}

// A keeper must start quickly and without the help of the program's main function, which in tests is another one.
func init() {
	if len(os.Args) == 1 && os.Args[0] == keeperName {
		runtime.LockOSThread() // the main thread, which is never restricted
		unix.Exit(keep())      // at once: os.Exit would wait for a second under the race detector
	}
}

// keeper is the state of a keeper.
type keeper struct {
	out     *json.Encoder
	first   bool // of a PID namespace: it sees only what the program started
	program int  // its pid; zero if it has ended
	watched sandbox.Limits
	// exceeded is the watched limit that was exceeded.
	exceeded string
}

// keep runs the keeper and returns its exit status.
func keep() int {
	// What this program inherited by chance would be a way out of the sandbox: an open folder leads to everything around it.
	if err := unix.CloseRange(keeperSocket, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return 1
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 1
	}
	// Do not ignore them: the program would inherit that.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGPIPE)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, killRequest)
	socket := os.NewFile(keeperSocket, "socket")
	k := &keeper{out: json.NewEncoder(socket), first: os.Getpid() == 1}

	in := bufio.NewReader(socket)
	var o order
	line, err := in.ReadBytes('\n')
	if err != nil {
		return 1 // the parent died: the program never runs
	}
	if err := json.Unmarshal(line, &o); err != nil {
		return 1
	}
	k.watched = o.Watched
	children := make(chan child, 16)
	if err := k.start(o, children); err != nil {
		if k.program != 0 {
			k.killAll(children)
		}
		report := message{Err: err.Error()}
		_ = errors.As(err, &report.Errno)
		_ = k.out.Encode(report)
		return 1
	}
	_ = k.out.Encode(message{Started: true})
	if o.File == "" {
		return 0
	}
	messages := make(chan message)
	go receive(in, messages)
	k.watch(children, messages, signals)
	return 0
}

// receive passes on what the parent says until it dies.
func receive(in *bufio.Reader, messages chan<- message) {
	defer close(messages)
	decoder := json.NewDecoder(in)
	for {
		var m message
		if decoder.Decode(&m) != nil {
			return
		}
		messages <- m
	}
}

// child is a process that has ended.
type child struct {
	pid    int
	status syscall.WaitStatus
}

// start prepares the sandbox and starts the program.
func (k *keeper) start(o order, children chan<- child) (err error) {
	if o.Sandbox.Restricted() && k.first {
		if err := sandbox.BuildRoot(o.Sandbox); err != nil {
			return err
		}
		if o.Sandbox.Network.Off {
			if err := sandbox.StartLoopback(); err != nil {
				return err
			}
		}
		if _, err := os.Stat(o.Dir); err != nil && o.File != "" {
			return fmt.Errorf("the sandbox does not include its folder: %w", err)
		}
	}
	var started sync.WaitGroup
	started.Go(func() {
		runtime.LockOSThread() // and never unlock it: the thread ends with this function
		if o.Sandbox.Restricted() {
			if err = sandbox.Restrict(o.Sandbox, o.Support); err != nil {
				return
			}
		}
		if o.File == "" {
			return
		}
		k.program, err = syscall.ForkExec(o.File, o.Argv, &syscall.ProcAttr{Dir: o.Dir, Env: os.Environ(), Files: []uintptr{0, 1, 2},
			Sys: &syscall.SysProcAttr{Setsid: true}})
	})
	started.Wait()
	if err != nil || o.File == "" {
		return err
	}
	go reapChildren(children)
	return closeStandardFiles()
}

// closeStandardFiles closes what the program inherited: its parent reads the output until no one can write to it any more.
func closeStandardFiles() error {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	for fd := range 3 {
		if err := unix.Dup3(null, fd, 0); err != nil {
			return err
		}
	}
	return nil
}

// reapChildren waits for children, also those that became so when their parent ended, until there are none.
func reapChildren(children chan<- child) {
	defer close(children)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return // there are none
		default:
			children <- child{pid, status}
		}
	}
}

// watch waits until the program and everything that it left behind have ended.
func (k *keeper) watch(children <-chan child, messages <-chan message, signals <-chan os.Signal) {
	var kill, look <-chan time.Time
	if k.watched != (sandbox.Limits{}) {
		ticker := time.NewTicker(watchPause)
		defer ticker.Stop()
		look = ticker.C
	}
	for {
		select {
		case <-look:
			if k.exceeded = k.overLimit(); k.exceeded != "" {
				k.killAll(children)
				return
			}
		case c, more := <-children:
			if !more {
				return
			}
			k.report(c)
		case m, alive := <-messages:
			switch {
			case !alive:
				k.killAll(children)
				return
			case m.Signal != 0:
				k.signal(m.Signal)
			case m.End:
				k.signal(unix.SIGTERM)
				kill = time.After(m.Grace)
			}
		case sig := <-signals:
			if sig == killRequest {
				k.killAll(children)
				return
			}
			k.signal(unix.SIGTERM)
		case <-kill:
			k.killAll(children)
			return
		}
	}
}

// report tells the parent that the program has ended, if it is the child that did.
func (k *keeper) report(c child) {
	if c.pid == k.program {
		k.program = 0
		_ = k.out.Encode(message{Exited: &c.status, Exceeded: k.exceeded}) // the parent may be gone
	}
}

// killAll kills everything until nothing is left. What forks as fast as it can is stopped first: what is stopped does not fork.
func (k *keeper) killAll(children <-chan child) {
	for {
		k.signal(unix.SIGSTOP)
		k.signal(unix.SIGKILL)
		select {
		case c, more := <-children:
			if !more {
				return
			}
			k.report(c)
		case <-time.After(firstPause):
		}
	}
}

// watchPause is how often a keeper looks at limits that the system does not enforce.
const watchPause = 100 * time.Millisecond

// overLimit returns the watched limit that the program exceeds with everything that it started, or "".
func (k *keeper) overLimit() string {
	all := k.kept()
	if k.watched.Processes > 0 && len(all) > k.watched.Processes {
		return "processes"
	}
	if k.watched.Memory == 0 {
		return ""
	}
	var used int64
	for _, pid := range all {
		used += privateMemory(pid)
	}
	if used > k.watched.Memory {
		return "memory"
	}
	return ""
}

// privateMemory returns how much memory a process does not share with others, roughly.
func privateMemory(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	var size, resident, shared int64
	if _, err := fmt.Sscan(string(text), &size, &resident, &shared); err != nil {
		return 0
	}
	return (resident - shared) * int64(os.Getpagesize())
}

// kept returns all processes that the keeper must end.
func (k *keeper) kept() []int {
	if !k.first {
		return descendants(os.Getpid())
	}
	return slices.DeleteFunc(runningProcesses(), func(pid int) bool { return pid == 1 })
}

// signal sends a signal to everything that the program started, and to the program.
func (k *keeper) signal(sig unix.Signal) {
	if k.first {
		_ = unix.Kill(-1, sig) // all but this process
		return
	}
	for _, pid := range descendants(os.Getpid()) {
		_ = unix.Kill(pid, sig)
	}
}

// descendants returns all running processes that a process started, directly or indirectly.
func descendants(of int) (all []int) {
	children := map[int][]int{}
	for _, pid := range runningProcesses() {
		if s, ok := readStatus(pid); ok && !s.ended {
			children[s.parent] = append(children[s.parent], pid)
		}
	}
	for next := []int{of}; len(next) > 0; {
		found := children[next[0]]
		next = append(next[1:], found...)
		all = append(all, found...)
	}
	return all
}

// isKeeper reports whether a process is a keeper: this program under the keeper's name.
func isKeeper(pid int) bool {
	folder := "/proc/" + strconv.Itoa(pid)
	if command, err := os.ReadFile(folder + "/cmdline"); err != nil || string(command) != keeperName+"\x00" {
		return false
	}
	own, err := os.Stat("/proc/self/exe")
	if err != nil {
		return false
	}
	other, err := os.Stat(folder + "/exe")
	return err == nil && os.SameFile(own, other)
}
