package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrNotRegular means that something else has the name of a file.
var ErrNotRegular = errors.New("not a regular file")

// OpenRegular opens a file for reading that another program may have replaced. It does not wait for
// the other end of a pipe, and returns an error for everything but a regular file.
func OpenRegular(name string) (*os.File, error) {
	return onlyRegular(os.OpenFile(name, os.O_RDONLY|nonblock, 0))
}

// OpenRegularIn is like OpenRegular for a file in a root.
func OpenRegularIn(root *os.Root, name string) (*os.File, error) {
	return onlyRegular(root.OpenFile(name, os.O_RDONLY|nonblock, 0))
}

// ReadRegular returns the content of a file that another program may have replaced. A file of more
// than limit bytes is an error.
func ReadRegular(name string, limit int64) ([]byte, error) {
	file, err := OpenRegular(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

func onlyRegular(file *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: file.Name(), Err: ErrNotRegular}
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
