package chat

import (
	"os"
	"sync"

	"github.com/charmbracelet/x/ansi"
)

// output is the terminal. While it is held it collects what is written, so that lines which become
// final move from the picture to the text above it in one write. Otherwise the input line would
// jump down and up again.
//
// It does not embed the file: methods such as WriteString would then write past what is held.
type output struct {
	file *os.File

	mu     sync.Mutex // guards what follows
	held   []byte
	hold   bool
	writes int
	err    error
}

// Write writes to the terminal, after what was held.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writes++
	o.held = append(o.held, b...)
	if !o.hold {
		o.flush()
	}
	return len(b), o.err
}

// Fd, Read and Close make it a terminal for Bubble Tea.
func (o *output) Fd() uintptr                { return o.file.Fd() }
func (o *output) Read(b []byte) (int, error) { return o.file.Read(b) }
func (o *output) Close() error               { return o.file.Close() }

// Hold holds what is written from now on.
func (o *output) Hold() {
	o.mu.Lock()
	o.hold = true
	o.mu.Unlock()
}

// Release writes what was held together with the next write, or with the next call of Flush.
func (o *output) Release() {
	o.mu.Lock()
	o.hold = false
	o.mu.Unlock()
}

// Flush writes what was held, unless the terminal is held again.
func (o *output) Flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.hold {
		o.flush()
	}
}

// Writes returns how often Write was called.
func (o *output) Writes() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writes
}

// Up moves the cursor up before the next write.
func (o *output) Up(rows int) {
	o.mu.Lock()
	o.held = append(o.held, ansi.CursorUp(rows)...)
	o.mu.Unlock()
}

// end writes everything that is held.
func (o *output) end() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hold = false
	o.flush()
	return o.err
}

func (o *output) flush() {
	if o.err == nil && len(o.held) > 0 {
		_, o.err = o.file.Write(o.held)
	}
	o.held = nil
}
