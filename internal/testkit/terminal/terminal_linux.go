package terminal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
	"golang.org/x/sys/unix"
)

// What a program sends to change the terminal, and what it sends to change it back.
const (
	enterAlternate, leaveAlternate = "\x1b[?1049h", "\x1b[?1049l"
	hideCursor, showCursor         = "\x1b[?25l", "\x1b[?25h"
	bracketPastes, plainPastes     = "\x1b[?2004h", "\x1b[?2004l"
)

// Terminal is a pseudo-terminal, the program that runs on it, and the screen that its user sees.
type Terminal struct {
	master *os.File
	// nil after Start: the master sees that the program has ended when nothing has the other end
	// open
	slave  *os.File
	cmd    *exec.Cmd
	before unix.Termios  // the settings when the program was started
	ended  chan struct{} // closed when the program has ended and everything that it wrote was read
	err    error         // how it ended; valid after ended

	mu       sync.Mutex // guards what follows
	emulator *vt.Emulator
	written  []byte        // everything that the program wrote
	changed  chan struct{} // closed when the screen changes, and replaced
}

// ErrNoTerminals means that this machine has no pseudo-terminals.
var ErrNoTerminals = errors.New("this machine has no pseudo-terminals")

// Open opens a terminal with the settings of a new terminal window. A program on a terminal of 0
// columns cannot find out how wide it is. The caller must Close the terminal.
func Open(columns, rows int) (*Terminal, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoTerminals, err)
	}
	t := &Terminal{
		master:   master,
		emulator: vt.NewEmulator(cmp.Or(columns, 80), cmp.Or(rows, 24)),
		ended:    make(chan struct{}),
		changed:  make(chan struct{}),
	}
	var number int
	err = t.control(func(fd int) (err error) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		if err = setSize(fd, columns, rows); err != nil {
			return err
		}
		number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return err
	})
	if err == nil {
		t.slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number),
			os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		master.Close()
		return nil, fmt.Errorf("%w: %w", ErrNoTerminals, err)
	}
	return t, nil
}

// control calls f with the descriptor of the master. Unlike Fd, it does not make reads block for
// ever.
func (t *Terminal) control(f func(fd int) error) error {
	connection, err := t.master.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = connection.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}

func setSize(fd, columns, rows int) error {
	return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ,
		&unix.Winsize{Row: uint16(rows), Col: uint16(columns)})
}

func (t *Terminal) settings() (settings unix.Termios, err error) {
	err = t.control(func(fd int) error {
		found, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil {
			settings = *found
		}
		return err
	})
	return settings, err
}

// SetVerbatim changes the settings so that Written returns exactly what the program writes: line
// ends are not changed, and what is typed is not echoed. Call it before Start.
func (t *Terminal) SetVerbatim() error {
	settings, err := t.settings()
	if err != nil {
		return err
	}
	settings.Oflag &^= unix.OPOST
	settings.Lflag &^= unix.ECHO
	return t.control(func(fd int) error { return unix.IoctlSetTermios(fd, unix.TCSETS, &settings) })
}

// Start starts a program. The terminal is its controlling terminal, so that ctrl+c reaches it, and
// those of its standard streams that are nil. At least one of them must be.
func (t *Terminal) Start(cmd *exec.Cmd) (err error) {
	if t.before, err = t.settings(); err != nil {
		return err
	}
	control := -1
	if cmd.Stderr == nil {
		cmd.Stderr, control = t.slave, 2
	}
	if cmd.Stdout == nil {
		cmd.Stdout, control = t.slave, 1
	}
	if cmd.Stdin == nil {
		cmd.Stdin, control = t.slave, 0
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: control}
	if err := cmd.Start(); err != nil {
		return err
	}
	t.cmd = cmd
	t.slave.Close()
	t.slave = nil
	// Programs ask a terminal for its colours and wait for the answer. The copy ends with the
	// emulator's pipe.
	go io.Copy(t.master, t.emulator)
	go t.follow()
	return nil
}

// follow draws what the program writes, until nothing has the terminal open any more.
func (t *Terminal) follow() {
	buffer := make([]byte, 64<<10)
	for {
		n, err := t.master.Read(buffer)
		t.mu.Lock()
		t.emulator.Write(buffer[:n])
		t.written = append(t.written, buffer[:n]...)
		close(t.changed)
		t.changed = make(chan struct{})
		t.mu.Unlock()
		if err != nil { // EIO: the other end was closed; or Close has set a deadline
			break
		}
	}
	t.err = t.cmd.Wait()
	close(t.ended)
}

// Resize changes the size of the terminal, and of its screen.
func (t *Terminal) Resize(columns, rows int) error {
	t.mu.Lock()
	t.emulator.Resize(columns, rows)
	t.mu.Unlock()
	return t.control(func(fd int) error { return setSize(fd, columns, rows) })
}

