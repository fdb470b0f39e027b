package luatree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"signalbox/internal/tree/luatree/sandbox"
)

// Source is a file on disk that may change between runs. It may be used concurrently.
type Source struct {
	path string
	o    Options

	// mu guards the rest.
	mu      sync.Mutex
	current *File
	// bad is the content that was refused last, trouble why the file could not be read last: each is reported once.
	bad     []byte
	trouble string
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

// Next returns the file to run next: the newest valid one. It reads the file and compares its bytes, since a time
// of change may stay the same; call it between runs. reloaded is true the first time that a new version is returned.
// If the file cannot be read or is not valid, the error says why, once for each content, and the file is the one
// before. That one stays usable, whatever comes after it: runs that began with it end with it.
func (s *Source) Next(ctx context.Context) (file *File, reloaded bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, err := read(s.path)
	if err != nil {
		if err.Error() == s.trouble {
			return s.current, false, nil
		}
		s.trouble, s.bad = err.Error(), nil
		return s.current, false, fmt.Errorf("%w; the version before it stays in use", err)
	}
	s.trouble = ""
	switch {
	case bytes.Equal(content, s.current.Source):
		s.bad = nil
		return s.current, false, nil
	case s.bad != nil && bytes.Equal(content, s.bad):
		return s.current, false, nil
	}
	next, err := Load(ctx, s.path, content, &s.o)
	if err != nil {
		if ctx.Err() == nil { // else the content is not to blame
			s.bad = content
		}
		return s.current, false, err
	}
	s.current, s.bad = next, nil
	return next, true, nil
}

// read returns the content of a file, if it is one and not too large to be a tree.
func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", path) // a pipe would wait for its writer
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(f, sandbox.MaxSource+1))
	if err == nil && len(content) > sandbox.MaxSource {
		err = fmt.Errorf("%s is larger than %d bytes", path, sandbox.MaxSource)
	}
	return content, errors.Join(err, f.Close())
}
