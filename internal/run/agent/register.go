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

// The register of a box is a folder. Every running signalbox process has a file in it, which it
// keeps locked and in which it lists the agents that it started. The system releases the lock when
// the process dies, so a file that is not locked belongs to a process that is gone. Nothing here
// must survive a power failure, because agents do not either.

// ownerSuffix is the file name suffix of an owner's file.
const ownerSuffix = ".owner"

// Owner is the entry of this process in the register. It is safe for concurrent use.
type Owner struct {
	id   string
	name string

	mu       sync.Mutex // guards the fields below
	file     *os.File
	size     int64
	sessions map[string]bool // that have an agent
}

// entry is a line in an owner's file: a session has an agent, or no longer has one.
type entry struct {
	Session string `json:"session"`
	process.ID
	Over bool `json:"over,omitempty"`
}

// Join adds this process to a register. It creates the folder if necessary.
func Join(dir string) (*Owner, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("join the register: %w", err)
	}
	machine, err := machineIn(dir)
	if err != nil {
		return nil, fmt.Errorf("join the register: %w", err)
	}
	for {
		id := ownerPrefix + machine + randomHex(processDigits)
		name := filepath.Join(dir, id+ownerSuffix)
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("join the register: %w", err)
		}
		locked, err := tryLock(file, name)
		if err != nil {
			return nil, fmt.Errorf("join the register: %w",
				errors.Join(err, file.Close(), os.Remove(name)))
		}
		if locked {
			return &Owner{id: id, name: name, file: file, sessions: map[string]bool{}}, nil
		}
		file.Close() // before it was locked, another process took it for the file of a dead owner
	}
}

const (
	// ownerPrefix starts the id of an owner. The digits of its machine follow, which tell machines
	// with the same name apart, and then those of its process.
	ownerPrefix   = "w-"
	machineDigits = 4
	processDigits = 12
	// machineName is the file of the register with the digits of its machine.
	machineName = "machine"
)

func randomHex(digits int) string {
	random := make([]byte, digits/2)
	rand.Read(random) // never fails
	return hex.EncodeToString(random)
}

// machineIn returns the digits of the machine that has a register. The first process chooses them.
func machineIn(dir string) (string, error) {
	name := filepath.Join(dir, machineName)
	if err := durable.Create(name, []byte(randomHex(machineDigits)), 0o600); err != nil &&
		!errors.Is(err, fs.ErrExist) {
		return "", err
	}
	digits, err := os.ReadFile(name)
	if err == nil && !isHex(string(digits), machineDigits) {
		err = fmt.Errorf("%s has something else than %d digits; remove it", name, machineDigits)
	}
	return string(digits), err
}

func isHex(s string, digits int) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == digits
}

// MachineOf returns digits that tell the machine of a session from others, "" if the session is not
// one of an Owner.
func MachineOf(session string) string {
	owner, _, _ := strings.Cut(session, ".")
	digits, found := strings.CutPrefix(owner, ownerPrefix)
	if !found || !isHex(digits, machineDigits+processDigits) {
		return ""
	}
	return digits[:machineDigits]
}

// tryLock locks an owner's file, and reports whether it was unlocked and still exists.
func tryLock(file *os.File, name string) (bool, error) {
	if locked, err := durable.TryLockFile(file); !locked || err != nil {
		return false, err
	}
	_, err := os.Stat(name) // names are never reused
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// ID returns the owner's id. Its sessions are named ID.1, ID.2 and so on.
func (o *Owner) ID() string { return o.id }

// Add records the agent of a session. From then on the agent can be found if this process is
// killed.
func (o *Owner) Add(session string, id process.ID) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.write(entry{Session: session, ID: id}); err != nil {
		return fmt.Errorf("register the agent of session %s: %w", session, err)
	}
	o.sessions[session] = true
	return nil
}

// write appends a line. A line that was written only in part is overwritten by the next.
func (o *Owner) write(e entry) error {
	line, err := json.Marshal(e)
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

// Remove removes a session whose agent has ended. A write error does no harm: the agent would be
// looked for and not found.
func (o *Owner) Remove(session string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.sessions, session)
	if len(o.sessions) > 0 {
		_ = o.write(entry{Session: session, Over: true})
	} else if o.file.Truncate(0) == nil {
		o.size = 0
	}
}

// Leave removes this process from the register. If it still has agents, its file stays, and the
// next ReapOrphans ends them.
func (o *Owner) Leave() error {
	if err := o.Abandon(); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.sessions) > 0 {
		return nil
	}
	if err := os.Remove(o.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("leave the register: %w", err)
	}
	return nil
}

// Abandon leaves the register like a process that was killed: its file stays, and the next
// ReapOrphans releases what its sessions hold. It is for a process that could not release it.
func (o *Owner) Abandon() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := unlockAndClose(o.file); err != nil {
		return fmt.Errorf("leave the register: %w", err)
	}
	return nil
}

