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

// feed is the standard input of a program. What is said is queued: a program that does not read must not hold up those
// who speak to it.
type feed struct {
	pipe *os.File

	mu    sync.Mutex // guards what follows
	more  *sync.Cond
	queue [][]byte
	open  bool // more may be said
}

func newFeed(pipe *os.File, first []byte, interactive bool) *feed {
	f := &feed{pipe: pipe, open: interactive}
	f.more = sync.NewCond(&f.mu)
	if len(first) > 0 {
		f.queue = [][]byte{first}
	}
	return f
}

func (f *feed) start() {
	if f != nil {
		go f.run()
	}
}

// run writes what is queued and then closes the pipe. A write that fails means that nobody reads any more.
func (f *feed) run() {
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

func (f *feed) say(text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.open {
		return false
	}
	f.queue = append(f.queue, []byte(text+"\n"))
	f.more.Signal()
	return true
}

func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = false
	f.more.Signal()
}

// close gives up what is still queued, also a write that waits.
func (f *feed) close() {
	if f != nil {
		f.mu.Lock()
		f.open, f.queue = false, nil
		f.more.Signal()
		f.mu.Unlock()
		f.pipe.Close()
	}
}

// drain passes on what a program writes.
type drain struct {
	pipe *os.File
	to   io.Writer
	done chan struct{} // closed when err is set
	err  error
}

func newDrain(pipe *os.File, to io.Writer) *drain {
	return &drain{pipe: pipe, to: to, done: make(chan struct{})}
}

// run passes on until nobody holds the other end. When its time is up, it passes on what is in the pipe and no more.
func (d *drain) run() {
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

// copy passes on. After a failed write it reads on, so that the program is not held up.
func (d *drain) copy(from io.Reader) error {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && d.err == nil {
			if _, failed := d.to.Write(buffer[:n]); failed != nil {
				d.err = fmt.Errorf("pass on the output: %w", failed)
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

func inPipe(pipe *os.File) (bytes int64) {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return 0
	}
	_ = conn.Control(func(fd uintptr) {
		n, _ := unix.IoctlGetInt(int(fd), pending)
		bytes = int64(n)
	})
	return bytes
}

// waitDrains waits for the ends of the outputs, which something that escaped may hold open, but no longer than atMost.
func waitDrains(all []*drain, atMost time.Duration) (errs []error) {
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

// same reports whether two writers are one. Those that cannot be compared are not.
func same(a, b io.Writer) bool {
	return a != nil && b != nil && reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}
