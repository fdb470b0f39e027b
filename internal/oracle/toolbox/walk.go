package toolbox

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"signalbox/internal/durable"
)

// file is a regular file that a walk visits.
type file struct {
	root  *os.Root
	path  string // relative to root, with slashes
	entry fs.DirEntry
}

// walk visits the files below a folder, in any order. It skips symbolic links, what is not
// accessible to tools, skippedNames, what cannot be read, and what .gitignore files exclude. Only
// .gitignore files from root down count, not those above it or git's own configuration.
func walk(ctx context.Context, root *os.Root, start string, visit func(file)) error {
	type task struct {
		dir   string
		rules *rules
	}
	tasks := []task{{start, rulesAbove(root, start)}}
	for len(tasks) > 0 {
		t := tasks[len(tasks)-1]
		tasks = tasks[:len(tasks)-1]
		entries, err := entriesOf(root, t.dir)
		if err != nil && len(entries) == 0 {
			continue
		}
		within := t.rules.below(root, t.dir)
		for _, entry := range entries {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			name := entry.Name()
			full := join(t.dir, name)
			switch {
			case isClosed(name), isSecret(path.Base(t.dir), name):
			case entry.IsDir():
				if !isOneOf(skippedNames(), name) && !within.exclude(full, name, true) {
					tasks = append(tasks, task{full, within})
				}
			case entry.Type().IsRegular() && !within.exclude(full, name, false):
				visit(file{root, full, entry})
			}
		}
	}
	return ctx.Err()
}

func entriesOf(root *os.Root, name string) ([]fs.DirEntry, error) {
	// Open would wait for a pipe that has replaced the folder since it was listed.
	folder, err := root.OpenRoot(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	dir, err := folder.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.ReadDir(-1)
}

func readIgnoreFile(root *os.Root, name string) string {
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := durable.OpenRegularIn(root, name)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	if err != nil {
		return ""
	}
	return string(text)
}

// rulesAbove returns the rules of all folders above dir.
func rulesAbove(root *os.Root, dir string) (r *rules) {
	if dir == "." {
		return nil
	}
	at := "."
	for part := range strings.SplitSeq(dir, "/") {
		r = r.below(root, at)
		at = join(at, part)
	}
	return r
}

// read returns the content of a file, using buffer if it is large enough. There is no text if the
// file has more than limit bytes (large) or is binary.
func (f file) read(buffer []byte, limit int) (text []byte, large, binary bool, err error) {
	opened, err := durable.OpenRegularIn(f.root, filepath.FromSlash(f.path))
	if err != nil {
		return buffer[:0], false, false, err
	}
	defer opened.Close()
	info, err := opened.Stat()
	if err != nil {
		return buffer[:0], false, false, err
	}
	size := info.Size()
	if size > int64(limit) {
		return buffer[:0], true, false, nil
	}
	if int64(cap(buffer)) < size {
		buffer = make([]byte, size+size/4)
	}
	text = buffer[:size]
	head := min(len(text), sniffed)
	n, err := io.ReadFull(opened, text[:head])
	if isBinary(text[:n]) {
		return text[:0], false, true, nil
	}
	if err == nil && head < len(text) {
		var rest int
		rest, err = io.ReadFull(opened, text[head:])
		n += rest
	}
	if err != nil && n == 0 && size > 0 {
		return text[:0], false, false, err
	}
	return text[:n], false, false, nil // it may have become shorter in the meantime
}

// sniffed is how many bytes of a file are checked to see whether it is text.
const sniffed = 8000
