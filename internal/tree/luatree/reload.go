package luatree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"signalbox/internal/tree/luatree/boundedlua"
)

// Source is a file on disk that may change between runs. It may be used concurrently.
type Source struct {
	path string
	o    Options

	// mu guards the rest.
	mu      sync.Mutex
	current *File
	// invalid is the last content that could not be loaded, readError the last error of reading the
	// file. Each is reported once.
	invalid   []byte
	readError string
}

// Open loads a file for the first time.
func Open(ctx context.Context, path string, o *Options) (*Source, error) {
	s := &Source{path: path}
	if o != nil {
		s.o = *o
	}
	content, err := read(path)
	if err != nil {
		return nil, err
	}
	if s.current, err = Load(ctx, path, content, &s.o); err != nil {
		return nil, err
	}
	return s, nil
}

// Next returns the newest valid version of the file. Call it between runs. It compares the content
// of the file, because its modification time may stay the same. reloaded reports whether the
// version is returned for the first time. If the file cannot be read or is not valid, Next returns
// the previous version, and the error once for each content. Earlier versions stay usable, so that
// runs can finish with the version with which they started.
func (s *Source) Next(ctx context.Context) (file *File, reloaded bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, err := read(s.path)
	if err != nil {
		if err.Error() == s.readError {
			return s.current, false, nil
		}
		s.readError, s.invalid = err.Error(), nil
		return s.current, false, fmt.Errorf("%w; the previous version stays in use", err)
	}
	s.readError = ""
	switch {
	case bytes.Equal(content, s.current.Source):
		s.invalid = nil
		return s.current, false, nil
	case s.invalid != nil && bytes.Equal(content, s.invalid):
		return s.current, false, nil
	}
	next, err := Load(ctx, s.path, content, &s.o)
	if err != nil {
		if ctx.Err() == nil { // otherwise the content may be valid
			s.invalid = content
		}
		return s.current, false, err
	}
	s.current, s.invalid = next, nil
	return next, true, nil
}

// read returns the content of a regular file that is not too large for a tree.
func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path) // reading a pipe would block
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(f, boundedlua.MaxSource+1))
	if err == nil && len(content) > boundedlua.MaxSource {
		err = fmt.Errorf("%s is larger than %d bytes", path, boundedlua.MaxSource)
	}
	return content, errors.Join(err, f.Close())
}
