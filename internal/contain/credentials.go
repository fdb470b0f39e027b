package contain

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/internal/config"
	"signalbox/internal/process"
)

// keyVariable names the file with the key that signs checkpoints.
const keyVariable = "SIGNALBOX_KEY"

// keyFile returns the file that keyVariable names, "" if it names none.
func keyFile() string {
	if name := os.Getenv(keyVariable); name != "" {
		if name, err := filepath.Abs(name); err == nil {
			return name
		}
	}
	return ""
}

// credentials returns the files with the secrets that signalbox itself uses, without links: those
// that its settings name, its signing key, and those with which it logs in to a database. Files
// that the configuration of the sandbox names are left out.
func (b *builder) credentials() (files []string) {
	candidates := append(b.Config.SecretFiles(b.Box), b.KeyFile)
	for _, name := range []string{"PGPASSFILE", "PGSSLKEY", "PGSERVICEFILE"} {
		candidates = append(candidates, process.Getenv(b.Environ, name))
	}
	if b.Home != "" { // which can be in a folder that the configuration names
		for _, name := range []string{".pgpass", ".pg_service.conf",
			filepath.Join(".postgresql", "postgresql.key")} {
			candidates = append(candidates, filepath.Join(b.Home, name))
		}
	}
	var named []string
	for _, name := range slices.Concat(b.own.Read, b.own.Write) {
		named = append(named, resolve(name))
	}
	for _, name := range candidates {
		if name == "" {
			continue
		}
		name, err := filepath.Abs(name)
		if err != nil {
			continue
		}
		real := resolve(name)
		if info, err := os.Stat(real); err == nil && info.Mode().IsRegular() &&
			!slices.Contains(named, real) && !slices.Contains(files, real) {
			files = append(files, real)
		}
	}
	return files
}

// ownFolder returns signalbox's own folder, without links. It need not exist.
func (b *builder) ownFolder() string {
	if b.Own == "" {
		return ""
	}
	missing := ""
	for folder := filepath.Clean(b.Own); ; folder = filepath.Dir(folder) {
		real, err := filepath.EvalSymlinks(folder)
		if err == nil || folder == filepath.Dir(folder) {
			return filepath.Join(cmp.Or(real, folder), missing)
		}
		missing = filepath.Join(filepath.Base(folder), missing)
	}
}

// hideCredentials hides credentials in folders that may be read or changed, such as /etc.
// Signalbox's own folder is hidden whatever the configuration names.
func (b *builder) hideCredentials() {
	files, own := b.credentials(), b.ownFolder()
	var named []string
	for _, name := range slices.Concat(b.own.Read, b.own.Write) {
		if real := resolve(name); own != "" && cleanWithin(real, own) {
			named = append(named, real)
		}
	}
	if own != "" {
		files = append([]string{own}, files...) // first, because it hides everything in it
	}
	policy := b.p.Policy
	var folders, hidden, changed []string
	for _, paths := range []*[]string{&policy.Read, &policy.Write} {
		*paths = slices.DeleteFunc(*paths, func(name string) bool {
			real := resolve(name)
			folders = append(folders, real)
			if paths == &policy.Write {
				changed = append(changed, real)
			}
			return slices.Contains(files, real) || slices.Contains(named, real)
		})
	}
	for _, name := range policy.Hidden {
		hidden = append(hidden, resolve(name))
	}
	for _, file := range files {
		deepest := func(folders []string) (length int) {
			for _, folder := range folders {
				if folder != file && cleanWithin(file, folder) {
					length = max(length, len(folder))
				}
			}
			return length
		}
		if deepest(folders) > deepest(hidden) { // otherwise it is not shown
			policy.Hidden = append(policy.Hidden, file)
			if file == own {
				hidden = append(hidden, own)
				if deepest(changed) > 0 { // otherwise the program could create it
					b.p.own = own
				}
			}
		}
	}
}

// journalSecrets returns the names of the variables with which signalbox logs in to the database of
// the ledger. Only a program for which the configuration names exactly one of them gets it.
func (b *builder) journalSecrets() []string {
	switch config.JournalScheme(b.Config.Journal) {
	case "postgres":
		return []string{"PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE", "PGSSLKEY", "PGSSLPASSWORD"}
	case "nats":
		return []string{"NATS_PASSWORD"}
	}
	return nil
}

// withoutJournalSecrets removes the variables of journalSecrets that only a pattern matches.
func (b *builder) withoutJournalSecrets(environ []string) []string {
	secrets := b.journalSecrets()
	return slices.DeleteFunc(environ, func(entry string) bool {
		name := nameOf(entry)
		return slices.ContainsFunc(secrets,
			func(secret string) bool { return strings.EqualFold(name, secret) }) &&
			!slices.Contains(b.pass, name)
	})
}
