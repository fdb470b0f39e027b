package workspace

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"signalbox/internal/text"
)

// DiffOptions are options for a diff.
type DiffOptions struct {
	// Stat lists the files with the number of changed lines instead.
	Stat bool
	// Width is the width of the list of files; 0 means 80.
	Width int
	// Only are the files that Diff shows, all if it is empty, and Without those that it leaves out.
	Only, Without []string
}

// maxArguments is how many bytes of paths git gets at once. The whole command line may have 32 KiB
// on Windows.
const maxArguments = 24 << 10

// pathBatches returns the arguments that limit git to paths, for as many calls as they need.
func pathBatches(magic string, names []string) [][]string {
	var batches [][]string
	room := 0
	for _, name := range names {
		arg := ":(top," + magic + ")" + name
		if room -= len(arg) + 1; room < 0 {
			batches, room = append(batches, []string{"--"}), maxArguments-len(arg)-1
		}
		last := &batches[len(batches)-1]
		*last = append(*last, arg)
	}
	return batches
}

func (o DiffOptions) args(command string) []string {
	args := []string{command, "--no-color", "--no-ext-diff", "--no-textconv",
		"--ignore-submodules=dirty", "--find-renames"}
	switch {
	case o.Stat && o.Width > 0:
		return append(args, fmt.Sprintf("--stat=%d", o.Width))
	case o.Stat:
		return append(args, "--stat")
	}
	return append(args, "--patch", "--full-index")
}

// Diff writes what changed from one commit to another. No attribute has an effect on it: those of a
// commit could hide what the commit changes. If attributes change, the first line says so.
func (r *commits) Diff(ctx context.Context, w io.Writer, from, to string, o DiffOptions) error {
	return r.diffTrees(ctx, w, from+"^{commit}", to+"^{commit}", nil, o)
}

// diffTrees is Diff for any two trees. env is added to the environment of git.
func (r *commits) diffTrees(ctx context.Context, w io.Writer, from, to string, env []string,
	o DiffOptions) error {
	dir, err := os.MkdirTemp("", "signalbox-diff-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d := &differ{repo: r, empty: filepath.Join(dir, "tree"), env: slices.Concat(env, []string{"GIT_INDEX_FILE=" + filepath.Join(dir, "index")})}
	if err := os.Mkdir(d.empty, 0o700); err != nil {
		return err
	}
	note, err := d.attributesNote(ctx, from, to)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, note); err != nil {
		return err
	}
	lines := &binaryLines{w: bufio.NewWriter(w),
		describe: func(line string, old, new blobID) (string, error) {
			return d.describeBinary(ctx, line, old, new)
		}}
	batches, err := d.pathBatches(ctx, from, to, o)
	if err != nil {
		return err
	}
	args := append(o.args("diff"), "--end-of-options", from, to) // -- would not be a commit
	for _, paths := range batches {
		if err := d.git(ctx, lines, slices.Concat(args, paths)...); err != nil {
			return err
		}
	}
	return nil
}

// differ compares trees in an empty folder, in which git finds no attributes.
type differ struct {
	repo  *commits
	empty string
	env   []string
}

func (d *differ) git(ctx context.Context, w io.Writer, args ...string) error {
	_, err := d.repo.run(ctx, call{dir: d.repo.Root, empty: d.empty, args: args, env: d.env,
		stdout: w})
	return err
}

// pathBatches returns the arguments for Only and Without. Paths that do not fit into one command
// line take several calls of git, each of which finds renames only among its own.
func (d *differ) pathBatches(ctx context.Context, from, to string,
	o DiffOptions) ([][]string, error) {
	if len(o.Only) > 0 {
		return pathBatches("literal", o.Only), nil
	}
	batches := pathBatches("exclude,literal", o.Without)
	switch len(batches) {
	case 0:
		return [][]string{{"--"}}, nil
	case 1:
		return batches, nil
	}
	// Exclusions cannot be spread over several calls, so the other files are named.
	changes, err := d.changes(ctx, from, to)
	if err != nil {
		return nil, err
	}
	without := map[string]bool{}
	for _, name := range o.Without {
		without[name] = true
	}
	var others []string
	for _, c := range changes {
		if !isBelow(c.path, without) {
			others = append(others, c.path)
		}
	}
	return pathBatches("literal", others), nil
}

