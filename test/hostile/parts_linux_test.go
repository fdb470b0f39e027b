package hostile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The parts that the test binary plays, named by its first argument.
const (
	partAgent     = "play-agent"
	partCheck     = "play-check"
	partTry       = "play-try"
	partHidden    = "play-hidden"
	partBystander = "play-bystander"
	partIdentity  = "play-identity"
	partFilter    = "play-filter"
	partClaude    = "play-claude"
	partGuard     = "play-guard"
	partStandIn   = "play-stand-in"
)

var parts = map[string]func(args []string) error{
	partAgent:     playAgent,
	partCheck:     playCheck,
	partTry:       tryOne,
	partHidden:    playHidden,
	partBystander: playBystander,
	partFilter:    playFilter,
	partClaude:    playClaude,
	partGuard:     playGuard,
	partStandIn:   playStandIn,
	partIdentity:  func([]string) error { _, err := fmt.Println(os.Geteuid()); return err },
}

// The tasks of the plan.
const (
	attackTask = "attack"
	victimTask = "victim"
)

// The files in which agents report.
const (
	agentReport  = "agent.jsonl"
	criticReport = "critic.jsonl"
	victimReport = "victim.json"
)

// victimFile is the file with the secret in each folder of the victim.
func victimFile(tag string) string { return tag + "-canary" }

// playAgent is the agent of all roles and tasks. Its arguments are the role and the task.
func playAgent(args []string) error {
	io.Copy(io.Discard, os.Stdin) // the prompt
	switch role, task := args[0], args[1]; {
	case role == "developer" && task == victimTask:
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		if err := writeJSON(victimReport, victim{Tree: dir, Home: os.Getenv("HOME"),
			Temp: os.TempDir(), Session: os.Getenv("SIGNALBOX_SESSION"),
			Socket: os.Getenv("SIGNALBOX_SOCKET")}); err != nil {
			return err
		}
		awaitFile(besideProgram(finishName))
		fmt.Println("READY_FOR_REVIEW: " + task)
	case role == "developer":
		awaitFile(besideProgram(layoutName))
		if part := readLayout().Part; part == "" || part == hiding {
			if err := attackTo(byAgent, agentReport); err != nil {
				return err
			}
			if part == hiding {
				awaitFile(besideProgram(finishName))
			}
		} else {
			if err := os.WriteFile("work", fmt.Append(nil, misbehave(part)), 0o644); err != nil {
				return err
			}
		}
		fmt.Println("READY_FOR_REVIEW: " + task)
	case role == "critic":
		if task == attackTask && readLayout().Part == "" {
			if err := attackTo(byCritic, criticReport); err != nil {
				return err
			}
			awaitFile(besideProgram(finishName))
		}
		fmt.Println("REVIEW_PASSED: " + task)
	default:
		fmt.Println("AUDIT_PASSED: " + task)
	}
	return nil
}

// misbehave does one thing in the first session of the agent, and tidies up in the next ones. It
// returns how many processes it started.
func misbehave(part string) (started int) {
	first := filepath.Join(os.Getenv("HOME"), "first")
	if exists(first) {
		left, _ := filepath.Glob("large-*")
		for _, name := range left {
			os.Remove(name)
		}
		return 0
	}
	os.WriteFile(first, nil, 0o644)
	switch part {
	case killing:
		killParents()
	case forking:
		// if there is no limit, the machine should survive it
		for failures := 0; failures < 100 && started < 1000; {
			cmd := exec.Command(executable(), partHidden, readLayout().Tag)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if cmd.Start() != nil {
				failures++
			} else {
				started++
			}
		}
	case chaining:
		started = startChains()
	case allocating:
		var all [][]byte
		for range 4096 {
			all = append(all, bytes.Repeat([]byte{1}, 1<<20))
		}
		runtime.KeepAlive(all)
	case filling:
		for n := range 1000 {
			os.WriteFile(fmt.Sprintf("large-%d", n), make([]byte, 1<<20), 0o644)
		}
		time.Sleep(time.Minute) // until it is stopped
	}
	return started
}

// killParents tries to kill what started this process, and signalbox.
func killParents() {
	coordinator := readLayout().Coordinator
	unix.Kill(coordinator, unix.SIGKILL) // first: this process ends with its parent
	for pid := os.Getppid(); pid > 0 && pid != coordinator; pid = parentOf(pid) {
		unix.Kill(pid, unix.SIGSTOP)
		unix.Kill(pid, unix.SIGKILL)
	}
}

// attackTo makes all attempts and writes the outcomes to a file, which appears when it is complete.
func attackTo(by, name string) error {
	f, err := os.Create(name + ".part")
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	if err := attackWith(by, w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return os.Rename(name+".part", name)
}

func attackWith(by string, w io.Writer) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(w)
	attack(&attacker{layout: readLayout(), by: by, dir: dir},
		func(o outcome) { err = encoder.Encode(o) })
	return err
}

// playCheck is the check. It attacks when it checks the work of the agent that attacked, and prints
// the outcomes.
func playCheck([]string) error {
	if exists("work") && exists(besideProgram(layoutName)) && readLayout().Part == chaining {
		// each time takes the seconds that a check is given to end
		once := filepath.Join(filepath.Dir(readLayout().ChainPipe), "checked")
		if _, err := os.OpenFile(once, os.O_CREATE|os.O_EXCL, 0o644); err == nil {
			startChains()
		}
		return nil
	}
	if !exists(agentReport) || exists(besideProgram(finishName)) {
		return nil
	}
	return attackWith(byCheck, os.Stdout)
}

