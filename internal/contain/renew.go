package contain

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox/internal/durable"
)

// maxLogin bounds the size of a login.
const maxLogin = 1 << 20

// loginPause is how often the logins of a running program are looked at. Looking is reading two
// small files. Notifications of the file system would not be faster where it counts: a program that
// renews a login has waited for its server. And they are missing on network file systems, or once a
// program replaces the folder.
const loginPause = 100 * time.Millisecond

// logins are copies of the user's logins in the home folder of a program. The program works on the
// copies, and the renewed tokens in them are copied back; see renewLogin.
type logins struct {
	home string
	// mu guards the rest, and is held while a login is renewed.
	mu      sync.Mutex
	all     []*login
	ended   bool
	refused []string
}

// login is a user's login that a program has a copy of.
type login struct {
	// User is the user's file, and Lock the file that all processes of signalbox lock to change it.
	User, Lock string
	// Name is that of the copy in the home folder.
	Name string
	// Base is the user's file as the program has it, apart from its own changes; nil means that
	// there is none.
	Base []byte

	user, copied []byte // as they were at the last look

	beforeWrite func() // for tests: called before the user's file is written
}

// recordOf returns the file that records which logins a program has in its home folder, until they
// have been copied back. It is beside the home folder, where the program cannot change it.
func recordOf(home string) string { return home + ".logins" }

// prepare copies the logins into the home folder.
func (l *logins) prepare(home *os.Root) error {
	if len(l.all) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, login := range l.all {
		text, err := durable.ReadRegular(login.User, maxLogin)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		login.Base, login.user, login.copied = text, text, text
	}
	if err := l.record(); err != nil { // before a program can renew one
		return err
	}
	for _, login := range l.all {
		if login.Base == nil {
			if err := clearPlace(home, login.Name); err != nil {
				return err
			}
		} else if err := writeInto(home, login.Name, string(login.Base)); err != nil {
			return err
		}
	}
	l.ended = false
	return nil
}

func (l *logins) record() error {
	text, err := json.Marshal(l.all)
	if err != nil {
		return err
	}
	return durable.Replace(recordOf(l.home), text, 0o600)
}

// WatchLogins copies tokens that the program renews to the user's files as soon as it has written
// them, and those that the user or other programs renew to the program. It looks until ctx is done
// or RenewLogins was called.
func (p *Program) WatchLogins(ctx context.Context) {
	if len(p.logins.all) == 0 {
		return
	}
	go func() {
		for p.logins.watchOnce() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(loginPause):
			}
		}
	}()
}

// watchOnce looks at the logins, and reports whether to look again. Errors can wait: the last look
// reports them.
func (l *logins) watchOnce() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		_ = l.sync(false)
	}
	return !l.ended
}

// RenewLogins looks at the logins for the last time, and removes the copies. Call it after the
// program has ended, and before its home folder is removed. It returns which changes in the copies
// were not copied to the user's files. After an error the copies stay: the next Prepare,
// RenewLeftovers or RemoveState tries again.
func (p *Program) RenewLogins() (refused []string, err error) {
	l := &p.logins
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) == 0 || l.ended {
		return nil, nil
	}
	l.ended = true
	if err := l.sync(true); err != nil {
		return l.refused, fmt.Errorf("renew the login of an agent: %w", err)
	}
	return l.refused, l.remove()
}

// remove removes the copies and the record of them.
func (l *logins) remove() error {
	home, err := os.OpenRoot(l.home)
	if err != nil {
		return err
	}
	defer home.Close()
	var errs []error
	for _, login := range l.all {
		if err := home.RemoveAll(login.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, durable.Remove(recordOf(l.home)))...)
}

// sync looks at all logins. The last look reports a copy that cannot be used; before, the program
// may be about to write it.
func (l *logins) sync(last bool) error {
	home, err := os.OpenRoot(l.home)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer home.Close()
	var errs []error
	for _, login := range l.all {
		before := login.Base
		refused, err := login.sync(home, last)
		if !bytes.Equal(before, login.Base) {
			err = errors.Join(err, l.record())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", login.User, err))
		}
		for _, fault := range refused {
			fault = filepath.ToSlash(login.Name) + ": " + fault
			if len(l.refused) < maxRefused && !slices.Contains(l.refused, fault) {
				l.refused = append(l.refused, fault)
			}
		}
	}
	return errors.Join(errs...)
}

// sync copies renewed tokens from the program's copy to the user's file, and a user's file that has
// changed to the program. If the user has logged in again, that counts; if the user has logged out,
// nothing is copied.
func (l *login) sync(home *os.Root, last bool) (refused []string, err error) {
	if user, copied, _, err := l.read(home); !last && err == nil && bytes.Equal(user, l.user) &&
		bytes.Equal(copied, l.copied) {
		return nil, nil
	}
	refused, err = l.renew(home, last)
	for tries := 1; last && errors.Is(err, errUnsettled) && tries < lastLooks; tries++ {
		time.Sleep(loginPause)
		refused, err = l.renew(home, last)
	}
	return refused, err
}

// lastLooks is how often the last look is tried while somebody writes the user's file, a pause
// apart.
const lastLooks = 10

// errUnsettled means that somebody is writing the user's file, so that it cannot be renewed now.
var errUnsettled = errors.New(
	"your file is being written, or is broken: the renewed login is kept " +
		"until you repair the file or remove it")

