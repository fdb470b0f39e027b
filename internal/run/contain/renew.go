package contain

import (
	"bytes"
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
	var errs []error
	for _, l := range p.links {
		if err := renewLogin(home, l); err != nil {
			errs = append(errs, fmt.Errorf("renew the login of an agent: %w", err))
		}
	}
	return errors.Join(errs...)
}

// renewLogin writes a file that has taken the place of a link to where the link led. What the file contains is up to the program, which may
// change the user's file anyway. But it must be a file that looks like the old one, and be newer: another program may have renewed the same
// login.
func renewLogin(home *os.Root, l linked) error {
	if info, err := home.Lstat(l.name); err != nil || !info.Mode().IsRegular() {
		return nil // it is still the link, or the program left something else there
	}
	file, err := durable.OpenRegularIn(home, l.name)
	if err != nil {
		return err
	}
	defer file.Close()
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
	text, err := io.ReadAll(io.LimitReader(file, maxLogin))
	if err != nil || bytes.Equal(text, old) {
		return err
	}
	if json.Valid(old) && !json.Valid(text) {
		return fmt.Errorf("%s is not renewed: the new file is not JSON", l.to)
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
