package fault

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/ledger"
)

// site is a project with a box, and the home of the user who works there.
type site struct {
	project, home string
	box           string // the folder .signalbox
	keyFile       string
	publicKey     string
	environment   []string        // in addition to what every command gets
	prepare       func(*exec.Cmd) // if not nil, changes commands before they start
}

// newSite makes a box with the real command.
func newSite(t testing.TB) *site {
	t.Helper()
	s := emptySite(t)
	s.init(t)
	return s
}

// emptySite is a site without a box.
func emptySite(t testing.TB) *site {
	t.Helper()
	return siteIn(t, t.TempDir())
}

// siteIn is the site in a folder, with nothing in it if it is new.
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
	s.mustAnswer(t, &made, "init", "--json")
	s.publicKey, s.keyFile = made.Key, made.KeyFile
}

// findKeys looks for the keys of a box that was made elsewhere and copied here.
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

// copy returns a copy of the site that can be spoilt.
func (s *site) copy(t testing.TB) *site {
	t.Helper()
	return copySite(t, t.TempDir(), filepath.Dir(s.home))
}

// copySite copies a folder with a site in it.
func copySite(t testing.TB, to, from string) *site {
	t.Helper()
	check(t, os.CopyFS(to, os.DirFS(from)))
	s := siteIn(t, to)
	s.findKeys(t)
	check(t, os.Chmod(s.keyFile, 0o600)) // a copy does not keep the modes
	return s
}

// signedFile is where the signer keeps its last checkpoint, out of reach of those who can only write the box.
func (s *site) signedFile() string { return s.keyFile + ".checkpoint" }

// forget takes all checkpoints of the box away, also the signer's own.
func (s *site) forget(t testing.TB) {
	t.Helper()
	for _, name := range []string{s.file("checkpoint"), s.file("checkpoint.tree"), s.signedFile()} {
		check(t, os.Remove(name))
	}
}

func (s *site) file(name string) string { return filepath.Join(s.box, name) }

// options are for opening the box in this process.
func (s *site) options() *box.Options { return &box.Options{KeyFile: s.keyFile} }

// open opens the box in this process, until the test ends.
func (s *site) open(t testing.TB) *box.Box {
	t.Helper()
	b, err := box.Open(t.Context(), s.box, s.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// verify verifies the ledger in this process.
func (s *site) verify(t testing.TB) ledger.Report {
	t.Helper()
	l, err := box.OpenLedger(t.Context(), s.box, s.options())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	verified, err := l.Verify(t.Context(), box.VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return verified.Report
}

// mustVerify checks that the ledger is whole, and returns its events.
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
	l, err := box.OpenLedger(t.Context(), s.box, s.options())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	events, err := l.Journal.Read(t.Context(), 0, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
