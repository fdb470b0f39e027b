package fault

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/applied"
	"signalbox/internal/core/box"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
	"signalbox/ledger"
)

// site is a project with a box, and the home directory of its user.
type site struct {
	project, home string
	box           string // the folder .signalbox
	keyFile       string
	publicKey     string
	settings      string          // with which the configuration begins
	program       string          // "" means the program under test
	environment   []string        // added to that of every command
	prepare       func(*exec.Cmd) // called with every command before it starts; nil means none
}

// newSite returns a site with a box made by signalbox init.
func newSite(t testing.TB) *site {
	t.Helper()
	s := emptySite(t)
	s.init(t)
	return s
}

// emptySite returns a site without a box.
func emptySite(t testing.TB) *site {
	t.Helper()
	return siteIn(t, t.TempDir())
}

// siteIn returns the site in the folder root, and creates its folders if necessary.
func siteIn(t testing.TB, root string) *site {
	t.Helper()
	s := &site{project: filepath.Join(root, "project"), home: filepath.Join(root, "home")}
	s.box = filepath.Join(s.project, box.FolderName)
	for _, dir := range []string{s.project, s.home} {
		check(t, os.MkdirAll(dir, 0o755))
	}
	return s
}

func (s *site) init(t testing.TB) {
	t.Helper()
	var made struct {
		Key     string `json:"key"`
		KeyFile string `json:"key_file"`
	}
	s.mustJSON(t, &made, "init", "--json")
	s.publicKey, s.keyFile = made.Key, made.KeyFile
}

// findKeys finds the keys of a box that was copied here.
func (s *site) findKeys(t testing.TB) {
	t.Helper()
	check(t, filepath.WalkDir(s.home, func(name string, _ fs.DirEntry, err error) error {
		if filepath.Ext(name) == ".key" {
			s.keyFile = name
		}
		return err
	}))
	public, err := os.ReadFile(s.file("key.pub"))
	check(t, err)
	s.publicKey = strings.TrimSpace(string(public))
}

// copy returns a copy of the site.
func (s *site) copy(t testing.TB) *site {
	t.Helper()
	return copySite(t, t.TempDir(), filepath.Dir(s.home))
}

// copySite copies the site in the folder from.
func copySite(t testing.TB, to, from string) *site {
	t.Helper()
	check(t, os.CopyFS(to, os.DirFS(from)))
	s := siteIn(t, to)
	s.findKeys(t)
	check(t, os.Chmod(s.keyFile, 0o600)) // CopyFS does not preserve modes
	if address, err := config.ReadJournal(s.box); err == nil && address != config.JournalSQLite {
		s.trustPlace(t)
	}
	return s
}

// signedFile is the signer's own copy of its last checkpoint, outside the box.
func (s *site) signedFile() string { return s.keyFile + ".checkpoint" }

// forget removes all checkpoints, including the signer's own.
func (s *site) forget(t testing.TB) {
	t.Helper()
	for _, name := range []string{s.file("checkpoint"), s.file("checkpoint.tree"), s.signedFile()} {
		check(t, os.Remove(name))
	}
}

// forgetApplied makes the site a machine that has applied nothing of the ledger yet.
func (s *site) forgetApplied(t testing.TB) {
	t.Helper()
	check(t, os.Remove(s.file(applied.FileName)))
}

func (s *site) file(name string) string { return filepath.Join(s.box, name) }

// options returns the options to open the box in this process.
func (s *site) options() *box.Options { return &box.Options{KeyFile: s.keyFile} }

// open opens the box in this process, until the test ends.
func (s *site) open(t testing.TB) *box.Box {
	t.Helper()
	b, err := box.Open(t.Context(), s.box, s.options())
	check(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// openWork opens a work item in a box that is open in this process.
func openWork(t testing.TB, b *box.Box, work string) {
	t.Helper()
	_, err := b.Engine.Do(t.Context(), rules.OpenWork{Work: work, Actor: "tester"})
	check(t, err)
}

// openLedger opens the ledger in this process.
func (s *site) openLedger(t testing.TB) *box.Ledger {
	t.Helper()
	l, err := box.OpenLedger(t.Context(), s.box, s.options())
	check(t, err)
	return l
}

// verify verifies the ledger in this process.
func (s *site) verify(t testing.TB) ledger.Report {
	t.Helper()
	l := s.openLedger(t)
	defer l.Close()
	verified, err := l.Verify(t.Context(), box.VerifyOptions{})
	check(t, err)
	return verified.Report
}

// mustVerify checks that the ledger verifies, and returns its events.
func (s *site) mustVerify(t testing.TB) []signalbox.Event {
	t.Helper()
	if report := s.verify(t); !report.OK {
		t.Errorf("not verified from event %d on: %s", report.FirstBad, report.Reason)
	}
	return s.events(t)
}

// events returns all events of the ledger.
func (s *site) events(t testing.TB) []signalbox.Event {
	t.Helper()
	l := s.openLedger(t)
	defer l.Close()
	events, err := readAll(t.Context(), l.Journal, 0)
	check(t, err)
	return events
}

// readAll returns all events that follow the event after.
func readAll(ctx context.Context, j journal.Journal,
	after uint64) (all []signalbox.Event, err error) {
	for {
		events, err := j.Read(ctx, after, 1<<20) // it may return fewer
		if err != nil || len(events) == 0 {
			return all, err
		}
		all = append(all, events...)
		after = events[len(events)-1].Seq
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	must.Succeed(t, err)
}
