//go:build linux || darwin

package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// inputQueue writes the standard input of a program. Lines are queued, so that a program that does
// not read cannot block the caller.
type inputQueue struct {
	pipe *os.File

	mu    sync.Mutex // guards the fields below
	more  *sync.Cond
	queue [][]byte
	open  bool // lines may be added
}

func newInputQueue(pipe *os.File, first []byte, interactive bool) *inputQueue {
	f := &inputQueue{pipe: pipe, open: interactive}
	f.more = sync.NewCond(&f.mu)
	if len(first) > 0 {
		f.queue = [][]byte{first}
	}
	return f
}

func (q *inputQueue) start() {
	if q != nil {
		go q.run()
	}
}

// run writes the queue and then closes the pipe. A write that fails means that no process reads the
// pipe.
func (q *inputQueue) run() {
	defer q.close()
	for {
		q.mu.Lock()
		for len(q.queue) == 0 && q.open {
			q.more.Wait()
		}
		if len(q.queue) == 0 {
			q.mu.Unlock()
			return
		}
		next := q.queue[0]
		q.queue = q.queue[1:]
		q.mu.Unlock()
		if _, err := q.pipe.Write(next); err != nil {
			return
		}
	}
}

func (q *inputQueue) add(line string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.open {
		return false
	}
	q.queue = append(q.queue, []byte(line+"\n"))
	q.more.Signal()
	return true
}

func (q *inputQueue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = false
	q.more.Signal()
}

// close discards the queue and interrupts a blocked write.
func (q *inputQueue) close() {
	if q != nil {
		q.mu.Lock()
		q.open, q.queue = false, nil
		q.more.Signal()
		q.mu.Unlock()
		q.pipe.Close()
	}
}

// outputCopier copies the output of a program to a writer.
type outputCopier struct {
	pipe *os.File
	to   io.Writer
	done chan struct{} // closed when err is set
	err  error
}

func newOutputCopier(pipe *os.File, to io.Writer) *outputCopier {
	return &outputCopier{pipe: pipe, to: to, done: make(chan struct{})}
}

// run copies until the other end of the pipe is closed. When the deadline passes, it copies what is
// already in the pipe and stops.
func (c *outputCopier) run() {
	defer close(c.done)
	defer c.pipe.Close()
	err := c.copy(c.pipe)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = c.copy(io.LimitReader(available{c.pipe}, unread(c.pipe)))
	}
	if err != nil && c.err == nil {
		c.err = fmt.Errorf("read the output: %w", err)
	}
}

// copy copies the output. After a failed write it keeps reading, so that the program does not
// block.
func (c *outputCopier) copy(from io.Reader) error {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && c.err == nil {
			if _, failed := c.to.Write(buffer[:n]); failed != nil {
				c.err = fmt.Errorf("write the output: %w", failed)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// unread returns the number of bytes in a pipe.
func unread(pipe *os.File) (bytes int64) {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return 0
	}
	_ = conn.Control(func(fd uintptr) {
		n, _ := unix.IoctlGetInt(int(fd), bytesUnread)
		bytes = int64(n)
	})
	return bytes
}

// available reads what is in a pipe without waiting for more, and ignores the deadline.
type available struct{ pipe *os.File }

func (a available) Read(p []byte) (n int, err error) {
	conn, err := a.pipe.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := conn.Control(func(fd uintptr) {
		for n, err = unix.Read(int(fd), p); errors.Is(err, unix.EINTR); n,
			err = unix.Read(int(fd), p) {
		}
	})
	switch {
	case failed != nil:
		return 0, failed
	case errors.Is(err, unix.EAGAIN), err == nil && n == 0:
		return 0, io.EOF
	case err != nil:
		return 0, err
	}
	return n, nil
}

// waitForOutput waits until all output is copied, at most for atMost, because an escaped process
// may keep a pipe open.
func waitForOutput(all []*outputCopier, atMost time.Duration) (errs []error) {
	deadline := time.Now().Add(atMost)
	for _, d := range all {
		_ = d.pipe.SetReadDeadline(deadline)
	}
	for _, d := range all {
		<-d.done
		errs = append(errs, d.err)
	}
	return errs
}

// sameWriter reports whether two writers are the same. Writers that cannot be compared are not.
func sameWriter(a, b io.Writer) bool {
	return a != nil && b != nil && reflect.TypeOf(a) == reflect.TypeOf(b) &&
		reflect.TypeOf(a).Comparable() && a == b
}
