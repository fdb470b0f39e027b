// Package files keeps what does not fit into an answer: files under the box that a server writes, and gives to read over the protocol as
// long as they are as it wrote them. Nothing else can be read through it.
package files

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox/brief"
	"signalbox/internal/durable"
)

// folder is where answers that are too long lie, in the box.
var folder = []string{"logs", "mcp"}

const (
	// MaxFiles is how many files a server keeps that nobody asked for. The oldest gives way: an agent that asks and asks
	// does not fill the disk. What was asked for stays: it may have been handed on.
	MaxFiles = 64
	// keepDays is for how long files of earlier servers are kept, by the same measure.
	keepDays = 7
	// maxRead is the size of the largest file that is read back over the protocol.
	maxRead = 16 << 20
)

// Rest is what does not fit into an answer. Bytes are written as they are, anything else as JSON.
type Rest struct {
	Prefix string // of the file's name
	Result any
	// Wanted means that the file is what was asked for: without it the call failed.
	Wanted bool
}

// Keeper keeps the files that a server wrote. Its methods are safe for concurrent use.
type Keeper struct {
	find   func() (string, error)
	now    func() time.Time
	server *mcp.Server
	log    *slog.Logger

	swept sync.Once // what earlier servers left

	mu      sync.Mutex // guards written
	written []*file    // in the order they were written
}

// New returns a keeper whose files lie in the box that find tells, and are resources of the server.
func New(find func() (string, error), now func() time.Time, server *mcp.Server, log *slog.Logger) *Keeper {
	return &Keeper{find: find, now: now, server: server, log: log}
}

// file is one that was written. Its digest is that of what was written, so that what somebody else put in its place is not given out.
type file struct {
	path, uri string
	size      int64
	digest    [sha256.Size]byte
	spare     bool // nobody asked for it, and it may be removed
}

// Attach saves what did not fit into an answer. Where nobody asked for the file and it cannot be written, the answer still stands,
// with a warning.
func (f *Keeper) Attach(rest Rest) (brief.Saved, []brief.Flag) {
	saved := f.Save(rest)
	if saved.Err == nil || rest.Wanted {
		return saved, nil
	}
	return brief.Saved{}, []brief.Flag{{Flag: "file_not_saved", Severity: brief.Warning, Message: "What is left out here could not be saved: " + cause(saved.Err)}}
}

// cause is an error without the path, which who asked does not need to know, on one line.
func cause(err error) string {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	text := []rune(strings.Join(strings.Fields(err.Error()), " "))
	return string(text[:min(len(text), 120)])
}

// Save writes what did not fit into an answer.
func (f *Keeper) Save(rest Rest) brief.Saved {
	random := make([]byte, 6)
	rand.Read(random)
	name, err := brief.FileName(rest.Prefix, "", f.now().UTC(), hex.EncodeToString(random))
	if err != nil {
		return brief.Saved{Err: err}
	}
	write := func(name string, data []byte) (string, error) { return f.write(name, data, !rest.Wanted) }
	exact, ok := rest.Result.([]byte)
	if !ok {
		return brief.Save(rest.Result, name, write)
	}
	path, err := write(name, exact)
	return brief.Saved{Path: path, Err: err}
}

func (f *Keeper) write(name string, data []byte, spare bool) (string, error) {
	dir, err := f.find()
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
	if spare {
		name = spareMark + name
		f.swept.Do(func() { f.sweep(dir) })
	}
	path := filepath.Join(dir, name)
	if err := durable.Create(path, data, 0o600); err != nil {
		return "", err
	}
	f.register(&file{path: path, size: int64(len(data)), digest: sha256.Sum256(data), spare: spare})
	return path, nil
}

// spareMark begins the name of a file that nobody asked for.
const spareMark = "spare_"

// sweep removes what earlier servers left, once it is old.
func (f *Keeper) sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		f.log.Warn("cannot look for old answers", "folder", dir, "error", err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() || !strings.HasPrefix(entry.Name(), spareMark) || f.now().Sub(info.ModTime()) < keepDays*24*time.Hour {
			continue
		}
		if err := durable.Remove(filepath.Join(dir, entry.Name())); err != nil {
			f.log.Warn("cannot remove an old answer", "file", entry.Name(), "error", err)
		}
	}
}

// Adopt registers a file that was written for an answer of this server by somebody else.
func (f *Keeper) Adopt(path string) error {
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
func (f *Keeper) register(added *file) {
	added.uri = URI(added.path)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.written = append(f.written, added)
	f.server.AddResource(&mcp.Resource{
		URI: added.uri, Name: filepath.Base(added.path), MIMEType: "application/json", Size: added.size,
		Description: "The whole result of a call, of which the answer was a short form.",
	}, func(_ context.Context, request *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return added.read(request.Params.URI)
	})
	spare := 0
	for _, w := range f.written {
		if w.spare {
			spare++
		}
	}
	for i := 0; spare > MaxFiles && i < len(f.written); i++ {
		oldest := f.written[i]
		if !oldest.spare {
			continue
		}
		f.written = slices.Delete(f.written, i, i+1)
		f.server.RemoveResources(oldest.uri)
		if err := durable.Remove(oldest.path); err != nil {
			f.log.Warn("cannot remove an old answer", "file", oldest.path, "error", err)
		}
		spare, i = spare-1, i-1
	}
}

// URI is the path as a URI: file:///a/b, also where paths begin with a drive.
func URI(path string) string {
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

// Link is what an answer carries beside its text to name a file; nil if the server does not know the file.
func (f *Keeper) Link(path string) mcp.Content {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.written {
		if w.path == path {
			return &mcp.ResourceLink{URI: w.uri, Name: filepath.Base(w.path), Title: "The whole result", MIMEType: "application/json", Size: &w.size}
		}
	}
	return nil
}