// isBelow reports whether a path or a folder that it is in is among some.
func isBelow(name string, some map[string]bool) bool {
	for ; name != "."; name = path.Dir(name) {
		if some[name] {
			return true
		}
	}
	return false
}

// changedPath is a path that differs between two trees, and git's letter for how.
type changedPath struct{ how, path string }

func (d *differ) changes(ctx context.Context, from, to string) ([]changedPath, error) {
	var out bytes.Buffer
	err := d.git(ctx, &out, "diff-tree", "-r", "-z", "--name-status", "--no-renames",
		"--end-of-options", from, to)
	var changes []changedPath
	for fields := strings.Split(out.String(), "\x00"); len(fields) > 2; fields = fields[2:] {
		changes = append(changes, changedPath{fields[0], fields[1]})
	}
	return changes, err
}

// attributesNote returns a line that names the files with attributes that differ between two trees,
// "" if there are none. A reader's own git obeys them.
func (d *differ) attributesNote(ctx context.Context, from, to string) (string, error) {
	changes, err := d.changes(ctx, from, to)
	if err != nil {
		return "", err
	}
	var changed []string
	for _, c := range changes {
		how, known := map[string]string{"A": "new", "D": "deleted"}[c.how]
		if !known {
			how = "changed"
		}
		if strings.EqualFold(path.Base(c.path), ".gitattributes") {
			changed = append(changed, text.OneLine(c.path)+" ("+how+")")
		}
	}
	if changed == nil {
		return "", nil
	}
	return "signalbox: attributes of git differ: " + strings.Join(changed, ", ") +
		". This diff ignores them; your own git may hide changes because of them.\n", nil
}

// blobID is the id of a blob in the header of a file's diff, "" if the file does not exist on that
// side.
type blobID string

// binaryLines passes on a diff, and replaces the lines with which git says that files are binary.
type binaryLines struct {
	w        *bufio.Writer
	describe func(line string, old, new blobID) (string, error)

	line     []byte // the beginning of a line that may have to be replaced
	passing  bool   // the rest of the line is passed on
	old, new blobID // of the current file
}

// Lines in hunks begin with other characters, so that no file can contain these.
const (
	indexLine  = "index "
	binaryLine = "Binary files "
)

// shownID is how much of a blob's id readers see.
const shownID = 7

func (b *binaryLines) Write(p []byte) (n int, err error) {
	for rest := p; len(rest) > 0; {
		part := rest
		if end := bytes.IndexByte(rest, '\n'); end >= 0 {
			part = rest[:end+1]
		}
		rest = rest[len(part):]
		if !b.passing {
			b.line = append(b.line, part...)
			part = nil
			if !strings.HasPrefix(indexLine, head(b.line, indexLine)) &&
				!strings.HasPrefix(binaryLine, head(b.line, binaryLine)) {
				part, b.line, b.passing = b.line, nil, true
			}
		}
		if _, err := b.w.Write(part); err != nil {
			return 0, err
		}
		if bytes.HasSuffix(part, []byte("\n")) {
			b.passing = false
		}
		if bytes.HasSuffix(b.line, []byte("\n")) {
			if err := b.replace(string(b.line)); err != nil {
				return 0, err
			}
			b.line = nil
		}
	}
	return len(p), b.w.Flush()
}

// head returns as much of a line as a prefix is long.
func head(line []byte, prefix string) string { return string(line[:min(len(line), len(prefix))]) }

// replace writes what stands for a line.
func (b *binaryLines) replace(line string) (err error) {
	if ids, found := strings.CutPrefix(line, indexLine); found {
		ids, mode, _ := strings.Cut(strings.TrimSuffix(ids, "\n"), " ")
		old, new, _ := strings.Cut(ids, "..")
		b.old, b.new = asBlob(old), asBlob(new)
		line = strings.TrimSpace(indexLine+old[:shownID]+".."+new[:shownID]+" "+mode) + "\n"
	} else if line, err = b.describe(strings.TrimSuffix(line, "\n"), b.old, b.new); err != nil {
		return err
	}
	_, err = b.w.WriteString(line)
	return err
}

func asBlob(id string) blobID {
	if strings.Trim(id, "0") == "" {
		return ""
	}
	return blobID(id)
}

