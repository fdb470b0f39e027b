package box

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"signalbox/internal/core/applied"
)

// Folder is the folder of a box.
type Folder struct {
	Dir string

	id string
}

// ID returns the id of the box, "" before Init has written the first event.
func (f *Folder) ID() string { return f.id }

func (f *Folder) file(name string) string { return filepath.Join(f.Dir, name) }

// hadLedger reports whether the folder belongs to a box that was in use.
func (f *Folder) hadLedger() bool {
	for _, name := range []string{publicKeyName, checkpointName} {
		if _, err := os.Stat(f.file(name)); err == nil {
			return true
		}
	}
	return false
}

// memoryFile returns the file in which this machine remembers the last events that it applied.
func (f *Folder) memoryFile() string { return f.file(applied.FileName) }

// wasUsed reports whether this machine has worked with the ledger of the box.
func (f *Folder) wasUsed() bool {
	_, err := os.Stat(f.memoryFile())
	return err == nil || f.hadLedger()
}

// remembers reports whether this machine remembers events.
func (f *Folder) remembers() bool {
	_, ok, err := f.Remembered()
	return ok || err != nil
}

// Remembered returns the last event that this machine applied, as far as it is remembered.
func (f *Folder) Remembered() (last applied.Event, ok bool, err error) {
	_, events, err := applied.Read(f.memoryFile())
	if err != nil || len(events) == 0 {
		return applied.Event{}, false, err
	}
	return events[len(events)-1], true, nil
}

// maxSmallFile is more than a checkpoint, its tree or a key needs.
const maxSmallFile = 64 << 10

// readOptional reads a small file. It returns nil if there is none.
func readOptional(name string) ([]byte, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSmallFile+1))
	if err == nil && len(data) > maxSmallFile {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxSmallFile)
	}
	return data, err
}
