package mcpserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox/brief"
	"signalbox/internal/durable"
)

// folder is where answers that are too long lie, in the box.
var folder = []string{"logs", "mcp"}

const (
	// maxFiles is how many files a server keeps. The oldest gives way: an agent that asks and asks does not fill the disk.
	maxFiles = 64
	// maxRead is the size of the largest file that is read back over the protocol.
	maxRead = 16 << 20
)

// files are those that this server wrote, which it also gives to read.
type files struct {
	server *Server

	mu      sync.Mutex // guards written
	written []*file    // in the order they were written
}

// file is one that was written. Its digest is that of what was written, so that what somebody else put in its place is not given out.
type file struct {
	path, uri string
	size      int64
	digest    [sha256.Size]byte
	own       bool // by this package, which may also remove it
}

// attach saves what did not fit into an answer. Where nobody asked for the file and it cannot be written, the answer still stands,
// with a warning.
func (f *files) attach(rest *attachment) (brief.Saved, []brief.Flag) {
	saved := f.save(rest)
	if saved.Err == nil || rest.wanted {
		return saved, nil
	}
	return brief.Saved{}, []brief.Flag{{Flag: "file_not_saved", Severity: brief.Warning, Message: "What is left out here could not be saved: " + line(cause(saved.Err), 120)}}
}

// cause is an error without the path: who asked does not need to know the folder.
func cause(err error) string {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	return err.Error()
}

// save writes what did not fit into an answer.
func (f *files) save(rest *attachment) brief.Saved {
	random := make([]byte, 6)
	rand.Read(random)
	name, err := brief.FileName(rest.prefix, "", f.server.opts.Now().UTC(), hex.EncodeToString(random))
	if err != nil {
		return brief.Saved{Err: err}
	}
	exact, ok := rest.result.([]byte)
	if !ok {
		return brief.Save(rest.result, name, f.write)
	}
	path, err := f.write(name, exact)
	return brief.Saved{Path: path, Err: err}
}

// write is a brief.Saver.
func (f *files) write(name string, data []byte) (string, error) {
	dir, err := f.server.find()
	if err != nil {
		return "", errors.New("there is no box to write it to")
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	for _, part := range folder {
		dir = filepath.Join(dir, part)
		if err := durable.MakeFolder(dir); err != nil {
			return "", err
		}
	}
	path := filepath.Join(dir, name)
	if err := durable.Create(path, data, 0o600); err != nil {
		return "", err
	}
	f.register(&file{path: path, size: int64(len(data)), digest: sha256.Sum256(data), own: true})
	return path, nil
}

// adopt registers a file that was written for an answer of this server by somebody else.
func (f *files) adopt(path string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	digest := sha256.New()
	size, err := io.Copy(digest, in)
	if err != nil {
		return err
	}
	adopted := &file{path: path, size: size}
	digest.Sum(adopted.digest[:0])
	f.register(adopted)
	return nil
}

// register makes a file one that can be read, and forgets the oldest when there are too many.
func (f *files) register(added *file) {
	added.uri = fileURI(added.path)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.written = append(f.written, added)
	f.server.mcp.AddResource(&mcp.Resource{
		URI: added.uri, Name: filepath.Base(added.path), MIMEType: "application/json", Size: added.size,
		Description: "The whole result of a call, of which the answer was a short form.",
	}, func(_ context.Context, request *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return added.read(request.Params.URI)
	})
	for len(f.written) > maxFiles {
		oldest := f.written[0]
		f.written = f.written[1:]
		f.server.mcp.RemoveResources(oldest.uri)
		if oldest.own {
			if err := durable.Remove(oldest.path); err != nil {
				f.server.log.Warn("cannot remove an old answer", "file", oldest.path, "error", err)
			}
		}
	}
}

// fileURI is the path as a URI: file:///a/b, also where paths begin with a drive.
func fileURI(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// read gives the file, if it is still what was written.
func (w *file) read(uri string) (*mcp.ReadResourceResult, error) {
	if w.size > maxRead {
		return nil, fmt.Errorf("the file has %d bytes, which is too much for one message: read it from the disk", w.size)
	}
	data, err := w.bytes()
	if err != nil || sha256.Sum256(data) != w.digest {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "application/json", Text: string(data)}}}, nil
}

// bytes reads as much as was written. What is no plain file any more, such as a pipe that nobody writes to, is not opened.
func (w *file) bytes() ([]byte, error) {
	info, err := os.Lstat(w.path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() != w.size {
		return nil, fs.ErrNotExist
	}
	in, err := os.Open(w.path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return io.ReadAll(io.LimitReader(in, w.size+1))
}

// link is what an answer carries beside its text to name a file; nil if the server does not know the file.
func (f *files) link(path string) mcp.Content {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.written {
		if w.path == path {
			return &mcp.ResourceLink{URI: w.uri, Name: filepath.Base(w.path), Title: "The whole result", MIMEType: "application/json", Size: &w.size}
		}
	}
	return nil
}
