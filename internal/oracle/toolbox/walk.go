package toolbox

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	maxWalkers = 8
	// batch is how many files of a folder one walker takes at a time, so that several share a large folder.
	batch = 64
)

// file is one that a walk came by. It is a regular file, and no link.
type file struct {
	root  *os.Root // the folder that it is in
	path  string   // from the top, with slashes
	entry fs.DirEntry
}

// walk goes through the files below a folder, in no order, with several goroutines. Each has a visitor of its own. It
// passes over links, what is closed to tools, what a search skips, and what .gitignore files leave out: those from the
// top of the tree down, not those above it, nor what git knows from elsewhere. What cannot be read is passed over too.
func walk(ctx context.Context, root *os.Root, start string, visitor func() func(file)) error {
	w := &walking{root: root}
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
				w.do(ctx, t, visit)
				w.done()
			}
		})
	}
	group.Wait()
	for _, t := range w.tasks { // of a walk that broke down
		t.release()
	}
	if w.panicked != nil {
		panic(w.panicked) // in the goroutine of the one who called, who may know what to do
	}
	return ctx.Err()
}

// task is a folder to look into, or some files of one.
type task struct {
	dir   string
	rules *rules
	here  *shared // nil for a folder that is not open yet
	files []fs.DirEntry
}

func (t task) release() {
	if t.here != nil {
		t.here.release()
	}
}

// shared is an open folder that is closed when its last task is done.
type shared struct {
	*os.Root
	users atomic.Int32
}

func (s *shared) release() {
	if s.users.Add(-1) == 0 {
		s.Close()
	}
}

type walking struct {
	root *os.Root

	mu       sync.Mutex // guards what follows
	idle     *sync.Cond
	tasks    []task // the last is taken first, so that few folders are open at a time
	busy     int
	stopped  bool
	panicked any
}

func (w *walking) push(tasks ...task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tasks = append(w.tasks, tasks...)
	w.idle.Broadcast()
}

// pop waits for a task. There is none any more when nobody works who could add one.
func (w *walking) pop() (task, bool) {
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

func (w *walking) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
	if w.busy == 0 {
		w.idle.Broadcast()
	}
}

func (w *walking) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.idle.Broadcast()
}

func (w *walking) fail(p any) {
	w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.panicked = p
}

func (w *walking) do(ctx context.Context, t task, visit func(file)) {
	if t.here == nil && ctx.Err() == nil {
		t = w.look(t)
	}
	if t.here == nil {
		return
	}
	defer t.release()
	for _, entry := range t.files {
		if ctx.Err() != nil {
			return
		}
		visit(file{t.here.Root, join(t.dir, entry.Name()), entry})
	}
}

// look opens a folder and reads what is in it. Its folders, and files beyond the first batch, are tasks for anybody.
func (w *walking) look(t task) task {
	opened, err := w.root.OpenRoot(filepath.FromSlash(t.dir))
	if err != nil {
		return task{}
	}
	here := &shared{Root: opened}
	here.users.Store(1)
	entries, err := entriesOf(opened)
	if err != nil && len(entries) == 0 {
		here.release()
		return task{}
	}
	if text := ignoreFile(opened, entries); text != "" {
		t.rules = t.rules.with(t.dir, text)
	}
	var files []fs.DirEntry
	var more []task
	for _, entry := range entries {
		name := entry.Name()
		whole := join(t.dir, name)
		switch {
		case isOneOf(closedNames(), name), isSecret(name):
		case entry.IsDir():
			if !isOneOf(skippedNames(), name) && !t.rules.exclude(whole, name, true) {
				more = append(more, task{dir: whole, rules: t.rules})
			}
		case entry.Type().IsRegular() && !t.rules.exclude(whole, name, false):
			files = append(files, entry)
		}
	}
	for len(files) > batch {
		here.users.Add(1)
		more = append(more, task{dir: t.dir, here: here, files: files[len(files)-batch:]})
		files = files[:len(files)-batch]
	}
	w.push(more...)
	return task{dir: t.dir, here: here, files: files}
}

func entriesOf(root *os.Root) ([]fs.DirEntry, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.ReadDir(-1)
}

// ignoreFile is the text of a folder's .gitignore, if it is a plain file.
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
	f, err := root.Open(name)
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

// rulesAbove are those of the folders on the way to a folder.
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

// read returns what is in a regular file, using the buffer if it is large enough. It reports with large that the file has
// more than a limit, and with binary that it is no text; there is no text then. An error is about a file that cannot be
// read, or is none.
func (f file) read(buffer []byte, limit int) (text []byte, large, binary bool, err error) {
	opened, err := f.root.Open(f.entry.Name())
	if err != nil {
		return buffer[:0], false, false, err
	}
	defer opened.Close()
	info, err := opened.Stat()
	if err != nil {
		return buffer[:0], false, false, err
	}
	if !info.Mode().IsRegular() {
		return buffer[:0], false, false, fmt.Errorf("%s is no file", f.path)
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
	return text[:n], false, false, nil // it may have become shorter meanwhile
}

// sniffed is how many bytes of a file are looked at to see whether it is text.
const sniffed = 8000
