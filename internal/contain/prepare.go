package contain

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/internal/durable"
)

// Prepare creates the folders that the program needs, and a new home folder unless the program is
// an author's. It copies the user's settings into it, over what an earlier run of the program may
// have left there, and the user's logins. Call RenewLogins and then Clean or Finish after the
// program has ended.
func (p *Program) Prepare() error {
	if p.Policy == nil {
		return nil
	}
	for _, folder := range []string{p.Policy.Temp, p.own} {
		if folder == "" {
			continue
		}
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return fmt.Errorf("prepare a sandbox: %w", err)
		}
	}
	if p.home == "" {
		return nil
	}
	// The logins of a program that was killed with signalbox. If they cannot be renewed now, they
	// never can: the user's logins are copied over them.
	leftover := logins{home: p.home}
	_ = leftover.renewLeftover()
	if err := p.place.fill(); err != nil {
		return fmt.Errorf("prepare a sandbox: %w", err)
	}
	// See home.fill.
	home, err := os.OpenRoot(p.home)
	if err != nil {
		return fmt.Errorf("prepare a sandbox: %w", err)
	}
	defer home.Close()
	folders := []string{".config", ".cache", ".local/share", ".local/state"}
	if len(p.Policy.Links) > 0 { // a tool cannot make the folder that a link leads to
		folders = append(folders, goModules)
	}
	for _, folder := range folders {
		if err := makeFolder(home, folder); err != nil {
			return fmt.Errorf("prepare a sandbox: %w", err)
		}
	}
	if err := writeInto(home, filepath.Join(".config", "git", "config"),
		p.gitSettings()); err != nil {
		return fmt.Errorf("prepare git in a sandbox: %w", err)
	}
	for _, c := range p.copies {
		if err := copyInto(home, c); err != nil {
			return fmt.Errorf("copy the settings of an agent: %w", err)
		}
	}
	p.logins.home, p.logins.refused = p.home, leftover.refused
	if err := p.logins.prepare(home); err != nil {
		return fmt.Errorf("copy the login of an agent: %w", err)
	}
	return nil
}

// gitSettings returns the settings of git in a home folder: what commits in repositories of the
// program's own need, such as those of tests, and that the working copy can be used, whoever owns
// it. None of them runs a program. Settings in ~/.gitconfig count more.
func (p *Program) gitSettings() string {
	text := "[user]\n\tname = signalbox\n\temail = signalbox@localhost\n[init]\n\tdefaultBranch = main\n"
	if p.dir == "" {
		return text
	}
	text += "[safe]\n"
	for _, dir := range slices.Compact([]string{p.dir, resolve(p.dir)}) {
		text += "\tdirectory = \"" + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n",
			`\n`).Replace(filepath.ToSlash(dir)) + "\"\n"
	}
	return text
}

// writeInto writes a file in a home folder, over whatever has its name.
func writeInto(home *os.Root, name, text string) error {
	if err := clearPlace(home, name); err != nil {
		return err
	}
	return home.WriteFile(name, []byte(text), 0o600)
}

// maxSettings bounds the size of a file of settings.
const maxSettings = 4 << 20

// copyInto copies a file into a home folder. Without the file, what has its name is removed.
func copyInto(home *os.Root, c copied) error {
	if err := clearPlace(home, c.name); err != nil {
		return err
	}
	text, err := durable.ReadRegular(c.from, maxSettings)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return home.WriteFile(c.name, text, 0o600)
}

// clearPlace removes what has a name, and makes the folders above it real folders.
func clearPlace(home *os.Root, name string) error {
	if err := makeFolder(home, filepath.Dir(name)); err != nil {
		return err
	}
	return home.RemoveAll(name)
}

// makeFolder creates a folder. What has the name of one of the folders in its path, and is not a
// folder, is removed.
func makeFolder(home *os.Root, name string) error {
	path := ""
	for part := range strings.SplitSeq(filepath.ToSlash(name), "/") {
		path = filepath.Join(path, part)
		info, err := home.Lstat(path)
		if err == nil && !info.IsDir() {
			err = errors.Join(home.Remove(path), fs.ErrNotExist)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = home.Mkdir(path, 0o700)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Clean removes the program's temporary files, and finishes it.
func (p *Program) Clean() error {
	if p.Policy == nil || p.Policy.Temp == "" {
		return p.Finish()
	}
	return errors.Join(p.Finish(), RemoveAll(p.Policy.Temp))
}

// RemoveState removes the home folders of a task's programs, after a last look at their logins.
func RemoveState(box, work string) error {
	if _, err := RenewLeftovers(box, work); err != nil {
		return err
	}
	return RemoveAll(filepath.Join(box, StateFolder, work))
}

// RemoveAll removes a folder that programs have written to. They may have made folders in it
// read-only.
func RemoveAll(folder string) error {
	if os.RemoveAll(folder) == nil {
		return nil
	}
	_ = filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() {
			_ = os.Chmod(name, 0o700) // before its entries are read
		}
		return nil
	})
	return os.RemoveAll(folder)
}
