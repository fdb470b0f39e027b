//go:build unix

package main

import (
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/internal/cli"
	"signalbox/internal/testkit/must"
)

// interrupted runs a program in this process and interrupts it until it ends. The first interrupts
// may come before the program handles them.
func interrupted(t *testing.T, p *cli.Program) (status int) {
	t.Helper()
	// Otherwise the first interrupt could kill the tests. It is never stopped, because the last one
	// may arrive much later.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	ended := make(chan int)
	go func() { ended <- execute(p) }()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case status = <-ended:
			return status
		case <-again.C:
			must.Succeed(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
		}
	}
}

func TestInterruptEndsAWait(t *testing.T) {
	b := newTestBox(t)
	p, stdout, stderr := b.program("work", "claim", "--next", "--wait", "--role=developer")
	if status := interrupted(t, p); status != 130 || stdout.Len() > 0 ||
		stderr.String() != "signalbox: interrupted while waiting for work\n" {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	b.must("work", "open", "t1")
	if answer := b.must("work", "claim", "t1", "--role=developer",
		"--json"); !strings.Contains(answer, `"epoch":3,`) {
		t.Errorf("the interrupted wait left something behind: %s", answer)
	}
}

func TestInterruptEndsFollowing(t *testing.T) {
	b := newTestBox(t)
	p, stdout, stderr := b.program("ledger", "tail", "-f")
	if status := interrupted(t, p); status != 0 || stderr.Len() > 0 {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
}
