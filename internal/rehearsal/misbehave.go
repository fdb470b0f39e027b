package rehearsal

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

var ignorable = map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": os.Interrupt}

// ignore makes the process, and the children that it starts later, ignore a signal.
func (p *player) ignore(sig os.Signal) error {
	signal.Ignore(sig)
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hang waits until the context ends. It uses a timer, because the runtime reports a deadlock if all
// goroutines block forever.
func hang(ctx context.Context) error {
	for {
		if err := pause(ctx, time.Hour); err != nil {
			return err
		}
	}
}

// The time between two checks for a file: short at first, then longer, because many agents may wait
// at the same time.
const (
	pollFirst = 10 * time.Millisecond
	pollLast  = 500 * time.Millisecond
)

func (p *player) waitFor(ctx context.Context, file string) error {
	for every := pollFirst; ; every = min(2*every, pollLast) {
		if _, err := os.Stat(p.path(file)); err == nil {
			return nil
		}
		if err := pause(ctx, every); err != nil {
			return err
		}
	}
}

// fork starts children that outlive the agent and keep its standard output open.
func (p *player) fork(count int, detached bool, into string) error {
	var pids strings.Builder
	for range count {
		pid, err := startSleeper(p.Stdout, p.Dir, detached)
		if err != nil {
			return &stepError{err, "fork needs the command sleep, and does not work on Windows"}
		}
		fmt.Fprintln(&pids, pid)
	}
	if into == "" {
		return nil
	}
	return p.put(into, pids.String())
}

const (
	floodMessage = 64 << 10
	floodLine    = "All work and no play makes an agent a dull process, line after line after line.\n"
)

// flood writes a lot of text, in messages of 64 KiB or in a single line. Its last byte is a line
// end.
func (p *player) flood(ctx context.Context, size int64, oneLine bool) error {
	block := strings.Repeat(floodLine, floodMessage/len(floodLine))
	if oneLine {
		return p.floodLine(ctx, size, strings.ReplaceAll(block, "\n", " "))
	}
	p.ended = false
	for ; size >= int64(len(block)); size -= int64(len(block)) {
		p.enc.message(block) // each time with new ids, because a repeated event is a replay
		if err := p.pour(ctx, p.enc.take()); err != nil {
			return err
		}
	}
	if size == 0 {
		return nil
	}
	p.enc.message(block[:size-1] + "\n")
	return p.pour(ctx, p.enc.take())
}

func (p *player) floodLine(ctx context.Context, size int64, block string) error {
	p.ended = false
	before, after := p.around("\n")
	if err := p.pour(ctx, before); err != nil {
		return err
	}
	piece := []byte(block)
	for size--; size > 0; {
		n := min(size, int64(len(piece)))
		if err := p.pour(ctx, piece[:n]); err != nil {
			return err
		}
		size -= n
	}
	return p.pour(ctx, after)
}

func (p *player) pour(ctx context.Context, b []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := p.Stdout.Write(b)
	return err
}

func (p *player) killSelf() error {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		return &stepError{err, ""}
	}
	return hang(context.Background()) // until the signal arrives
}
