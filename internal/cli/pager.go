package cli

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

// Page calls print with a writer for text of our own that may contain colours; all other text in it
// must be escaped already. On a terminal the text goes through the program that PAGER names, or
// less, as git does it: a text that fits the screen is only printed.
func (p *Program) Page(f PagerFlag, print func(io.Writer) error) error {
	pager := pager(p, f)
	if pager == nil {
		return print(p.Styled(p.Colors(p.Stdout)))
	}
	stdin, err := pager.StdinPipe()
	if err != nil {
		return err
	}
	if err := pager.Start(); err != nil {
		return print(p.Styled(p.Colors(p.Stdout)))
	}
	// The pager has the terminal: Ctrl-C is for it.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	out := bufio.NewWriterSize(answer{stdin}, 64<<10)
	err = print(out)
	if err == nil {
		err = out.Flush()
	}
	stdin.Close()
	pager.Wait() // its exit status says nothing about the text
	if errors.Is(err, ErrReaderClosed) {
		return nil
	}
	return err
}

// pager returns the pager's command, nil if there is none.
func pager(p *Program, f PagerFlag) *exec.Cmd {
	name := cmp.Or(strings.TrimSpace(p.Getenv("PAGER")), "less")
	if f.NoPager || !IsTerminal(p.Stdout) || name == "cat" || p.Getenv("TERM") == "dumb" {
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
	cmd.Stdout, cmd.Stderr = p.Stdout, p.Stderr
	cmd.Env = os.Environ()
	for _, setting := range []string{"LESS=FRX", "LV=-c"} {
		if variable, _, _ := strings.Cut(setting, "="); p.Getenv(variable) == "" {
			cmd.Env = append(cmd.Env, setting)
		}
	}
	return cmd
}

// Flush writes what a writer of Page has buffered.
func Flush(w io.Writer) error {
	if f, ok := w.(interface{ Flush() error }); ok {
		return f.Flush()
	}
	return nil
}
