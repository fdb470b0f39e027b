// Package applied remembers, on each machine, the last events that its processes applied, in a file
// of the box's folder. A log that lacks one of them later, or has another in its place, has lost
// events that were already acknowledged: its engine was rolled back, or lost a write that it had
// confirmed. Compare finds that out.
//
// The processes of a machine share the file. It never goes back to older events, whichever process
// writes last. What was added survives kill -9 at once, and a power failure after a second: Add
// writes to the file without waiting for the disk. A damaged part of the file is ignored, and is
// not an error.
package applied

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/durable"
)

// FileName is the name of the file in the box's folder.
const FileName = "applied"

// syncPause is how long after a write the file is synced, so at most how long an event is
// remembered without being on the disk.
const syncPause = time.Second

// Memory is an open file of events that were applied. Its methods are safe for concurrent use.
type Memory struct {
	box  string
	file *os.File

	mu     sync.Mutex // guards the fields below, and the lock of the file between goroutines
	dirty  bool       // whether something was written since the last sync began
	closed bool
	timer  *time.Timer // of the next sync, nil if there is none
	syncs  sync.WaitGroup
}

// Open opens the file of a box for adding events, and creates it if there is none. The error has
// CodeUnverified if the file belongs to another box.
func Open(name, box string) (*Memory, error) {
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		err = durable.Create(name, encode(box, nil), 0o600)
		if err == nil || errors.Is(err, fs.ErrExist) { // another process was faster
			file, err = os.OpenFile(name, os.O_RDWR, 0)
		}
	}
	if err != nil {
		return nil, cannotOpen(err)
	}
	m := &Memory{box: box, file: file}
	if err := m.prepare(name); err != nil {
		file.Close()
		return nil, err
	}
	return m, nil
}

func cannotOpen(err error) error {
	return signalbox.CodeFailed.Errorf(
		"check the owner and the permissions of the box and its files",
		"cannot open the memory of applied events: %w", err)
}

// prepare checks the header, and repairs a file that is truncated or whose header is damaged.
func (m *Memory) prepare(name string) error {
	header := make([]byte, slotSize)
	n, err := m.file.ReadAt(header[1:], 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return cannotOpen(err)
	}
	found, ok := decodeHeader(header[:1+n])
	if ok && found != m.box {
		return OtherBox(name, found, m.box)
	}
	info, err := m.file.Stat()
	if err == nil && info.Size() < fileSize {
		err = m.file.Truncate(fileSize) // with zeros
	}
	if err == nil && !ok {
		_, err = m.file.WriteAt(encodeHeader(m.box)[1:], 1)
	}
	if err != nil {
		return cannotOpen(err)
	}
	return nil
}

// OtherBox returns the error for a file of a box that is not the box of the ledger.
func OtherBox(name, found, box string) error {
	return signalbox.CodeUnverified.Errorf(
		"check which ledger the box's signalbox.yaml names, and whether its files were exchanged; to use the other box, give it a folder of its own",
		"this machine has worked with the ledger of %s, but this ledger belongs to %s: see %s",
		found, box, name)
}

// Read returns the events in a file, in their order, and the box that they belong to. If there is
// no file, it returns nothing.
func Read(name string) (box string, events []Event, err error) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, cannotOpen(err)
	}
	defer file.Close()
	bytes, err := readAll(file)
	if err != nil {
		return "", nil, cannotOpen(err)
	}
	box, events = decode("", bytes)
	return box, events, nil
}

