//go:build unix

package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// nobody is the user that runs the server if the test is root.
const nobody = 65534

func asAnotherUser(cmd *exec.Cmd) {
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody,
			Gid: nobody}}
	}
}

// giveAway makes a folder that of the user who runs the server.
func giveAway(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chown(dir, nobody, nobody)
}

// Kill ends the server with kill -9, all of its processes at once. It does nothing if the server
// does not run.
func (s *Server) Kill() error { return s.signal(syscall.SIGKILL) }

// Pause stops all processes of the server. Connections stay open, and nothing answers.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume continues a server that was paused.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

// signal sends a signal to all processes of the server.
func (s *Server) signal(sig syscall.Signal) error {
	if s.pid == 0 {
		return nil
	}
	select {
	case <-s.ended:
		return nil
	default:
	}
	if sig != syscall.SIGCONT { // so that it starts no processes in the meantime
		if err := syscall.Kill(s.pid, syscall.SIGSTOP); err != nil {
			return err
		}
	}
	all, err := processes()
	children := childrenOf(s.pid, all)
	for _, pid := range append(children, s.pid) {
		if killErr := syscall.Kill(pid, sig); killErr != nil && !errors.Is(killErr, syscall.ESRCH) {
			err = errors.Join(err, killErr)
		}
	}
	switch {
	case err != nil:
	case sig == syscall.SIGKILL:
		<-s.ended
		err = await(children, "Z")
	case sig == syscall.SIGSTOP:
		err = await(children, "TZ")
	}
	return err
}

// await waits until all processes are in one of the states or are gone. Until a killed or stopped
// process is, it may still answer.
func await(pids []int, states string) error {
	for {
		all, err := processes()
		if err != nil || !slices.ContainsFunc(all,
			func(p process) bool { return slices.Contains(pids, p.pid) && !strings.Contains(states, p.state[:1]) }) {
			return err
		}
	}
}

// process is a process of this machine.
type process struct {
	pid, parent int
	// begins with T if it was stopped, and with Z if it has ended and its parent does not know yet
	state string
}

// processes returns all processes of this machine.
func processes() (all []process, err error) {
	output, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,stat=").Output()
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	for line := range strings.Lines(string(output)) {
		var p process
		if _, err := fmt.Sscan(line, &p.pid, &p.parent, &p.state); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

// childrenOf returns the processes that a process has started.
func childrenOf(parent int, all []process) (pids []int) {
	for _, p := range all {
		if p.parent == parent {
			pids = append(pids, p.pid)
		}
	}
	return pids
}
