package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func (p *player) path(file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(p.Dir, filepath.FromSlash(file))
}

// useTool writes the events of a tool before and after it runs.
func (p *player) useTool(t tool, do func(t *tool) error) error {
	p.enc.toolStart(t)
	if err := p.flushTurn(); err != nil {
		return err
	}
	if err := do(&t); err != nil {
		return err
	}
	p.enc.toolEnd(t)
	return p.flush()
}

// read shows a file. A missing file is a normal result of the tool, not a failure of the step.
func (p *player) read(file string) error {
	return p.useTool(tool{kind: toolRead, file: file}, func(t *tool) error {
		content, err := os.ReadFile(p.path(file))
		if err != nil {
			t.output, t.status = file+": "+cause(err), 1
			return nil
		}
		t.output = string(content)
		return nil
	})
}

// cause returns an error without the path, which differs between machines.
func cause(err error) string {
	if failed := (*os.PathError)(nil); errors.As(err, &failed) {
		return failed.Err.Error()
	}
	return err.Error()
}

func (p *player) write(file, content string) error {
	_, err := os.Stat(p.path(file))
	t := tool{kind: toolWrite, file: file, added: err != nil, after: content, output: "wrote " +
		file}
	return p.useTool(t, func(*tool) error { return p.put(file, content) })
}

func (p *player) append(file, content string) error {
	before, err := os.ReadFile(p.path(file))
	if err != nil && !os.IsNotExist(err) {
		return &stepError{err, ""}
	}
	return p.write(file, string(before)+content)
}

func (p *player) put(file, content string) error {
	name := p.path(file)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return &stepError{err, ""}
	}
	if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
		return &stepError{err, ""}
	}
	return nil
}

// replace replaces a text that occurs exactly once.
func (p *player) replace(file, before, after string) error {
	content, err := os.ReadFile(p.path(file))
	if err != nil {
		return &stepError{err, "write the file first"}
	}
	if n := strings.Count(string(content), before); n != 1 {
		return &stepError{fmt.Errorf("%q occurs %d times in %s", before, n, file),
			"use a text that occurs once"}
	}
	t := tool{kind: toolEdit, file: file, before: before, after: after, output: "changed " + file}
	return p.useTool(t, func(*tool) error {
		return p.put(file, strings.Replace(string(content), before, after, 1))
	})
}

// touch creates a file, as a sign that the agent got this far. It is not part of the stream.
func (p *player) touch(file string) error { return p.put(file, "") }

// background is how long the output of a command is read after its exit if a background process
// keeps it open.
const background = time.Second

// run runs a command in a shell. If the command fails, the agent continues.
func (p *player) run(ctx context.Context, command string) error {
	return p.useTool(tool{kind: toolRun, command: command}, func(t *tool) error {
		shell, err := exec.LookPath("sh")
		if err != nil {
			return &stepError{err,
				"run needs the shell sh; on Windows, install Git, which includes one"}
		}
		cmd := exec.CommandContext(ctx, shell, "-c", command)
		cmd.Dir, cmd.WaitDelay = p.Dir, background
		output, err := cmd.CombinedOutput()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !errors.Is(err, exec.ErrWaitDelay) &&
			!errors.As(err, new(*exec.ExitError)) {
			return &stepError{err, ""}
		}
		t.output, t.status = string(output), cmd.ProcessState.ExitCode()
		return nil
	})
}