// Type types text. Keys are the bytes that terminals send for them, such as \r for Enter and \x03
// for ctrl+c.
func (t *Terminal) Type(text string) error {
	_, err := t.master.WriteString(text)
	return err
}

// Paste pastes text: between brackets if the program has asked for them, and otherwise as if it was
// typed.
func (t *Terminal) Paste(text string) error {
	if t.isSet(bracketPastes, plainPastes) {
		text = "\x1b[200~" + text + "\x1b[201~"
	}
	return t.Type(text)
}

// Screen returns the text on the screen, without spaces at the ends of lines and empty lines at its
// end.
func (t *Terminal) Screen() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for y := range t.emulator.Height() {
		var line strings.Builder
		for x := 0; x < t.emulator.Width(); {
			cell := t.emulator.CellAt(x, y)
			if cell == nil || cell.Content == "" {
				line.WriteByte(' ')
				x++
				continue
			}
			line.WriteString(cell.Content)
			x += max(cell.Width, 1)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

// IsAlternate reports whether the screen is the alternate one, which full-screen programs use.
func (t *Terminal) IsAlternate() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.emulator.IsAltScreen()
}

// Written returns everything that the terminal got from the program, byte for byte.
func (t *Terminal) Written() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.written)
}

// Printed returns what the program has written since it last left the alternate screen, without
// escape sequences.
func (t *Terminal) Printed() string {
	text := t.Written()
	if i := strings.LastIndex(text, leaveAlternate); i >= 0 {
		text = text[i+len(leaveAlternate):]
	}
	return strings.ReplaceAll(ansi.Strip(text), "\r", "")
}

// isSet reports whether the program sent the sequence set, and not unset after it.
func (t *Terminal) isSet(set, unset string) bool {
	text := t.Written()
	return strings.LastIndex(text, set) > strings.LastIndex(text, unset)
}

// CheckRestored returns an error if the terminal is not as it was when the program was started.
func (t *Terminal) CheckRestored() error {
	settings, err := t.settings()
	if err != nil {
		return err
	}
	if settings != t.before {
		err = fmt.Errorf("the settings of the terminal are %+v, and were %+v", settings, t.before)
	}
	if t.IsAlternate() || t.isSet(enterAlternate, leaveAlternate) {
		err = errors.Join(err, errors.New("the terminal shows the alternate screen"))
	}
	if t.isSet(hideCursor, showCursor) {
		err = errors.Join(err, errors.New("the cursor is hidden"))
	}
	if t.isSet(bracketPastes, plainPastes) {
		err = errors.Join(err, errors.New("what is pasted gets brackets"))
	}
	return err
}

// WaitFor waits until the screen is as wanted. It returns an error with the last screen if the
// program ends before, or ctx is done.
func (t *Terminal) WaitFor(ctx context.Context, wanted func(screen string) bool) error {
	return t.wait(ctx, func() bool { return wanted(t.Screen()) })
}

// WaitForWritten is like WaitFor, for everything that the program wrote.
func (t *Terminal) WaitForWritten(ctx context.Context, wanted func(written string) bool) error {
	return t.wait(ctx, func() bool { return wanted(t.Written()) })
}

func (t *Terminal) wait(ctx context.Context, holds func() bool) error {
	for {
		t.mu.Lock()
		changed := t.changed // before holds looks, so that no change is missed
		t.mu.Unlock()
		if holds() {
			return nil
		}
		select {
		case <-changed:
		case <-t.ended:
			if !holds() {
				return fmt.Errorf("the program ended (%v) with the screen\n%s", t.err, t.Screen())
			}
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%w with the screen\n%s", context.Cause(ctx), t.Screen())
		}
	}
}

// Wait waits until the program has ended and everything that it wrote was read. It returns how it
// ended, as exec.Cmd does.
func (t *Terminal) Wait(ctx context.Context) error {
	select {
	case <-t.ended:
		return t.err
	case <-ctx.Done():
		return fmt.Errorf("%w with the screen\n%s", context.Cause(ctx), t.Screen())
	}
}

// Close ends the program, if it is still running, and closes the terminal. It may be called again.
func (t *Terminal) Close() {
	defer t.master.Close()
	if t.cmd == nil {
		t.slave.Close()
		return
	}
	select {
	case <-t.ended:
	default:
		syscall.Kill(-t.cmd.Process.Pid, syscall.SIGKILL) // its process group: it leads the session
		// Another process of its session may keep the terminal open.
		t.master.SetReadDeadline(time.Now())
		<-t.ended
	}
	t.emulator.InputPipe().(io.Closer).Close()
}
