package week

import (
	"bytes"
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

// leaveAlternate is what a program sends when it gives the terminal back to the shell.
const leaveAlternate = "\x1b[?1049l"

// Terminal is a program that runs on a pseudo-terminal, and the screen that its user sees.
type Terminal struct {
	cmd    *exec.Cmd
	master *os.File
	ended  chan struct{} // closed when the program has ended and everything that it wrote was read
	err    error         // how it ended; valid after ended

	mu       sync.Mutex // guards what follows
	emulator *vt.Emulator
	written  []byte        // everything that the program wrote
	changed  chan struct{} // closed when the screen changes, and replaced
}

// ErrNoTerminals means that this machine has no pseudo-terminals.
var ErrNoTerminals = errors.New("this machine has no pseudo-terminals")

// Start starts the program on a terminal of the given size. The caller must Close the terminal.
func Start(cmd *exec.Cmd, columns, rows int) (*Terminal, error) {
	master, slave, err := openTerminal(columns, rows)
	if err != nil {
		return nil, err
	}
	defer slave.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // so that ctrl-c reaches it
	if err := cmd.Start(); err != nil {
		master.Close()
		return nil, err
	}
	t := &Terminal{cmd: cmd, master: master, emulator: vt.NewEmulator(columns, rows), ended: make(chan struct{}), changed: make(chan struct{})}
	// Programs ask a terminal for its colours and wait for the answer. The copy ends with the emulator's pipe.
	go io.Copy(master, t.emulator)
	go t.follow()
	return t, nil
}

func openTerminal(columns, rows int) (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrNoTerminals, err)
	}
	var number int
	err = control(master, func(fd int) (err error) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		if err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(columns)}); err != nil {
			return err
		}
		number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return err
	})
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		master.Close()
		return nil, nil, fmt.Errorf("%w: %w", ErrNoTerminals, err)
	}
	return master, slave, nil
}

// control calls f with the descriptor of a file. Unlike Fd, it does not make the file's reads block for ever.
func control(file *os.File, f func(fd int) error) error {
	connection, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = connection.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
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

// Screen returns the text on the screen, without spaces at the ends of lines and empty lines at its end.
func (t *Terminal) Screen() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.screen()
}

func (t *Terminal) screen() string {
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

// WaitFor waits until the screen is as wanted. It returns an error with the last screen if the program ends before, or ctx is done.
func (t *Terminal) WaitFor(ctx context.Context, wanted func(screen string) bool) error {
	for {
		t.mu.Lock()
		screen, changed := t.screen(), t.changed
		t.mu.Unlock()
		if wanted(screen) {
			return nil
		}
		select {
		case <-changed:
		case <-t.ended:
			if screen := t.Screen(); !wanted(screen) {
				return fmt.Errorf("the program ended (%v) with the screen\n%s", t.err, screen)
			}
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%w with the screen\n%s", context.Cause(ctx), t.Screen())
		}
	}
}

// Type types text.
func (t *Terminal) Type(text string) error {
	_, err := t.master.WriteString(text)
	return err
}

// Wait waits until the program has ended. It returns what the program wrote since it last gave the terminal back, without escape
// sequences, and how it ended.
func (t *Terminal) Wait(ctx context.Context) (output string, err error) {
	select {
	case <-t.ended:
	case <-ctx.Done():
		return "", fmt.Errorf("%w with the screen\n%s", context.Cause(ctx), t.Screen())
	}
	_, rest, found := cutLast(t.written, leaveAlternate)
	if !found {
		rest = t.written
	}
	return strings.ReplaceAll(ansi.Strip(string(rest)), "\r", ""), t.err
}

func cutLast(text []byte, separator string) (before, after []byte, found bool) {
	i := bytes.LastIndex(text, []byte(separator))
	if i < 0 {
		return text, nil, false
	}
	return text[:i], text[i+len(separator):], true
}

// Close ends the program, if it is still running, and closes the terminal.
func (t *Terminal) Close() {
	select {
	case <-t.ended:
	default:
		syscall.Kill(-t.cmd.Process.Pid, syscall.SIGKILL) // its process group: it leads the session
		// Another process of its session may keep the terminal open.
		t.master.SetReadDeadline(time.Now())
		<-t.ended
	}
	t.emulator.InputPipe().(io.Closer).Close()
	t.master.Close()
}
