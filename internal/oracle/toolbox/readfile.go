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

	"signalbox/internal/durable"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/text"
)

const (
	maxReadLines = 400
	maxReadText  = 32 << 10
	// maxReadLine is how many bytes of one line are shown.
	maxReadLine = 2000
	// maxCounted is how many bytes of a file are read to count its lines.
	maxCounted = 64 << 20
	maxListed  = 400
)

type readInput struct {
	Path string   `json:"path"`
	From *integer `json:"from"`
	To   *integer `json:"to"`
}

// ReadFile returns the tool read_file, which reads text files and lists folders below dir. It never
// leaves dir, and refuses what search_code skips: .git, the box, files that usually hold passwords
// or keys, and what .gitignore files exclude. Such entries are marked in a listing.
func ReadFile(dir string) Tool {
	f := folder{dir}
	return Tool{
		Name:        "read_file",
		Description: "Reads a text file with line numbers, at most 400 lines per call. If the path is a folder, lists its entries.",
		Kind:        prompt.CodeTool,
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"path":{"type":"string","maxLength":1000,"description":"File or folder, for example docs/guide.md; . is the top folder."},` +
			`"from":{"type":"integer","minimum":1,"description":"First line to read. Default 1."},` +
			`"to":{"type":"integer","minimum":1,"description":"Last line to read. Default: as many as fit."}},` +
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
			return Result{}, fmt.Errorf(
				"from (%d) is greater than to (%d): swap them or leave out to", from, to)
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
		return Result{}, fmt.Errorf("%s is neither a file nor a folder", name)
	}
	if err := unignored(root, name, false); err != nil {
		return Result{}, err
	}
	opened, err := durable.OpenRegularIn(root, filepath.FromSlash(name))
	if err != nil {
		return Result{}, f.missing(ctx, root, name, err)
	}
	defer opened.Close()
	return readLines(ctx, opened, name, info.Size(), from, to)
}

// readLines returns the lines from from to to of a file.
func readLines(ctx context.Context, opened io.Reader, name string, size int64, from,
	to int) (Result, error) {
	r := bufio.NewReaderSize(opened, 64<<10)
	head, err := r.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		return Result{}, fmt.Errorf("cannot read %s: %v", name, cause(err))
	}
	if isBinary(head) {
		return Result{}, fmt.Errorf("%s is a binary file (%d bytes): only text can be read", name,
			size)
	}
	if len(head) == 0 {
		return Result{Text: name + " is empty"}, nil
	}
	if bytes.HasPrefix(head, []byte("\uFEFF")) {
		r.Discard(len("\uFEFF"))
	}
	w := window{from: from, to: to}
	err = nil // an EOF that Peek returned is returned again
	for w.read < maxCounted && err == nil {
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		var piece []byte
		piece, err = r.ReadSlice('\n')
		w.add(piece, err == nil)
		if errors.Is(err, bufio.ErrBufferFull) {
			err = nil
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return Result{}, fmt.Errorf("cannot read %s: %v", name, cause(err))
	}
	w.endLine()
	if w.shown == 0 {
		return Result{}, fmt.Errorf("%s has only %s: choose a smaller from", name,
			text.Count(w.lines, "line"))
	}
	last := from + w.shown - 1
	total := fmt.Sprintf("%d", w.lines)
	if err == nil {
		total = "more than " + total
	}
	output := fmt.Sprintf("%s, lines %d to %d of %s:\n%s", name, from, last, total, w.text.String())
	if last < w.lines {
		output += fmt.Sprintf("(continue with from=%d)\n", last+1)
	}
	return Result{Text: output, Sources: []chunk.Source{{Type: "code", Path: name, Line: from}}},
		nil
}

// window collects the requested lines of a file that is read piece by piece, until maxReadText is
// reached.
type window struct {
	from, to int
	text     strings.Builder
	read     int
	lines    int // completed so far
	shown    int
	full     bool

	line   []byte // the beginning of the current line
	length int    // of the current line so far
}

func (w *window) add(piece []byte, endsLine bool) {
	w.read += len(piece)
	w.length += len(piece)
	if number := w.lines + 1; number >= w.from && number <= w.to && !w.full &&
		len(w.line) <= maxReadLine {
		w.line = append(w.line, piece[:min(len(piece), maxReadLine+2)]...)
	}
	if endsLine {
		w.endLine()
	}
}

// endLine completes the current line, if there is one.
func (w *window) endLine() {
	if w.length == 0 {
		return
	}
	w.lines++
	if w.lines >= w.from && w.lines <= w.to && !w.full {
		line := valid(string(bytes.TrimRight(w.line, "\r\n")))
		if len(line) > maxReadLine {
			line = text.Truncate(line, maxReadLine) + fmt.Sprintf("… (the line has %d bytes)",
				w.length)
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

// list returns the entries of a folder.
func list(root *os.Root, name string) (Result, error) {
	entries, err := entriesOf(root, name)
	if err != nil {
		return Result{}, fmt.Errorf("cannot read %s: %v", name, cause(err))
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return isClosed(e.Name()) })
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	ignoring := rulesAbove(root, name).below(root, name)
	var out strings.Builder
	fmt.Fprintf(&out, "%s is a folder with %s:\n", name, entryCount(len(entries)))
	for i, entry := range entries {
		line := valid(entry.Name())
		switch info, err := entry.Info(); {
		case entry.IsDir():
			line += "/"
		case entry.Type()&fs.ModeSymlink != 0:
			line += " (link)"
		case err == nil && entry.Type().IsRegular():
			line += fmt.Sprintf(" (%s)", text.Count(int(info.Size()), "byte"))
		}
		if isSecret(path.Base(name), entry.Name()) || ignoring.exclude(join(name, entry.Name()),
			entry.Name(), entry.IsDir()) {
			line += " (not accessible to tools)"
		}
		if i == maxListed || out.Len()+len(line) > maxReadText {
			fmt.Fprintf(&out, "(and %d more; search_code finds files by their content)\n",
				len(entries)-i)
			break
		}
		out.WriteString(line + "\n")
	}
	return Result{Text: out.String()}, nil
}

// missing returns the error about a file that cannot be opened. If it does not exist, the error
// suggests similar names.
func (f folder) missing(ctx context.Context, root *os.Root, name string, err error) error {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot read %s: %v", name, cause(err))
	}
	if similar := similarPaths(ctx, root, name); len(similar) > 0 {
		return fmt.Errorf("%s does not exist; did you mean %s?", name,
			strings.Join(similar, " or "))
	}
	parent := path.Dir(name)
	for parent != "." {
		if info, err := root.Stat(filepath.FromSlash(parent)); err == nil && info.IsDir() {
			break
		}
		parent = path.Dir(parent)
	}
	return fmt.Errorf("%s does not exist; list the folder with read_file and the path %s, or find it with search_code", name, parent)
}

// similarPaths returns the paths that name may be a misspelling of, closest first: files with the
// same name in other folders, and with a similar name in the same folder.
func similarPaths(ctx context.Context, root *os.Root, name string) []string {
	const maxPaths = 4
	type candidate struct {
		path     string
		distance int
	}
	var all []candidate
	base := strings.ToLower(path.Base(name))
	err := walk(ctx, root, ".", func(f file) {
		distance := text.EditDistance(base, strings.ToLower(path.Base(f.path)))
		if path.Dir(f.path) != path.Dir(name) {
			distance = 2*distance + 1
		}
		if distance <= 1+len(base)/4 {
			all = append(all, candidate{f.path, distance})
		}
	})
	if err != nil {
		return nil
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(len(a.path), len(b.path)),
			cmp.Compare(a.path, b.path))
	})
	var names []string
	for _, c := range all[:min(len(all), maxPaths)] {
		names = append(names, c.path)
	}
	return names
}

func entryCount(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}
