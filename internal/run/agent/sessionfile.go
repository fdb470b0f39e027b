package agent

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

const (
	// maxSessionFile bounds how much of a file is read at a time. A file of gemini, which must be
	// read as a whole, must not be larger.
	maxSessionFile = 64 << 20
	// maxSessionLine bounds the lines of a file of codex that are read. Those about usage are
	// short.
	maxSessionLine = 1 << 20
	// maxSessionEntries bounds how many names are looked at to find a file.
	maxSessionEntries = 100_000
)

// stateFolder is the state folder of a program. The program can change everything in it at any
// time, so nothing in it is opened by a path that could lead out of it, and nothing that is opened
// can block.
type stateFolder struct {
	root *os.Root
	name string // in root
	left int    // names that may still be looked at
}

// openFolder opens a state folder by its name in a folder that the program cannot replace.
func openFolder(in, name string) (*stateFolder, error) {
	// The dot makes the system refuse what is not a folder, such as a pipe, before it opens it.
	root, err := os.OpenRoot(in + string(filepath.Separator) + ".")
	return &stateFolder{root, name, maxSessionEntries}, err
}

// open opens a regular file.
func (d *stateFolder) open(name string) (*os.File, fs.FileInfo, error) {
	file, err := d.root.OpenFile(path.Join(d.name, name), os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

// find calls use with the names that match patterns, one for each level of folders, until use
// returns true.
func (d *stateFolder) find(dir string, patterns []string, use func(name string) bool) bool {
	folder, err := d.root.OpenFile(path.Join(d.name, dir), os.O_RDONLY|nonblock, 0)
	if err != nil {
		return false
	}
	defer folder.Close()
	for d.left > 0 {
		names, err := folder.Readdirnames(min(1000, d.left))
		if err != nil {
			return false
		}
		d.left -= len(names)
		for _, name := range names {
			if ok, _ := path.Match(patterns[0], name); !ok { // the patterns are valid
				continue
			}
			below := path.Join(dir, name)
			if len(patterns) == 1 && use(below) || len(patterns) > 1 &&
				d.find(below, patterns[1:], use) {
				return true
			}
		}
	}
	return false
}

// limited returns a reader of the rest of a file as it is now, within maxSessionFile.
func limited(file *os.File, info fs.FileInfo, offset int64) io.Reader {
	return io.LimitReader(file, min(info.Size()-offset, maxSessionFile))
}

// newLines reads the lines that were added to a file since the last time. The zero value begins at
// its start.
type newLines struct {
	offset   int64 // up to which the file was read
	skipping bool  // the line at offset is too long
}

// read calls use with each new line that is complete and not too long.
func (l *newLines) read(file *os.File, info fs.FileInfo, use func(line []byte)) {
	if _, err := file.Seek(l.offset, io.SeekStart); err != nil {
		return
	}
	r := bufio.NewReaderSize(limited(file, info, l.offset), maxSessionLine)
	for {
		line, err := r.ReadSlice('\n')
		tooLong := l.skipping || err == bufio.ErrBufferFull
		if err != nil && !tooLong { // the last line is not complete
			return
		}
		l.offset, l.skipping = l.offset+int64(len(line)), err != nil
		if err != nil && err != bufio.ErrBufferFull {
			return
		}
		if !tooLong {
			use(line)
		}
	}
}
