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

// inputQueue writes the standard input of a program. Lines are queued, so that a program that does not read cannot block the caller.
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

func (f *inputQueue) start() {
	if f != nil {
		go f.run()
	}
}

// run writes the queue and then closes the pipe. A write that fails means that no process reads the pipe.
func (f *inputQueue) run() {
	defer f.close()
	for {
		f.mu.Lock()
		for len(f.queue) == 0 && f.open {
			f.more.Wait()
		}
		if len(f.queue) == 0 {
			f.mu.Unlock()
			return
		}
		next := f.queue[0]
		f.queue = f.queue[1:]
		f.mu.Unlock()
		if _, err := f.pipe.Write(next); err != nil {
			return
		}
	}
}

func (f *inputQueue) add(line string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.open {
		return false
	}
	f.queue = append(f.queue, []byte(line+"\n"))
	f.more.Signal()
	return true
}

func (f *inputQueue) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = false
	f.more.Signal()
}

// close discards the queue and interrupts a blocked write.
func (f *inputQueue) close() {
	if f != nil {
		f.mu.Lock()
		f.open, f.queue = false, nil
		f.more.Signal()
		f.mu.Unlock()
		f.pipe.Close()
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

// run copies until the other end of the pipe is closed. When the deadline passes, it copies what is already in the pipe and stops.
func (d *outputCopier) run() {
	defer close(d.done)
	defer d.pipe.Close()
	err := d.copy(d.pipe)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if err = d.pipe.SetReadDeadline(time.Time{}); err == nil {
			err = d.copy(io.LimitReader(d.pipe, inPipe(d.pipe)))
		}
	}
	if err != nil && d.err == nil {
		d.err = fmt.Errorf("read the output: %w", err)
	}
}

// copy copies the output. After a failed write it keeps reading, so that the program does not block.
func (d *outputCopier) copy(from io.Reader) error {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && d.err == nil {
			if _, failed := d.to.Write(buffer[:n]); failed != nil {
				d.err = fmt.Errorf("write the output: %w", failed)
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

// inPipe returns the number of bytes in a pipe.
func inPipe(pipe *os.File) (bytes int64) {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return 0
	}
	_ = conn.Control(func(fd uintptr) {
		n, _ := unix.IoctlGetInt(int(fd), bytesInPipe)
		bytes = int64(n)
	})
	return bytes
}

// waitForOutput waits until all output is copied, at most for atMost, because an escaped process may keep a pipe open.
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
	return a != nil && b != nil && reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}
