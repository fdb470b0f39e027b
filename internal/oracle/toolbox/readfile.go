package toolbox

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/text"
)

const (
	maxReadLines = 400
	maxReadText  = 32 << 10
	// maxReadLine is how many bytes of one line are shown.
	maxReadLine = 2000
	// maxCounted is how many bytes of a file are read to tell how many lines there are.
	maxCounted = 64 << 20
	maxListed  = 400
)

type readInput struct {
	Path string   `json:"path"`
	From *integer `json:"from"`
	To   *integer `json:"to"`
}

// ReadFile is the tool read_file, which reads files of a folder and lists its folders. It never leaves the folder, and
// what is closed to search_code is closed to it: .git and the box, names that stand for passwords and keys, and what
// .gitignore files leave out. A list says so.
func ReadFile(dir string) Tool {
	f := folder{dir}
	return Tool{
		Name:        "read_file",
		Description: "Reads a text file with line numbers, at most 400 lines at once. For a folder, lists what is in it.",
		Kind:        prompt.CodeTool,
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"path":{"type":"string","maxLength":1000,"description":"The file or folder, such as docs/guide.md; . is the top."},` +
			`"from":{"type":"integer","minimum":1,"description":"The first line. Default 1."},` +
			`"to":{"type":"integer","minimum":1,"description":"The last line. Default: as many as fit."}},` +
			`"required":["path"],"additionalProperties":false}`),
		ReadOnly: true,
		Use: func(ctx context.Context, call Call) (Result, error) {
			in, err := decode[readInput](call.Arguments)
			if err != nil {
				return Result{}, err
			}
			return f.read(ctx, in)
		},
	}
}

func (f folder) read(ctx context.Context, in readInput) (Result, error) {
	from, to := 1, 0
	if in.From != nil {
		from = max(int(*in.From), 1)
	}
	if in.To != nil {
		if to = int(*in.To); to < from {
			return Result{}, fmt.Errorf("line %d comes after line %d: give a from that is not larger than to", from, to)
		}
	}
	if to == 0 || to-from >= maxReadLines {
		to = from + maxReadLines - 1
	}
	root, err := f.open()
	if err != nil {
		return Result{}, err
	}
	defer root.Close()
	name, err := f.inside(in.Path)
	if err != nil {
		return Result{}, err
	}
	info, err := root.Stat(filepath.FromSlash(name))
	switch {
	case err != nil:
		return Result{}, f.missing(ctx, root, name, err)
	case info.IsDir():
		if err := unignored(root, name, true); err != nil {
			return Result{}, err
		}
		return list(root, name)
	case !info.Mode().IsRegular():
		return Result{}, fmt.Errorf("%s is neither a file nor a folder: it cannot be read", name)
	}
	if err := unignored(root, name, false); err != nil {
		return Result{}, err
	}
	opened, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return Result{}, f.missing(ctx, root, name, err)
	}
	defer opened.Close()
	return readLines(ctx, opened, name, info.Size(), from, to)
}

// readLines shows lines of a file.
func readLines(ctx context.Context, opened io.Reader, name string, size int64, from, to int) (Result, error) {
	r := bufio.NewReaderSize(opened, 64<<10)
	head, err := r.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		return Result{}, fmt.Errorf("%s cannot be read: %v", name, cause(err))
	}
	if isBinary(head) {
		return Result{}, fmt.Errorf("%s is binary (%d bytes): only text can be read", name, size)
	}
	if len(head) == 0 {
		return Result{Text: name + " is empty"}, nil
	}
	if bytes.HasPrefix(head, []byte("\uFEFF")) {
		r.Discard(len("\uFEFF"))
	}
	w := window{from: from, to: to}
	err = nil // the end that Peek may have seen comes again
	for w.read < maxCounted && err == nil {
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		var piece []byte
		piece, err = r.ReadSlice('\n')
		w.take(piece, err == nil)
		if errors.Is(err, bufio.ErrBufferFull) {
			err = nil
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return Result{}, fmt.Errorf("%s cannot be read: %v", name, cause(err))
	}
	w.end()
	if w.shown == 0 {
		return Result{}, fmt.Errorf("%s has only %s: ask for lines up to there", name, count(w.lines, "line", "lines"))
	}
	last := from + w.shown - 1
	total := fmt.Sprintf("%d", w.lines)
	if err == nil {
		total = "more than " + total
	}
	text := fmt.Sprintf("%s, lines %d to %d of %s:\n%s", name, from, last, total, w.text.String())
	if last < w.lines {
		text += fmt.Sprintf("(read on with from=%d)\n", last+1)
	}
	return Result{Text: text, Sources: []chunk.Source{{Type: "code", Path: name, Line: from}}}, nil
}

// window takes pieces of a file and keeps the lines that were asked for, as far as there is room.
type window struct {
	from, to int
	text     strings.Builder
	read     int
	lines    int // those that are complete
	shown    int
	full     bool

	line   []byte // the beginning of the one that is being read
	length int    // of it so far
}

func (w *window) take(piece []byte, ends bool) {
	w.read += len(piece)
	w.length += len(piece)
	if number := w.lines + 1; number >= w.from && number <= w.to && !w.full && len(w.line) <= maxReadLine {
		w.line = append(w.line, piece[:min(len(piece), maxReadLine+2)]...)
	}
	if ends {
		w.end()
	}
}

// end ends the line that is being read, if there is one.
func (w *window) end() {
	if w.length == 0 {
		return
	}
	w.lines++
	if w.lines >= w.from && w.lines <= w.to && !w.full {
		line := valid(string(bytes.TrimRight(w.line, "\r\n")))
		if len(line) > maxReadLine {
			line = Cut(line, maxReadLine) + fmt.Sprintf("… (the line has %d bytes)", w.length)
		}
		numbered := fmt.Sprintf("%d\t%s\n", w.lines, line)
		if w.text.Len()+len(numbered) > maxReadText && w.shown > 0 {
			w.full = true
		} else {
			w.text.WriteString(numbered)
			w.shown++
		}
	}
	w.line, w.length = w.line[:0], 0
}

// list shows what is in a folder.
func list(root *os.Root, name string) (Result, error) {
	dir, err := root.OpenRoot(filepath.FromSlash(name))
	if err != nil {
		return Result{}, fmt.Errorf("%s cannot be read: %v", name, cause(err))
	}
	defer dir.Close()
	entries, err := entriesOf(dir)
	if err != nil {
		return Result{}, fmt.Errorf("%s cannot be read: %v", name, cause(err))
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return isOneOf(closedNames(), e.Name()) })
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	ignoring := rulesAbove(root, name).below(root, name)
	var text strings.Builder
	fmt.Fprintf(&text, "%s is a folder with %s:\n", name, count(len(entries), "entry", "entries"))
	for i, entry := range entries {
		line := valid(entry.Name())
		switch info, err := entry.Info(); {
		case entry.IsDir():
			line += "/"
		case entry.Type()&fs.ModeSymlink != 0:
			line += " (link)"
		case err == nil && entry.Type().IsRegular():
			line += fmt.Sprintf(" (%s)", count(int(info.Size()), "byte", "bytes"))
		}
		if isSecret(entry.Name()) || ignoring.exclude(join(name, entry.Name()), entry.Name(), entry.IsDir()) {
			line += " (closed to tools)"
		}
		if i == maxListed || text.Len()+len(line) > maxReadText {
			fmt.Fprintf(&text, "(and %d more; search_code finds files by what is in them)\n", len(entries)-i)
			break
		}
		text.WriteString(line + "\n")
	}
	return Result{Text: text.String()}, nil
}

// missing is the error about a file that could not be opened: most often it is not there, and another has a name like it.
func (f folder) missing(ctx context.Context, root *os.Root, name string, err error) error {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s cannot be read: %v", name, cause(err))
	}
	text := "there is no " + name
	if near := alike(ctx, root, name); len(near) > 0 {
		return fmt.Errorf("%s; did you mean %s?", text, strings.Join(near, " or "))
	}
	parent := path.Dir(name)
	for parent != "." {
		if info, err := root.Stat(filepath.FromSlash(parent)); err == nil && info.IsDir() {
			break
		}
		parent = path.Dir(parent)
	}
	return fmt.Errorf("%s; see what there is with read_file and the path %s, or look for it with search_code", text, parent)
}

// alike are paths that may have been meant: files of the same name elsewhere, and such with nearly the same name in the
// same folder, nearest first.
func alike(ctx context.Context, root *os.Root, name string) []string {
	const most = 4
	type candidate struct {
		path     string
		distance int
	}
	var (
		mu  sync.Mutex // guards all
		all []candidate
	)
	base := strings.ToLower(path.Base(name))
	err := walk(ctx, root, ".", func() func(file) {
		return func(f file) {
			distance := text.EditDistance(base, strings.ToLower(path.Base(f.path)))
			if path.Dir(f.path) != path.Dir(name) {
				distance = 2*distance + 1
			}
			if distance <= 1+len(base)/4 {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, candidate{f.path, distance})
			}
		}
	})
	if err != nil {
		return nil
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(len(a.path), len(b.path)), cmp.Compare(a.path, b.path))
	})
	var names []string
	for _, c := range all[:min(len(all), most)] {
		names = append(names, c.path)
	}
	return names
}
