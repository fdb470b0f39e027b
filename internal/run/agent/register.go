package agent

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox/internal/durable"
	"signalbox/internal/process"
)

// The register of a box is a folder in which every running signalbox process has a file that it keeps locked, and in
// which it notes the agents that it started. The system frees the lock when the process dies, however it dies; a file
// that is not locked is that of a process that is gone. Nothing here has to survive a power cut, since agents do not.

// suffix ends the names of the files of owners.
const suffix = ".owner"

// Owner is this process, in the register. Its methods may be called by several at once.
type Owner struct {
	id   string
	name string

	mu    sync.Mutex // guards what follows
	file  *os.File
	size  int64
	noted map[string]bool // sessions
}

// note is a line in an owner's file: a session has an agent, or has none any more.
type note struct {
	Session string `json:"session"`
	process.ID
	Over bool `json:"over,omitempty"`
}

// Join enters this process in a register, whose folder it makes if need be.
func Join(dir string) (*Owner, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("join the register: %w", err)
	}
	for {
		random := make([]byte, 6)
		rand.Read(random) // never fails
		id := "w-" + hex.EncodeToString(random)
		name := filepath.Join(dir, id+suffix)
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("join the register: %w", err)
		}
		held, err := hold(file, name)
		if err != nil {
			return nil, fmt.Errorf("join the register: %w", errors.Join(err, file.Close(), os.Remove(name)))
		}
		if held {
			return &Owner{id: id, name: name, file: file, noted: map[string]bool{}}, nil
		}
		file.Close() // somebody took it for that of an owner who is gone, before it was locked
	}
}

// hold locks the file of an owner if nobody has it locked and it is still there.
func hold(file *os.File, name string) (bool, error) {
	if held, err := durable.TryLockFile(file); !held || err != nil {
		return false, err
	}
	mine, err := file.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, there), err
}

// ID is the owner's id. Its sessions are named ID.1, ID.2 and so on.
func (o *Owner) ID() string { return o.id }

// Note notes the agent of a session. When it returns, the agent is found if this process is killed.
func (o *Owner) Note(session string, id process.ID) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.write(note{Session: session, ID: id}); err != nil {
		return fmt.Errorf("note the agent of session %s: %w", session, err)
	}
	o.noted[session] = true
	return nil
}

// write appends a line. One that was cut short is written over by the next.
func (o *Owner) write(n note) error {
	line, err := json.Marshal(n)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if _, err := o.file.WriteAt(line, o.size); err != nil {
		return err
	}
	o.size += int64(len(line))
	return nil
}

// Forget takes back what was noted for a session, whose agent has ended. If that cannot be written it does no harm: the
// process is then looked for, and not found.
func (o *Owner) Forget(session string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.noted, session)
	if len(o.noted) > 0 {
		_ = o.write(note{Session: session, Over: true})
	} else if o.file.Truncate(0) == nil {
		o.size = 0
	}
}

// Leave takes this process out of the register. If agents are still noted, its file stays, and they are ended by the next
// call of Bereaved.
func (o *Owner) Leave() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.file.Close(); err != nil {
		return fmt.Errorf("leave the register: %w", err)
	}
	if len(o.noted) > 0 {
		return nil
	}
	if err := os.Remove(o.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("leave the register: %w", err)
	}
	return nil
}

// Bereaved ends the agents of owners that are gone: TERM, grace, KILL. For every such owner it then calls released, so
// that the caller can free what its sessions held, and removes its file. If an agent does not end, or released fails, or
// this process is killed, the next call does it again; so released may be called more than once for an owner. It returns
// how many agents were still running, and goes on to the next owner after an error.
func Bereaved(dir string, grace time.Duration, released func(owner string) error) (ended int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("read the register: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		owner, ok := strings.CutSuffix(entry.Name(), suffix)
		if !ok {
			continue
		}
		n, err := bereaved(filepath.Join(dir, entry.Name()), grace, func() error { return released(owner) })
		ended += n
		if err != nil {
			errs = append(errs, fmt.Errorf("end the agents of %s: %w", owner, err))
		}
	}
	return ended, errors.Join(errs...)
}

// Deserted tells whether nobody is in a register, not even one who is gone and was not mourned yet.
func Deserted(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("read the register: %w", err)
	}
	return !slices.ContainsFunc(entries, func(entry fs.DirEntry) bool { return strings.HasSuffix(entry.Name(), suffix) }), nil
}

// bereaved does so for one owner, under its lock, so that no two do it at once.
func bereaved(name string, grace time.Duration, released func() error) (ended int, err error) {
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // another was faster
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if held, err := hold(file, name); !held || err != nil {
		return 0, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return 0, err
	}
	ended, err = endSessions(running(text), grace)
	if err == nil {
		err = released()
	}
	if err != nil {
		return ended, err
	}
	if runtime.GOOS == "windows" {
		file.Close() // an open file cannot be removed there
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) { // its owner may just be leaving
		return ended, err
	}
	return ended, nil
}

// endSessions ends the agents of sessions at the same time, so that grace is waited for only once.
func endSessions(agents map[string][]process.ID, grace time.Duration) (ended int, err error) {
	type result struct {
		ended int
		err   error
	}
	results := make(chan result)
	for session, ids := range agents {
		go func() {
			n, err := endSession(session, ids, grace)
			results <- result{n, err}
		}()
	}
	for range agents {
		r := <-results
		ended += r.ended
		err = errors.Join(err, r.err)
	}
	return ended, err
}

// endSession ends the agent of a session, and what fled from it.
func endSession(session string, ids []process.ID, grace time.Duration) (ended int, err error) {
	for _, id := range ids {
		found, err := process.EndOrphan(id, grace)
		if found {
			ended++
		}
		if err != nil {
			return ended, err
		}
	}
	_, err = process.EndSession(session, grace)
	return ended, err
}

// running reads an owner's file. A line that was cut short is of an agent that never began.
func running(text []byte) map[string][]process.ID {
	agents := map[string][]process.ID{}
	for line := range bytes.Lines(text) {
		var n note
		switch err := json.Unmarshal(line, &n); {
		case err != nil || n.Session == "":
		case n.Over:
			delete(agents, n.Session)
		default:
			agents[n.Session] = append(agents[n.Session], n.ID)
		}
	}
	return agents
}
