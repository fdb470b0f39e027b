package process

import (
	"bufio"
	"bytes"
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

// A keeper is this program, started once more for every program that Start starts. It restricts a
// thread of its own, starts the program from it, and stays outside the sandbox until the program
// and everything that it started have ended. What the program leaves behind becomes a child of the
// keeper, whatever it does to hide; in a PID namespace the system itself ends it with the keeper.
//
// The keeper is connected with its parent by a socket. If the parent dies, the socket ends, and the
// keeper kills everything at once. The two exchange lines of JSON: order, then messages in both
// directions.

// keeperName is the name under which this program is started as a keeper.
const keeperName = "signalbox-keeper"

// keeperSocket is the descriptor of the socket, and keeperGroup that of the folder of the program's
// control group.
const (
	keeperSocket = 3
	keeperGroup  = 4
)

// killRequest is the signal that makes a keeper kill everything. SIGKILL would end the keeper
// alone.
const killRequest = unix.SIGUSR2

// order says what a keeper should do.
type order struct {
	// File is the program; empty means none: the keeper only prepares the sandbox, which shows
	// whether it can.
	File string
	Argv []string
	Dir  string
	// Sandbox may be nil.
	Sandbox *sandbox.Policy
	Support sandbox.Support
	// Watched are limits that the system does not enforce. The keeper looks from time to time.
	Watched sandbox.Limits
	// Grouped means that there is a keeperGroup.
	Grouped bool
}

// message is what a keeper and its parent tell each other.
type message struct {
	// Started, from the keeper, reports that the program runs. Err reports that it does not, and
	// Errno why.
	Started bool          `json:",omitempty"`
	Err     string        `json:",omitempty"`
	Errno   syscall.Errno `json:",omitempty"`
	// Exited, from the keeper, is the wait status of the program. The keeper then waits for End.
	// Exceeded is the limit for which the keeper killed it.
	Exited   *syscall.WaitStatus `json:",omitempty"`
	Exceeded string              `json:",omitempty"`
	// Signal, to the keeper, is sent to the program and everything that it started.
	Signal unix.Signal `json:",omitempty"`
	// End, to the keeper, ends what the program left behind: SIGTERM, Grace, SIGKILL.
	End   bool          `json:",omitempty"`
	Grace time.Duration `json:",omitempty"`
}

// A keeper must start quickly and without the help of the program's main function, which in tests
// is another one.
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
	grouped bool // see order
	program int  // its pid
	// listening are the sockets that stand for the only server that the program may reach.
	listening []int
	watched   sandbox.Limits
	// exceeded is the watched limit that was exceeded.
	exceeded string
}

// keep runs the keeper and returns its exit status.
func keep() int {
	// What this program inherited by chance would be a way out of the sandbox: an open folder leads
	// to everything around it.
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
	k.watched, k.grouped = o.Watched, o.Grouped
	exited := make(chan syscall.WaitStatus, 1)
	if err := k.start(o, exited); err != nil {
		if k.program != 0 {
			k.killAll(exited)
		}
		report := message{Err: err.Error()}
		_ = errors.As(err, &report.Errno)
		_ = k.out.Encode(report)
		return 1
	}
	k.reportStart()
	if o.File == "" {
		return 0
	}
	messages := make(chan message)
	go receive(in, messages)
	k.watch(exited, messages, signals)
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

// start prepares the sandbox and starts the program. exited is that of reapChildren.
func (k *keeper) start(o order, exited chan<- syscall.WaitStatus) (err error) {
	if o.Sandbox.Restricted() && k.first {
		if err := sandbox.BuildRoot(o.Sandbox); err != nil {
			return err
		}
		if err := k.startNetwork(o.Sandbox.Network); err != nil {
			return err
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
		k.program, err = syscall.ForkExec(o.File, o.Argv,
			&syscall.ProcAttr{Dir: o.Dir, Env: os.Environ(), Files: []uintptr{0, 1, 2},
				Sys: &syscall.SysProcAttr{Setsid: true}})
	})
	started.Wait()
	if err != nil || o.File == "" {
		return err
	}
	go reapChildren(k.program, exited)
	return closeStandardFiles()
}

// startNetwork prepares the network of a program that has one of its own.
func (k *keeper) startNetwork(n sandbox.Network) (err error) {
	if !n.Off && n.Server == nil {
		return nil
	}
	if err := sandbox.StartLoopback(); err != nil || n.Server == nil {
		return err
	}
	k.listening, err = sandbox.ListenAs(n.Server)
	return err
}

// reportStart tells the parent that the program runs.
func (k *keeper) reportStart() {
	m := message{Started: true}
	if len(k.listening) == 0 {
		_ = k.out.Encode(m) // the parent may be gone
		return
	}
	if line, err := json.Marshal(m); err == nil {
		_ = passListeners(append(line, '\n'), k.listening)
	}
}

// closeStandardFiles closes what the program inherited: its parent reads the output until no one
// can write to it any more.
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

// reapChildren waits for children, also those that became so when their parent ended, until there
// are none. Then it closes exited, which has room for the status of the program. It waits for
// nothing else: processes that are not reaped use up the ids of the machine.
func reapChildren(program int, exited chan<- syscall.WaitStatus) {
	defer close(exited)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return // there are none
		case pid == program:
			exited <- status
			program = 0 // its pid may belong to another process now
		}
	}
}

