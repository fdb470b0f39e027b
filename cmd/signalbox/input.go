package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"signalbox"
)

// readSize is how much is read at once: memory stays the same however long the transcript is.
const readSize = 256 << 10

// input is the file a command reads, or standard input. Its read errors are made for people.
type input struct {
	io.Reader
	name  string
	close func() error
}

// open opens the file that the FILE argument names; none and "-" are standard input.
func (p *program) open(file *string) (*input, error) {
	name := "-"
	if file != nil {
		name = *file
	} else if isTerminal(p.stdin) {
		p.notef("reading standard input; Ctrl-D ends it")
	}
	switch name {
	case "-":
		return &input{p.stdin, "standard input", func() error { return nil }}, nil
	case "":
		return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("the name of the file is empty"),
			Hint: "name a file, or give - to read standard input"}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, openError(name, err)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		f.Close()
		return nil, &signalbox.Error{
			Code: signalbox.CodeFailed,
			Err:  fmt.Errorf("%s is a directory", name),
			Hint: "name one file in it",
		}
	}
	return &input{f, name, f.Close}, nil
}

func (in *input) Close() error { return in.close() }

func (in *input) Read(b []byte) (int, error) {
	n, err := in.Reader.Read(b)
	if err != nil && err != io.EOF {
		err = &signalbox.Error{
			Code: signalbox.CodeFailed,
			Err:  fmt.Errorf("cannot read %s: %w", in.name, cause(err)),
			Hint: "what was printed so far, if anything, covers only what could be read",
		}
	}
	return n, err
}

// readAll reads the file that the FILE argument names, up to a limit.
func (p *program) readAll(file *string, limit int64) ([]byte, error) {
	in, err := p.open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("%s has more than %d bytes", in.name, limit),
			Hint: "check that this is the file you meant"}
	}
	return data, err
}

func openError(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &signalbox.Error{
			Code: signalbox.CodeNotFound,
			Err:  fmt.Errorf("%s: no such file", name),
			Hint: "check the path, or give - to read standard input",
		}
	}
	return &signalbox.Error{
		Code: signalbox.CodeFailed,
		Err:  fmt.Errorf("cannot open %s: %w", name, cause(err)),
		Hint: "check that it is a file you may read",
	}
}

// cause drops the operation and the path that the os package puts before an error, since ours are there already.
func cause(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}

// isTerminal takes any character device but the null device for a terminal, which needs no system call of
// its own for each platform. It only decides about what makes no difference to a program.
func isTerminal(stream any) bool {
	f, ok := stream.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&fs.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
