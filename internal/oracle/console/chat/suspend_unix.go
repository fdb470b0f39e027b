//go:build unix

package chat

import (
	"os"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
)

// suspend stops the process until it is resumed. A process whose parent is not a shell with jobs is
// not stopped, and would wait for its resumption forever; so it resumes itself. While it is
// stopped, it cannot.
func suspend(resumed <-chan struct{}) tea.Cmd {
	return tea.Batch(tea.Suspend, func() tea.Msg {
		for {
			select {
			case <-resumed:
				return nil
			case <-time.After(time.Second):
				syscall.Kill(os.Getpid(), syscall.SIGCONT) // cannot fail
			}
		}
	})
}
