//go:build unix

package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// nobody is the user that runs the server if the test is root.
const nobody = 65534

func asAnotherUser(cmd *exec.Cmd) {
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
}

// giveAway makes a folder that of the user who runs the server.
func giveAway(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chown(dir, nobody, nobody)
}

// Kill ends the server with kill -9, all of its processes at once. It does nothing if the server does not run.
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
	children, err := childrenOf(s.pid)
	for _, pid := range append(children, s.pid) {
		if killErr := syscall.Kill(pid, sig); killErr != nil && !errors.Is(killErr, syscall.ESRCH) {
			err = errors.Join(err, killErr)
		}
	}
	if err == nil && sig == syscall.SIGKILL {
		<-s.ended
	}
	return err
}

// childrenOf returns the processes that a process has started.
func childrenOf(parent int) (pids []int, err error) {
	output, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	for line := range strings.Lines(string(output)) {
		var pid, ppid int
		if _, err := fmt.Sscan(line, &pid, &ppid); err == nil && ppid == parent {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
