package contain

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"signalbox/internal/durable"
)

// maxLogin bounds the size of a login.
const maxLogin = 1 << 20

// RenewLogins passes on to the user the logins that a program has renewed. The program has a link to the user's file, and most programs write
// to that. One that writes a new file and renames it has replaced the link instead, and the user's login may not be valid any more. Call it
// after the program has ended.
func (p *Program) RenewLogins() error {
	if p.home == "" || len(p.links) == 0 {
		return nil
	}
	home, err := os.OpenRoot(p.home)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("renew the login of an agent: %w", err)
	}
	defer home.Close()
	given := p.givenLogins()
	var errs []error
	for _, l := range p.links {
		if err := p.renewLogin(home, l, given[l.name]); err != nil {
			errs = append(errs, fmt.Errorf("renew the login of an agent: %w", err))
		}
	}
	return errors.Join(errs...)
}

// givenFile returns the file with digests of the logins that the program was given, by their names in the home folder. It is beside the home folder,
// where the program cannot change it.
func (p *Program) givenFile() string { return p.home + ".logins" }

// rememberLogins records which logins the program is given.
func (p *Program) rememberLogins() error {
	given := map[string]string{}
	for _, l := range p.links {
		if text, err := durable.ReadRegular(l.to, maxLogin); err == nil {
			given[l.name] = digest(text)
		}
	}
	if len(p.links) == 0 {
		return nil
	}
	text, err := json.Marshal(given)
	if err != nil {
		return err
	}
	return durable.Replace(p.givenFile(), text, 0o600)
}

// givenLogins returns what rememberLogins recorded, nothing if that cannot be read.
func (p *Program) givenLogins() (given map[string]string) {
	text, err := os.ReadFile(p.givenFile())
	if err != nil || json.Unmarshal(text, &given) != nil {
		return nil
	}
	return given
}

func digest(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text)) }

// lockLogin locks a login of the user for all processes of signalbox. The file that it returns has the digest of the last login that one of them
// wrote; closing it unlocks the login.
func (p *Program) lockLogin(l linked) (*os.File, error) {
	if err := os.MkdirAll(p.locks, 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(p.locks, digest([]byte(l.to))), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := durable.LockFile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// renewLogin writes a file that has taken the place of a link to where the link led. What the file contains is up to the program, which may
// change the user's file anyway. But it must be a file that looks like the old one, and be newer: another program may have renewed the same
// login. The old one must be the one that the program was given, or one that another program has renewed meanwhile: if the user has logged in
// again, that counts.
func (p *Program) renewLogin(home *os.Root, l linked, given string) error {
	if info, err := home.Lstat(l.name); err != nil || !info.Mode().IsRegular() {
		return nil // it is still the link, or the program left something else there
	}
	file, err := durable.OpenRegularIn(home, l.name)
	if err != nil {
		return err
	}
	defer file.Close()
	lock, err := p.lockLogin(l)
	if err != nil {
		return err
	}
	defer lock.Close()
	ours, err := io.ReadAll(io.LimitReader(lock, 2*sha256.Size))
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	before, err := os.Stat(l.to)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.ModTime().After(before.ModTime()) {
		return nil // the user has logged out, or there is a newer one
	}
	if err != nil {
		return err
	}
	if !isOwn(info) || !isOwn(before) || info.Size() == 0 || info.Size() > maxLogin {
		return fmt.Errorf("%s is not renewed: the new file has %d bytes, or belongs to another user", l.to, info.Size())
	}
	old, err := durable.ReadRegular(l.to, maxLogin)
	if err != nil {
		return err
	}
	if now := digest(old); now != given && now != string(ours) {
		return fmt.Errorf("%s is not renewed: it was changed while the agent worked", l.to)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxLogin))
	if err != nil || bytes.Equal(text, old) {
		return err
	}
	if json.Valid(old) && !json.Valid(text) {
		return fmt.Errorf("%s is not renewed: the new file is not JSON", l.to)
	}
	if _, err := lock.WriteAt([]byte(digest(text)), 0); err != nil {
		return err
	}
	return overwrite(l.to, text)
}

// overwrite replaces the content of a file, but not the file: other programs that run have it in their sandboxes.
func overwrite(name string, text []byte) error {
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(text, 0)
	if err == nil {
		err = file.Truncate(int64(len(text)))
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
