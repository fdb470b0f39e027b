// Package files stores what does not fit into an answer. A server writes the files to the box and
// offers them as MCP resources as long as they are unchanged. No other files can be read through
// it.
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
	"signalbox/internal/text"
)

// folder is the path of the files in the box.
var folder = []string{"logs", "mcp"}

const (
	// MaxFiles is how many temporary files a server keeps. Older ones are deleted, so that an agent
	// that makes many calls does not fill the disk.
	MaxFiles = 64
	// keepDays is how long temporary files of earlier servers are kept.
	keepDays = 7
	// maxRead is the maximum size of a file that resources/read returns.
	maxRead = 16 << 20
)

// Attachment is the content of a file. Bytes are written unchanged, anything else as JSON.
type Attachment struct {
	Prefix string // of the file's name
	Result any
	// Required means that the call fails if the file cannot be written, and that the file is kept.
	// Other files are temporary.
	Required bool
}

// Store holds the files that a server wrote. Its methods are safe for concurrent use.
type Store struct {
	find   func() (string, error)
	now    func() time.Time
	server *mcp.Server
	log    *slog.Logger

	sweepOnce sync.Once // for the files of earlier servers

	mu      sync.Mutex // guards written
	written []*file    // oldest first
}

// New returns a store that writes to the box that find returns, and adds its files to the resources
// of server.
func New(find func() (string, error), now func() time.Time, server *mcp.Server,
	log *slog.Logger) *Store {
	return &Store{find: find, now: now, server: server, log: log}
}

// file is a file of the store. The digest ensures that a file that was changed or replaced is not
// served.
type file struct {
	path, uri string
	size      int64
	digest    [sha256.Size]byte
	temporary bool // may be deleted to make room
}

// Attach saves an attachment. If a temporary file cannot be written, the answer is still valid:
// Attach returns a warning.
func (f *Store) Attach(a Attachment) (brief.Saved, []brief.Flag) {
	saved := f.Save(a)
	saved.Required = a.Required
	if saved.Err == nil || a.Required {
		return saved, nil
	}
	return brief.Saved{},
		[]brief.Flag{{Flag: "file_not_saved", Severity: brief.Warning,
			Message: "What is left out of this answer could not be saved: " + cause(saved.Err)}}
}

// cause returns the text of an error on one line, without the path, which a client need not know.
func cause(err error) string {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	return text.Shorten(text.OneLine(err.Error()), 120)
}

// Save writes an attachment.
func (f *Store) Save(a Attachment) brief.Saved {
	random := make([]byte, 6)
	rand.Read(random)
	name, err := brief.FileName(a.Prefix, "", f.now().UTC(), hex.EncodeToString(random))
	if err != nil {
		return brief.Saved{Err: err}
	}
	write := func(name string,
		data []byte) (string, error) {
		return f.write(name, data, !a.Required)
	}
	exact, ok := a.Result.([]byte)
	if !ok {
		return brief.Save(a.Result, name, write)
	}
	path, err := write(name, exact)
	return brief.Saved{Path: path, Err: err}
}

func (f *Store) write(name string, data []byte, temporary bool) (string, error) {
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
	if temporary {
		name = temporaryPrefix + name
		f.sweepOnce.Do(func() { f.sweep(dir) })
	}
	path := filepath.Join(dir, name)
	if err := durable.Create(path, data, 0o600); err != nil {
		return "", err
	}
	f.register(&file{path: path, size: int64(len(data)), digest: sha256.Sum256(data),
		temporary: temporary})
	return path, nil
}

// temporaryPrefix is the prefix of the names of temporary files.
const temporaryPrefix = "spare_"

// sweep deletes old temporary files of earlier servers.
func (f *Store) sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		f.log.Warn("cannot list old files", "folder", dir, "error", err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() ||
			!strings.HasPrefix(entry.Name(), temporaryPrefix) ||
			f.now().Sub(info.ModTime()) < keepDays*24*time.Hour {
			continue
		}
		if err := durable.Remove(filepath.Join(dir, entry.Name())); err != nil {
			f.log.Warn("cannot delete an old file", "file", entry.Name(), "error", err)
		}
	}
}

// Adopt adds a file that another package wrote for an answer of this server.
func (f *Store) Adopt(path string) error {
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

// register makes a file a resource, and deletes the oldest temporary files if there are too many.
func (f *Store) register(added *file) {
	added.uri = URI(added.path)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.written = append(f.written, added)
	f.server.AddResource(&mcp.Resource{
		URI: added.uri, Name: filepath.Base(added.path), MIMEType: "application/json",
		Size:        added.size,
		Description: "The complete result of a call.",
	}, func(_ context.Context, request *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return added.read(request.Params.URI)
	})
	temporary := 0
	for _, w := range f.written {
		if w.temporary {
			temporary++
		}
	}
	for i := 0; temporary > MaxFiles && i < len(f.written); i++ {
		oldest := f.written[i]
		if !oldest.temporary {
			continue
		}
		f.written = slices.Delete(f.written, i, i+1)
		f.server.RemoveResources(oldest.uri)
		if err := durable.Remove(oldest.path); err != nil {
			f.log.Warn("cannot delete an old file", "file", oldest.path, "error", err)
		}
		temporary, i = temporary-1, i-1
	}
}

// URI returns a path as a file URI, also for paths that begin with a drive letter.
func URI(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// read returns the content of the file if it is unchanged.
func (w *file) read(uri string) (*mcp.ReadResourceResult, error) {
	if w.size > maxRead {
		return nil, fmt.Errorf("the file has %d bytes, too many for a message: read it from disk",
			w.size)
	}
	data, err := w.bytes()
	if err != nil || sha256.Sum256(data) != w.digest {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri,
		MIMEType: "application/json", Text: string(data)}}}, nil
}

// bytes reads the file. It does not open what is no longer a regular file: opening a pipe could
// block.
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

// Link returns a resource link to a file, or nil if the file is not in the store.
func (f *Store) Link(path string) mcp.Content {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.written {
		if w.path == path {
			return &mcp.ResourceLink{URI: w.uri, Name: filepath.Base(w.path),
				Title: "Complete result", MIMEType: "application/json", Size: &w.size}
		}
	}
	return nil
}