// describeBinary returns the text of a diff for a file that git treats as binary: its size and
// digest. Git treats every file with a zero byte as binary, and a script may contain one. So the
// lines of text files are shown, and those of a script that replaces another file.
func (d *differ) describeBinary(ctx context.Context, line string, old, new blobID) (string, error) {
	before, err := d.readBlob(ctx, old)
	if err != nil {
		return "", err
	}
	after, err := d.readBlob(ctx, new)
	if err != nil {
		return "", err
	}
	if !before.isText() && !(after.isScript() && before.isWhole()) || !after.isText() {
		sides := []string{}
		for _, b := range []*blobContent{before, after} {
			if b != nil {
				sides = append(sides, fmt.Sprintf("%d bytes, SHA-256 %x", b.size,
					b.digest.Sum(nil)))
			}
		}
		return line + ": " + strings.Join(sides, ", became ") + "\n", nil
	}
	names := strings.TrimSuffix(strings.TrimPrefix(line, binaryLine), " differ")
	switch {
	case before == nil:
		return "--- /dev/null\n+++ " + strings.TrimPrefix(names, "/dev/null and ") + "\n" +
			wholeHunk('+', after.text), nil
	case after == nil:
		return "--- " + strings.TrimSuffix(names, " and /dev/null") + "\n+++ /dev/null\n" +
			wholeHunk('-', before.text), nil
	}
	var out bytes.Buffer
	if err := d.git(ctx, &out, "diff", "--no-color", "--no-ext-diff", "--text", "--end-of-options",
		string(old), string(new)); err != nil {
		return "", err
	}
	_, hunks, _ := strings.Cut(out.String(), "\n@@ ")
	header := ""
	// A name may contain " and ", but both are equal: those of a renamed file are in the lines
	// before.
	if half := (len(names) - len(" and ")) / 2; half > 0 &&
		names[1:half] == names[len(names)-half+1:] {
		header = "--- " + names[:half] + "\n+++ " + names[len(names)-half:] + "\n"
	}
	return header + "@@ " + hunks, nil
}

// maxDiffText is the size of the largest file that is text although git takes it for binary.
const maxDiffText = 8 << 20

// blobContent is the content of a blob, as far as a diff needs it.
type blobContent struct {
	text   []byte // the first maxDiffText bytes
	size   int64
	digest hash.Hash
}

func (b *blobContent) Write(p []byte) (int, error) {
	b.size += int64(len(p))
	b.text = append(b.text, p[:min(len(p), maxDiffText-len(b.text))]...)
	return b.digest.Write(p)
}

// readBlob reads a blob. It returns nil for the side of a file that does not exist.
func (d *differ) readBlob(ctx context.Context, id blobID) (*blobContent, error) {
	if id == "" {
		return nil, nil
	}
	content := &blobContent{digest: sha256.New()}
	return content, d.git(ctx, content, "cat-file", "blob", string(id))
}

// isWhole reports whether all of the content is in memory.
func (b *blobContent) isWhole() bool { return b == nil || b.size == int64(len(b.text)) }

// isScript reports whether the system would run the content as a script, whatever garbage follows.
func (b *blobContent) isScript() bool {
	return b != nil && b.isWhole() && bytes.HasPrefix(b.text, []byte("#!"))
}

// isText reports whether people can read almost all of the content, or should because it is a
// script. A file that does not exist is text, too.
func (b *blobContent) isText() bool {
	if b == nil || b.isScript() {
		return true
	}
	odd := 0
	for rest := b.text; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size == 1 || r < ' ' && !strings.ContainsRune("\t\n\r\f", r) ||
			r == 0x7f {
			odd++
		}
		rest = rest[size:]
	}
	return b.isWhole() && odd <= len(b.text)/10
}

// wholeHunk returns a hunk that adds or removes a whole file.
func wholeHunk(sign byte, content []byte) string {
	var lines strings.Builder
	count := 0
	for line := range strings.Lines(string(content)) {
		lines.WriteByte(sign)
		lines.WriteString(line)
		count++
	}
	if len(content) > 0 && content[len(content)-1] != '\n' {
		lines.WriteString("\n\\ No newline at end of file\n")
	}
	numbers := fmt.Sprintf("-0,0 +1,%d", count)
	if sign == '-' {
		numbers = fmt.Sprintf("-1,%d +0,0", count)
	}
	return "@@ " + numbers + " @@\n" + lines.String()
}