// renew does what sync does, once. It holds the lock no longer than that.
func (l *login) renew(home *os.Root, last bool) (refused []string, err error) {
	lock, err := l.lock()
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	user, copied, fault, err := l.read(home)
	if err != nil || user == nil {
		return nil, err
	}
	l.user, l.copied = user, copied
	renewed := user
	if _, err := parseDocument(user); err != nil {
		if last && l.hasRenewed(copied) { // which would be lost with the copy
			return nil, fmt.Errorf("%w: %w", errUnsettled, err)
		}
		fault = fmt.Errorf("your file: %w", err) // somebody is writing it, or it is not a login
	} else if l.Base != nil && copied != nil {
		renewed, refused, fault = renewLogin(filepath.ToSlash(l.Name), l.Base, user, copied,
			time.Now())
	}
	switch {
	case fault != nil && !last:
		return nil, nil // somebody may be writing, so look again at the next change
	case fault != nil && !bytes.Equal(copied, l.Base):
		return []string{fault.Error()}, nil
	case fault != nil:
		return nil, nil
	}
	if !bytes.Equal(renewed, user) {
		if err := l.write(user, renewed); err != nil {
			l.user = nil // so that the next look starts over
			return refused, err
		}
	}
	// The program's own changes stay in its copy, which it may watch. What others changed it gets,
	// all of it.
	if !bytes.Equal(user, l.Base) {
		if err := replaceCopy(home, l.Name, renewed); err != nil {
			return refused, err
		}
		l.copied = renewed
	}
	l.user, l.Base = renewed, renewed
	return refused, nil
}

// write replaces the user's file, unless it is no longer as it was read: programs of the user do
// not know the lock, and what they have written meanwhile must not be undone.
func (l *login) write(read, renewed []byte) error {
	if l.beforeWrite != nil {
		l.beforeWrite()
	}
	now, err := durable.ReadRegular(l.User, maxLogin)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || !bytes.Equal(now, read) {
		return errUnsettled
	}
	return durable.Rewrite(l.User, renewed)
}

// hasRenewed reports whether a copy has tokens that the user's file would get if it were as the
// program got it.
func (l *login) hasRenewed(copied []byte) bool {
	renewed, _, err := renewLogin(filepath.ToSlash(l.Name), l.Base, l.Base, copied, time.Now())
	return err == nil && !bytes.Equal(renewed, l.Base)
}

// read reads the user's file and the program's copy; nil is a file that does not exist. fault is
// what is wrong with the copy.
func (l *login) read(home *os.Root) (user, copied []byte, fault, err error) {
	user, err = durable.ReadRegular(l.User, maxLogin)
	if errors.Is(err, fs.ErrNotExist) {
		user, err = nil, nil
	}
	copied, fault = readCopy(home, l.Name)
	return user, copied, fault, err
}

// readCopy reads the copy of a login, nil if there is none. The program may have put anything in
// its place.
func readCopy(home *os.Root, name string) ([]byte, error) {
	file, err := durable.OpenRegularIn(home, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, errors.New("the copy is not a regular file")
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !isOwn(info) {
		return nil, errors.New("the copy belongs to another user")
	}
	text, err := io.ReadAll(io.LimitReader(file, maxLogin+1))
	if err != nil || len(text) > maxLogin {
		return nil, fmt.Errorf("the copy has more than %d bytes, or cannot be read", maxLogin)
	}
	return text, nil
}

// replaceCopy replaces the copy of a login, so that the program reads either the old one or the new
// one.
func replaceCopy(home *os.Root, name string, content []byte) error {
	fresh := name + "." + rand.Text()
	file, err := home.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err == nil {
		err = home.Rename(fresh, name)
	}
	if err != nil {
		_ = home.Remove(fresh)
	}
	return err
}

// lock locks a login of the user for all processes of signalbox. Closing the file unlocks it.
func (l *login) lock() (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(l.Lock), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(l.Lock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := durable.LockFile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// lockFor returns the lock of a login, which is in the user's home folder.
func lockFor(home, login string) string {
	return filepath.Join(home, ".cache", "signalbox", "logins",
		fmt.Sprintf("%x", sha256.Sum256([]byte(resolve(login)))))
}

// RenewLeftovers copies back the tokens that programs renewed before signalbox was killed with
// them: those of a task, or of all tasks if work is "". Call it before a program starts, because
// the user's login may have been replaced by one of them. It returns what was not copied, like
// RenewLogins.
func RenewLeftovers(box, work string) (refused []string, err error) {
	works := []string{work}
	if work == "" {
		works, err = namesIn(filepath.Join(box, StateFolder))
	}
	errs := []error{err}
	for _, work := range works {
		folder := filepath.Join(box, StateFolder, work)
		names, err := namesIn(folder)
		errs = append(errs, err)
		for _, name := range names {
			if home, isRecord := strings.CutSuffix(name, recordOf("")); isRecord {
				l := &logins{home: filepath.Join(folder, home)}
				errs = append(errs, l.renewLeftover())
				refused = append(refused, l.refused...)
			}
		}
	}
	return refused, errors.Join(errs...)
}

// namesIn returns the names of what is in a folder, none if it does not exist or is not a folder.
func namesIn(folder string) (names []string, err error) {
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return nil, nil
	}
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}

// RemoveHome removes the home folder of a program that has ended, after a last look at its logins.
func RemoveHome(home string) error {
	if err := (&logins{home: home}).renewLeftover(); err != nil {
		return err
	}
	return errors.Join(RemoveAll(home), durable.Remove(recordOf(home)))
}

// renewLeftover copies back what is recorded of a home folder.
func (l *logins) renewLeftover() error {
	text, err := durable.ReadRegular(recordOf(l.home), 10*maxLogin)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &l.all)
	}
	if err == nil {
		err = l.sync(true)
	}
	if err != nil {
		return fmt.Errorf("renew the login of a killed agent: %w", err)
	}
	return nil
}