// readAll reads the file, without its first byte, which may be locked.
func readAll(file *os.File) ([]byte, error) {
	bytes := make([]byte, fileSize)
	n, err := file.ReadAt(bytes[1:], 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return bytes[:1+n], err
}

// Events returns the events that are remembered, in their order.
func (m *Memory) Events() ([]Event, error) {
	bytes, err := readAll(m.file)
	if err != nil {
		return nil, fmt.Errorf("read the memory of applied events: %w", err)
	}
	_, events := decode(m.box, bytes)
	return events, nil
}

// Next returns the event that follows seq if it is remembered, or a later one that has replaced it.
// It reads one slot only.
func (m *Memory) Next(seq uint64) (Event, bool) {
	slot := make([]byte, slotSize)
	if _, err := m.file.ReadAt(slot, offset(seq+1)); err != nil {
		return Event{}, false
	}
	e, ok := decodeEvent(m.box, slot)
	return e, ok && e.Seq > seq
}

// Add remembers the last Size of consecutive events. When it returns nil, they
// survive the end of the process. The error is ErrOtherEvent if the log has two histories; after
// another error the events may not be remembered.
func (m *Memory) Add(events []signalbox.Event) error {
	events = events[max(0, len(events)-Size):]
	for len(events) > 0 { // at most twice
		inRow := min(len(events), int(Size-events[0].Seq%Size))
		if err := m.addSpan(events[:inRow]); err != nil {
			return fmt.Errorf("remember applied events: %w", err)
		}
		events = events[inRow:]
	}
	return nil
}

// addSpan adds events whose slots are one after the other in the file.
func (m *Memory) addSpan(events []signalbox.Event) error {
	at := offset(events[0].Seq)
	slots := make([]byte, len(events)*slotSize)
	m.mu.Lock()
	defer m.mu.Unlock()
	// Most events of other processes are there already. Without a lock an event that is being
	// written may look damaged.
	if _, err := m.file.ReadAt(slots, at); err != nil {
		return err
	}
	if changed, err := merge(m.box, slots, events); err != nil || !changed {
		return err
	}
	if err := m.lock(); err != nil {
		return err
	}
	defer durable.UnlockFile(m.file)
	if _, err := m.file.ReadAt(slots, at); err != nil {
		return err
	}
	changed, err := merge(m.box, slots, events)
	if err != nil || !changed {
		return err
	}
	if _, err := m.file.WriteAt(slots, at); err != nil {
		return err
	}
	m.syncSoon()
	return nil
}

// lockTimeout is how long Add waits for another process, which holds the lock only for a moment
// unless it is suspended.
const lockTimeout = time.Second

// lock locks the file. The caller holds mu.
func (m *Memory) lock() error {
	for pause, waited := 20*time.Microsecond, time.Duration(0); ; pause = min(2*pause,
		10*time.Millisecond) {
		locked, err := durable.TryLockFile(m.file)
		if locked || err != nil {
			return err
		}
		if waited += pause; waited > lockTimeout {
			return fmt.Errorf("another process has locked %s for %s", m.file.Name(), lockTimeout)
		}
		time.Sleep(pause)
	}
}

// syncSoon syncs the file a little later, in the background. The caller holds mu.
func (m *Memory) syncSoon() {
	m.dirty = true
	if m.timer != nil || m.closed {
		return
	}
	m.syncs.Add(1)
	m.timer = time.AfterFunc(syncPause, func() {
		defer m.syncs.Done()
		m.mu.Lock()
		m.dirty, m.timer = false, nil
		m.mu.Unlock()
		if m.file.Sync() != nil {
			m.mu.Lock()
			m.dirty = true // Close tries again and reports it
			m.mu.Unlock()
		}
	})
}

// Replace makes the memory that of the given events, after keeping a copy of the file under another
// name. It is for a user who accepts that events are lost.
func (m *Memory) Replace(events []signalbox.Event, keep string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.lock(); err != nil {
		return err
	}
	defer durable.UnlockFile(m.file)
	old, err := readAll(m.file)
	if err != nil {
		return err
	}
	if err := durable.Create(keep, old, 0o600); err != nil {
		return err
	}
	rest := make([]Event, len(events))
	for i := range events {
		rest[i] = remember(&events[i])
	}
	if _, err := m.file.WriteAt(encode(m.box, rest)[1:], 1); err != nil {
		return err
	}
	return m.file.Sync()
}

// Close syncs and closes the file.
func (m *Memory) Close() error {
	m.mu.Lock()
	m.closed = true
	if m.timer != nil && m.timer.Stop() {
		m.syncs.Done()
	}
	m.mu.Unlock()
	m.syncs.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	var err error
	if m.dirty {
		err = m.file.Sync()
	}
	return errors.Join(err, m.file.Close())
}