// playHidden is a process that tries to outlive its session. Its arguments are its mark and how it
// hides.
func playHidden(args []string) error {
	if len(args) > 1 {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	}
	fmt.Print(".")
	time.Sleep(2 * time.Minute) // the test must not leave it behind forever if it survives
	return nil
}

// playBystander is a process of the user that has nothing to do with signalbox. It has the secret
// in its environment, its memory and an open file, in System V shared memory, and in the user's
// keyring. It ends when its input does. Its arguments are a file to which it writes the signals
// that it gets, and the tag of the test.
func playBystander(args []string) error {
	secret := []byte(os.Getenv(secretVariable))
	signals := make(chan os.Signal, 100)
	signal.Notify(signals, unix.SIGWINCH, unix.SIGCONT)
	for n := firstSignal; n <= 64; n++ {
		signal.Notify(signals, syscall.Signal(n))
	}
	log, err := os.OpenFile(args[0], os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	go func() {
		for s := range signals {
			fmt.Fprintln(log, int(s.(syscall.Signal)))
		}
	}()
	memory, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	copy(memory, secret)
	file, err := os.Create(args[0] + ".removed")
	if err != nil {
		return err
	}
	if _, err := file.Write(secret); err != nil {
		return err
	}
	if err := os.Remove(file.Name()); err != nil {
		return err
	}
	b := bystander{PID: os.Getpid(), Address: uintptr(unsafe.Pointer(&memory[0])), FD: int(file.Fd()), Key: args[1]}
	if b.Memory, err = unix.SysvShmGet(unix.IPC_PRIVATE, 4096, 0o600); err != nil {
		return err
	}
	defer unix.SysvShmCtl(b.Memory, unix.IPC_RMID, nil)
	shared, err := unix.SysvShmAttach(b.Memory, 0, 0)
	if err != nil {
		return err
	}
	copy(shared, secret)
	queue, _, errno := unix.Syscall(unix.SYS_MSGGET, unix.IPC_PRIVATE, 0o600, 0)
	if errno != 0 {
		return errno
	}
	defer unix.Syscall(unix.SYS_MSGCTL, queue, unix.IPC_RMID, 0)
	b.Queue = int(queue)
	if err := fillQueue(b.Key, secret); err != nil {
		return err
	}
	defer removeQueue(b.Key)
	if key, err := unix.AddKey("user", b.Key, secret, unix.KEY_SPEC_USER_KEYRING); err == nil {
		unix.KeyctlSetperm(key, 0x3f3f0000) // all rights for the user's processes
		unix.KeyctlInt(unix.KEYCTL_SET_TIMEOUT, key, 3600, 0, 0)
		defer unix.KeyctlInt(unix.KEYCTL_REVOKE, key, 0, 0, 0)
	}
	if err := json.NewEncoder(os.Stdout).Encode(b); err != nil {
		return err
	}
	io.Copy(io.Discard, os.Stdin)
	return nil
}

// queueMessage is struct msgbuf.
type queueMessage struct {
	kind int64
	text [128]byte
}

func sendToQueue(queue int, text string) error {
	m := queueMessage{kind: 1}
	n := copy(m.text[:], text)
	_, _, errno := unix.Syscall6(unix.SYS_MSGSND, uintptr(queue), uintptr(unsafe.Pointer(&m)),
		uintptr(n), unix.IPC_NOWAIT, 0, 0)
	return asError(errno)
}

func receiveFromQueue(queue int) (string, error) {
	var m queueMessage
	n, _, errno := unix.Syscall6(unix.SYS_MSGRCV, uintptr(queue), uintptr(unsafe.Pointer(&m)),
		uintptr(len(m.text)), 0, unix.IPC_NOWAIT, 0)
	if errno != 0 {
		return "", errno
	}
	return string(m.text[:n]), nil
}

// queueSize is the longest message of a POSIX message queue.
const queueSize = 128

// openQueue opens a POSIX message queue, without waiting for messages.
func openQueue(name string, flags int) (int, error) {
	path, err := unix.BytePtrFromString(name)
	if err != nil {
		return -1, err
	}
	attributes := [8]int64{1: 4, 2: queueSize} // struct mq_attr: up to four messages
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(path)),
		uintptr(flags|unix.O_NONBLOCK), 0o600, uintptr(unsafe.Pointer(&attributes)), 0, 0)
	return int(fd), asError(errno)
}

// fillQueue creates a POSIX message queue with two messages.
func fillQueue(name string, message []byte) error {
	queue, err := openQueue(name, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return err
	}
	for range 2 {
		if _, _, errno := unix.Syscall6(unix.SYS_MQ_TIMEDSEND, uintptr(queue),
			uintptr(unsafe.Pointer(&message[0])), uintptr(len(message)), 0, 0, 0); errno != 0 {
			return errno
		}
	}
	return nil
}

func removeQueue(name string) {
	if path, err := unix.BytePtrFromString(name); err == nil {
		unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(path)), 0, 0)
	}
}

// writeJSON writes a file that appears when it is complete.
func writeJSON(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".part", data, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

// namespace identifies a namespace of this process.
func namespace(kind string) string {
	target, _ := os.Readlink(filepath.Join("/proc/self/ns", kind))
	return target
}
