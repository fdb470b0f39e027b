package chat

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"signalbox/internal/durable"
)

const (
	// maxEntries is how many questions are kept.
	maxEntries = 500
	// maxEntry is the size of the longest question that is kept in the file.
	maxEntry = 8 << 10
	// maxHistory is the size of the largest file that is read. Nothing writes one as large as this.
	maxHistory = 16 << 20
)

// history is the list of earlier questions, the newest last. In the file each is a line with a JSON
// string.
type history struct {
	name    string // "" for none
	entries []string
	lines   int // of the file
}

// openHistory reads a history. With an error it returns one that is not stored.
func openHistory(name string) (*history, error) {
	if name == "" {
		return &history{}, nil
	}
	text, err := durable.ReadRegular(name, maxHistory)
	if errors.Is(err, fs.ErrNotExist) {
		return &history{name: name}, nil
	}
	if err != nil {
		return &history{}, err
	}
	h := &history{name: name}
	for line := range strings.Lines(string(text)) {
		h.lines++
		var entry string
		// another process may be writing the last line
		if json.Unmarshal([]byte(line), &entry) == nil {
			h.remember(entry)
		}
	}
	return h, nil
}

// remember adds an entry in memory. It reports whether it differs from the last one.
func (h *history) remember(entry string) bool {
	if n := len(h.entries); entry == "" || n > 0 && h.entries[n-1] == entry {
		return false
	}
	h.entries = append(h.entries, entry)
	h.entries = h.entries[max(len(h.entries)-maxEntries, 0):]
	return true
}

// Add adds a question, also to the file. The file is only for the user to read, and has at most
// twice as many lines as are kept.
func (h *history) Add(entry string) error {
	if !h.remember(entry) || h.name == "" || len(entry) > maxEntry {
		return nil
	}
	if h.lines >= 2*maxEntries {
		return h.rewrite()
	}
	if err := durable.MakeFolder(filepath.Dir(h.name)); err != nil {
		return err
	}
	file, err := openToAppend(h.name)
	if err != nil {
		return err
	}
	_, err = file.Write(encode(entry))
	h.lines++
	return errors.Join(err, file.Close())
}

// openToAppend opens or creates a file that only the user can read.
func openToAppend(name string) (*os.File, error) {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: durable.ErrNotRegular}
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := file.Chmod(0o600); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// rewrite replaces the file by the entries that are kept.
func (h *history) rewrite() error {
	var all []byte
	h.lines = 0
	for _, entry := range h.entries {
		if len(entry) <= maxEntry {
			all = append(all, encode(entry)...)
			h.lines++
		}
	}
	return durable.Replace(h.name, all, 0o600)
}

func encode(entry string) []byte {
	line, _ := json.Marshal(entry) // a string has a JSON form
	return append(line, '\n')
}
