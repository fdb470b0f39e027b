package main

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
)

// page calls print with a writer for text of our own that may contain colours; all other text in it must be escaped already. On a
// terminal the text goes through the program that PAGER names, or less, as git does it: a text that fits the screen is only printed.
func (p *program) page(f pagerFlag, print func(io.Writer) error) error {
	pager := p.pager(f)
	if pager == nil {
		return print(p.styled(p.colors(p.stdout)))
	}
	stdin, err := pager.StdinPipe()
	if err != nil {
		return err
	}
	if err := pager.Start(); err != nil {
		return print(p.styled(p.colors(p.stdout)))
	}
	// The pager has the terminal: Ctrl-C is for it.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	out := bufio.NewWriterSize(answer{stdin}, 64<<10)
	err = print(flushingWriter{out})
	if err == nil {
		err = out.Flush()
	}
	stdin.Close()
	pager.Wait() // its exit status says nothing about the text
	if errors.Is(err, errReaderClosed) {
		return nil
	}
	return err
}

// pager returns the pager's command, nil if there is none.
func (p *program) pager(f pagerFlag) *exec.Cmd {
	name := cmp.Or(strings.TrimSpace(p.getenv("PAGER")), "less")
	if f.NoPager || !isTerminal(p.stdout) || name == "cat" || p.getenv("TERM") == "dumb" {
		return nil
	}
	var cmd *exec.Cmd
	if runtime.GOOS == "windows" {
		cmd = exec.Command(name)
	} else {
		cmd = exec.Command("sh", "-c", name)
	}
	program, _, _ := strings.Cut(name, " ")
	if _, err := exec.LookPath(program); err != nil {
		return nil
	}
	cmd.Stdout, cmd.Stderr = p.stdout, p.stderr
	cmd.Env = os.Environ()
	for _, setting := range []string{"LESS=FRX", "LV=-c"} {
		if variable, _, _ := strings.Cut(setting, "="); p.getenv(variable) == "" {
			cmd.Env = append(cmd.Env, setting)
		}
	}
	return cmd
}

// flusher is a writer that buffers.
type flusher interface{ Flush() error }

// flushingWriter is a buffered writer whose Flush others can call.
type flushingWriter struct{ *bufio.Writer }

// flush writes what a writer of page has buffered.
func flush(w io.Writer) error {
	if f, ok := w.(flusher); ok {
		return f.Flush()
	}
	return nil
}