// watch waits until the program and everything that it left behind have ended.
func (k *keeper) watch(exited <-chan syscall.WaitStatus, messages <-chan message,
	signals <-chan os.Signal) {
	var kill, look <-chan time.Time
	if k.watched != (sandbox.Limits{}) {
		pause := watchPause
		if k.watched == defaultLimits && !k.first && !k.grouped {
			pause = searchPause
		}
		ticker := time.NewTicker(pause)
		defer ticker.Stop()
		look = ticker.C
	}
	for {
		select {
		case <-look:
			if k.exceeded = k.overLimit(); k.exceeded != "" {
				k.killAll(exited)
				return
			}
		case status, more := <-exited:
			if !more {
				return
			}
			k.report(status)
		case m, alive := <-messages:
			switch {
			case !alive:
				k.killAll(exited)
				return
			case m.Signal != 0:
				k.signal(m.Signal)
			case m.End:
				k.signal(unix.SIGTERM)
				kill = time.After(m.Grace)
			}
		case sig := <-signals:
			if sig == killRequest {
				k.killAll(exited)
				return
			}
			k.signal(unix.SIGTERM)
		case <-kill:
			k.killAll(exited)
			return
		}
	}
}

// report tells the parent that the program has ended.
func (k *keeper) report(status syscall.WaitStatus) {
	_ = k.out.Encode(message{Exited: &status, Exceeded: k.exceeded}) // the parent may be gone
}

// killAll kills everything until nothing is left.
func (k *keeper) killAll(exited <-chan syscall.WaitStatus) {
	for {
		pause := firstPause
		switch {
		case k.first:
			_ = unix.Kill(-1, unix.SIGKILL) // all but this process
		case k.grouped && sandbox.KillGroup(keeperGroup) == nil:
			killChildren() // what left the group, which only a program without a sandbox can
		case killChildren():
			pause = 0
		default:
			k.signal(unix.SIGKILL)
		}
		select {
		case status, more := <-exited:
			if !more {
				return
			}
			k.report(status)
		case <-time.After(pause):
		}
	}
}

// killChildren kills the children of this process, and reports whether there were any. What a
// process leaves behind becomes a child of the keeper at once, so this reaches everything in the
// end. It must be quick: in a chain of processes, each of which starts the next one and exits, the
// one that was found last has nearly always ended, and a search of all processes takes far too
// long.
func killChildren() (found bool) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return false
	}
	for _, thread := range threads {
		text, err := os.ReadFile("/proc/self/task/" + thread.Name() + "/children")
		if err != nil {
			return false
		}
		for field := range bytes.FieldsSeq(text) {
			if pid, err := strconv.Atoi(string(field)); err == nil {
				found = unix.Kill(pid, unix.SIGKILL) == nil || found
			}
		}
	}
	return found
}

const (
	// watchPause is how often a keeper looks at limits that the system does not enforce.
	watchPause = 100 * time.Millisecond
	// searchPause is how often it looks at the default limit if it must search all processes of the
	// machine, which takes milliseconds.
	searchPause = time.Second
)

// overLimit returns the watched limit that the program exceeds with everything that it started, or
// "".
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
	all := runningProcesses
	switch {
	case k.grouped:
		all = func() []int {
			pids, _ := sandbox.GroupProcesses(keeperGroup)
			return pids
		}
	case !k.first:
		return descendants(os.Getpid())
	}
	return slices.DeleteFunc(all(), func(pid int) bool { return pid == os.Getpid() })
}

// signal sends a signal to everything that the program started, and to the program.
func (k *keeper) signal(sig unix.Signal) {
	if k.first {
		_ = unix.Kill(-1, sig) // all but this process
		return
	}
	for _, pid := range k.kept() {
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

// isKeeper reports whether a process is a keeper: this program under the keeper's name. If its
// identity was recorded as that of a keeper, the name is enough: it may be another version of
// this program.
func isKeeper(pid int, recorded bool) bool {
	folder := "/proc/" + strconv.Itoa(pid)
	if command, err := os.ReadFile(folder + "/cmdline"); err != nil ||
		string(command) != keeperName+"\x00" {
		return false
	}
	if recorded {
		return true
	}
	own, err := os.Stat("/proc/self/exe")
	if err != nil {
		return false
	}
	other, err := os.Stat(folder + "/exe")
	return err == nil && os.SameFile(own, other)
}
