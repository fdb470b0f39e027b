package toolbox

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"signalbox/internal/durable"
)

const (
	maxWalkers = 8
	// batch is how many files of a folder a walker visits at a time, so that several walkers share
	// a large folder.
	batch = 64
)

// file is a regular file that a walk visits.
type file struct {
	root  *os.Root // the folder of the file
	path  string   // relative to the top folder, with slashes
	entry fs.DirEntry
}

// walk visits the files below a folder, in any order, with several goroutines, each with its own
// visitor. It skips symbolic links, what is not accessible to tools, skippedNames, what cannot be
// read, and what .gitignore files exclude. Only .gitignore files from root down count, not those
// above it or git's own configuration.
func walk(ctx context.Context, root *os.Root, start string, visitor func() func(file)) error {
	w := &walker{root: root}
	w.idle = sync.NewCond(&w.mu)
	w.push(task{dir: start, rules: rulesAbove(root, start)})
	var group sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), maxWalkers) {
		visit := visitor()
		group.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					w.fail(p)
				}
			}()
			for t, ok := w.pop(); ok; t, ok = w.pop() {
				w.run(ctx, t, visit)
				w.done()
			}
		})
	}
	group.Wait()
	for _, t := range w.tasks { // not empty only after a panic
		t.release()
	}
	if w.panicked != nil {
		panic(w.panicked) // in the caller's goroutine, which may recover
	}
	return ctx.Err()
}

// task is a folder to read, or some files of an open folder.
type task struct {
	dir   string
	rules *rules
	open  *sharedRoot // nil for a folder that is not open yet
	files []fs.DirEntry
}

func (t task) release() {
	if t.open != nil {
		t.open.release()
	}
}

// sharedRoot is an open folder that is closed when its last task is done.
type sharedRoot struct {
	*os.Root
	users atomic.Int32
}

func (s *sharedRoot) release() {
	if s.users.Add(-1) == 0 {
		s.Close()
	}
}

// walker distributes tasks to goroutines.
type walker struct {
	root *os.Root

	mu       sync.Mutex // guards the fields below
	idle     *sync.Cond
	tasks    []task // a stack, so that few folders are open at a time
	busy     int
	stopped  bool
	panicked any
}

func (w *walker) push(tasks ...task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tasks = append(w.tasks, tasks...)
	w.idle.Broadcast()
}

// pop waits for a task. It returns false when there are no tasks and no goroutine is busy that
// could add one.
func (w *walker) pop() (task, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.tasks) == 0 && w.busy > 0 && !w.stopped {
		w.idle.Wait()
	}
	if len(w.tasks) == 0 || w.stopped {
		return task{}, false
	}
	last := len(w.tasks) - 1
	t := w.tasks[last]
	w.tasks = w.tasks[:last]
	w.busy++
	return t, true
}

func (w *walker) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
	if w.busy == 0 {
		w.idle.Broadcast()
	}
}

func (w *walker) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.idle.Broadcast()
}

func (w *walker) fail(p any) {
	w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.panicked = p
}

func (w *walker) run(ctx context.Context, t task, visit func(file)) {
	if t.open == nil && ctx.Err() == nil {
		t = w.readDir(t)
	}
	if t.open == nil {
		return
	}
	defer t.release()
	for _, entry := range t.files {
		if ctx.Err() != nil {
			return
		}
		visit(file{t.open.Root, join(t.dir, entry.Name()), entry})
	}
}

// readDir opens a folder and returns a task with its first batch of files. Subfolders and further
// batches become new tasks.
func (w *walker) readDir(t task) task {
	root, err := w.root.OpenRoot(filepath.FromSlash(t.dir))
	if err != nil {
		return task{}
	}
	opened := &sharedRoot{Root: root}
	opened.users.Store(1)
	entries, err := entriesOf(root)
	if err != nil && len(entries) == 0 {
		opened.release()
		return task{}
	}
	if text := ignoreFile(root, entries); text != "" {
		t.rules = t.rules.with(t.dir, text)
	}
	var files []fs.DirEntry
	var more []task
	for _, entry := range entries {
		name := entry.Name()
		full := join(t.dir, name)
		switch {
		case isClosed(name), isSecret(path.Base(t.dir), name):
		case entry.IsDir():
			if !isOneOf(skippedNames(), name) && !t.rules.exclude(full, name, true) {
				more = append(more, task{dir: full, rules: t.rules})
			}
		case entry.Type().IsRegular() && !t.rules.exclude(full, name, false):
			files = append(files, entry)
		}
	}
	for len(files) > batch {
		opened.users.Add(1)
		more = append(more, task{dir: t.dir, open: opened, files: files[len(files)-batch:]})
		files = files[:len(files)-batch]
	}
	w.push(more...)
	return task{dir: t.dir, open: opened, files: files}
}

func entriesOf(root *os.Root) ([]fs.DirEntry, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.ReadDir(-1)
}

// ignoreFile returns the text of a folder's .gitignore, if it has one that is a regular file.
func ignoreFile(root *os.Root, entries []fs.DirEntry) string {
	for _, entry := range entries {
		if entry.Name() == ".gitignore" && entry.Type().IsRegular() {
			return readIgnoreFile(root, ".gitignore")
		}
	}
	return ""
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
	opened, err := durable.OpenRegularIn(f.root, f.entry.Name())
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