// ReapOrphans ends the agents of owners that are gone: SIGTERM, grace, SIGKILL. For every such
// owner it then calls release, which releases what the owner's sessions held, and removes the
// owner's file. If an agent does not end, or release fails, or this process is killed, the next
// call tries again, so release may be called more than once for an owner. ReapOrphans continues
// with the next owner after an error. It returns how many agents were still running.
func ReapOrphans(dir string, grace time.Duration,
	release func(owner string) error) (ended int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("read the register: %w", err)
	}
	var errs []error
	for _, file := range entries {
		owner, ok := strings.CutSuffix(file.Name(), ownerSuffix)
		if !ok {
			continue
		}
		end := func(agents map[string][]process.ID) (int,
			error) {
			return endSessions(agents, grace)
		}
		n, err := reapOwner(filepath.Join(dir, file.Name()), end,
			func() error { return release(owner) })
		ended += n
		if err != nil {
			errs = append(errs, fmt.Errorf("end the agents of %s: %w", owner, err))
		}
	}
	return ended, errors.Join(errs...)
}

// Empty reports whether a register has no owners, neither running nor dead.
func Empty(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("read the register: %w", err)
	}
	return !slices.ContainsFunc(entries,
		func(file fs.DirEntry) bool { return strings.HasSuffix(file.Name(), ownerSuffix) }), nil
}

// reapOwner reaps one owner while holding its lock, so that only one process does it at a time. It
// does not release anything before all agents have ended.
func reapOwner(name string, end func(map[string][]process.ID) (int, error),
	release func() error) (ended int, err error) {
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // another process was faster
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if locked, err := tryLock(file, name); !locked || err != nil {
		return 0, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return 0, err
	}
	ended, err = end(parseOwner(text))
	if err == nil {
		err = release()
	}
	if err != nil {
		return ended, err
	}
	if runtime.GOOS == "windows" {
		file.Close() // an open file cannot be removed
	}
	// its owner may be leaving
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ended, err
	}
	return ended, nil
}

// endSessions ends the agents of all sessions concurrently, so that grace passes only once.
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

// endSession ends the agent of a session and every process that carries the session in its
// environment.
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

// parseOwner returns the running agents in an owner's file, by session. An incomplete line belongs
// to an agent that never ran, because Add did not return.
func parseOwner(text []byte) map[string][]process.ID {
	agents := map[string][]process.ID{}
	for line := range bytes.Lines(text) {
		var e entry
		switch err := json.Unmarshal(line, &e); {
		case err != nil || e.Session == "":
		case e.Over:
			delete(agents, e.Session)
		default:
			agents[e.Session] = append(agents[e.Session], e.ID)
		}
	}
	return agents
}

// RegisterFolder is the name of the register's folder in a box.
const RegisterFolder = "crews"

// Crew is an owner in a register.
type Crew struct {
	ID string
	// Alive means that its process runs. Otherwise it was killed, and the next ReapOrphans releases
	// what it held.
	Alive bool
	// Sessions are those that have an agent.
	Sessions []string
}

// Crews returns the owners in a register, for people: it changes nothing, and an owner may join or
// leave at any time.
func Crews(dir string) (crews []Crew, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the register: %w", err)
	}
	for _, entry := range entries {
		owner, ok := strings.CutSuffix(entry.Name(), ownerSuffix)
		if !ok || !entry.Type().IsRegular() {
			continue
		}
		c, err := readOwner(filepath.Join(dir, entry.Name()))
		if errors.Is(err, fs.ErrNotExist) { // it has just left
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the register: %w", err)
		}
		c.ID = owner
		crews = append(crews, c)
	}
	return crews, nil
}

func readOwner(name string) (c Crew, err error) {
	file, err := os.Open(name)
	if err != nil {
		return c, err
	}
	defer func() { unlockAndClose(file) }()
	// for a moment, in which ReapOrphans takes a dead owner for a live one
	locked, err := durable.TryLockFile(file)
	if err != nil {
		return c, err
	}
	c.Alive = !locked
	text, err := io.ReadAll(io.LimitReader(file, maxOwner))
	if c.Alive && runtime.GOOS == "windows" { // a locked file cannot be read there
		return c, nil
	}
	for session := range parseOwner(text) {
		c.Sessions = append(c.Sessions, session)
	}
	slices.Sort(c.Sessions)
	return c, err
}

// maxOwner is more than an owner's file has.
const maxOwner = 4 << 20

// WaitForExit waits until an owner has left the register or is gone. It returns at once if there is
// no such owner on this machine.
func WaitForExit(dir, owner string) {
	file, err := os.OpenFile(filepath.Join(dir, owner+ownerSuffix), os.O_RDWR, 0)
	if err != nil {
		return
	}
	_ = durable.LockFile(file)
	_ = unlockAndClose(file)
}

// unlockAndClose releases a file's lock before it closes the file. Closing alone is not enough: a
// program that is being started at this moment has inherited the file until its exec, and the lock
// with it.
func unlockAndClose(
	file *os.File) error {
	return errors.Join(durable.UnlockFile(file), file.Close())
}

// WorkLock returns the file that is locked while a process of this machine works on a task of the
// box in the folder dir.
func WorkLock(dir, work string) string {
	return filepath.Join(dir, RegisterFolder, work+".lock")
}

// TryLockWork locks a task against other processes of this machine until the result is closed. It
// returns nil if another process is working on it.
func TryLockWork(dir, work string) (io.Closer, error) {
	name := WorkLock(dir, work)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if free, err := durable.TryLockFile(f); !free || err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
