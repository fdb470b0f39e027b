package box

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/memory"
	"signalbox/internal/testkit/must"
	"signalbox/ledger"
)

// childVariable makes this test binary init a box and end, as another process. Its value is the
// folder.
const childVariable = "BOX_TEST_INIT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerVariable); dir != "" {
		if err := writeElsewhere(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	dir := os.Getenv(childVariable)
	if child := os.Getenv(migrateVariable); child != "" {
		var move killedMove
		err := json.Unmarshal([]byte(child), &move)
		if err == nil {
			err = move.run()
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	if dir == "" {
		memory.UseForTempFiles()
		code := m.Run()
		if err := errors.Join(database.Stop(), os.RemoveAll(templates())); err != nil {
			fmt.Println(err)
			code = max(code, 1)
		}
		os.Exit(code)
	}
	if _, err := Init(context.Background(), dir, "ann", nil); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// initElsewhere is Init in another process.
func initElsewhere(dir string) error {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+dir, "GORACE=atexit_sleep_ms=0")
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}

// atHome gives the test a home of its own, and returns the folder of its keys.
func atHome(t *testing.T) (keys string) {
	t.Helper()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
	t.Setenv("AppData", filepath.Join(home, "config"))
	own, err := os.UserConfigDir()
	must.Succeed(t, err)
	return filepath.Join(own, "signalbox", "keys")
}

// kit is a box for a test, with the key beside it.
type kit struct {
	dir  string
	opts *Options
	made *InitResult
}

// templates returns the folder of boxes that are made once and copied for each test.
var templates = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "signalbox-boxes-")
	if err != nil {
		panic(err)
	}
	return dir
})

// made has the boxes in templates, by name.
var made = map[string]*kit{}

// newFrom returns a copy of the box of that name, with its key, and makes the box if no test has
// used it yet. Tests that use it do not run at the same time.
func newFrom(t *testing.T, name string, make func(k *kit)) *kit {
	t.Helper()
	k := made[name]
	if k == nil {
		k = initKit(t, filepath.Join(templates(), name))
		make(k)
		made[name] = k
	}
	return k.withKey(t)
}

// withKey returns a copy of the box and of its key, with what was signed.
func (k *kit) withKey(t *testing.T) *kit {
	t.Helper()
	dir := t.TempDir()
	c := kitIn(dir)
	err := os.CopyFS(dir, os.DirFS(filepath.Dir(k.dir)))
	must.Succeed(t, errors.Join(err, os.Chmod(c.opts.KeyFile, 0o600)))
	c.made = &InitResult{c.dir, k.made.ID, k.made.PublicKey, c.opts.KeyFile}
	return c
}

func kitIn(dir string) *kit {
	return &kit{dir: filepath.Join(dir, FolderName),
		opts: &Options{KeyFile: filepath.Join(dir, "box.key")}}
}

// newKit returns a new box. It has the same id and key as the others that newKit returns.
func newKit(t *testing.T) *kit {
	t.Helper()
	return newFrom(t, "new", func(*kit) {})
}

// otherKit returns a new box that is not that of newKit.
func otherKit(t *testing.T) *kit {
	t.Helper()
	return initKit(t, t.TempDir())
}

func initKit(t *testing.T, dir string) *kit {
	t.Helper()
	k := kitIn(dir)
	var err error
	if k.made, err = Init(t.Context(), k.dir, "ann", k.opts); err != nil {
		t.Fatal(err)
	}
	return k
}

// copy returns a box with the same files and the same key.
func (k *kit) copy(t *testing.T) *kit {
	t.Helper()
	dir := filepath.Join(t.TempDir(), FolderName)
	must.Succeed(t, os.CopyFS(dir, os.DirFS(k.dir)))
	return &kit{dir, k.opts, k.made}
}

// forget takes from the signer what it remembers, as if its key had come to this host without it.
func (k *kit) forget(t *testing.T) {
	t.Helper()
	must.Succeed(t, os.Remove(k.made.KeyFile+signedSuffix))
}

// through makes a box use its ledger, in a file, through another journal.
func (o *Options) through(wrap func(journal.Journal) journal.Journal) {
	o.open = func(ctx context.Context, dir, _ string, how access,
		opts *Options) (journal.Journal, error) {
		j, err := openJournal(ctx, dir, config.JournalSQLite, how, opts)
		if err != nil {
			return nil, err
		}
		return wrap(j), nil
	}
}

func (k *kit) open(t *testing.T) *Box {
	t.Helper()
	b, err := Open(t.Context(), k.dir, k.opts)
	must.Succeed(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

func (k *kit) ledger(t *testing.T) *Ledger {
	t.Helper()
	l, err := OpenLedger(t.Context(), k.dir, k.opts)
	must.Succeed(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// write adds an event for each work.
func write(t *testing.T, b *Box, works ...string) {
	t.Helper()
	for _, work := range works {
		if _, err := b.Engine.Do(t.Context(),
			rules.OpenWork{Work: work, Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
	}
}

// writeAndSign does so in a box that is opened and closed for it.
func (k *kit) writeAndSign(t *testing.T, works ...string) *Checkpoint {
	t.Helper()
	b := k.open(t)
	write(t, b, works...)
	checkpoint := sign(t, b)
	must.Succeed(t, b.Close())
	return checkpoint
}

func sign(t *testing.T, b *Box) *Checkpoint {
	t.Helper()
	checkpoint, err := b.Sign(t.Context())
	must.Succeed(t, err)
	return checkpoint
}

func verify(t *testing.T, k *kit, opts VerifyOptions) ledger.Report {
	t.Helper()
	l := k.ledger(t)
	defer l.Close()
	report, err := l.Verify(t.Context(), opts)
	if err != nil {
		t.Error(err)
	}
	return report.Report
}

// checkVerified fails unless the box verifies against its own checkpoint, which has all its events.
func checkVerified(t *testing.T, k *kit, events uint64) {
	t.Helper()
	report := verify(t, k, VerifyOptions{})
	if !report.OK || report.Events != events || report.Checkpoint == nil ||
		report.Checkpoint.Size != events {
		t.Errorf("report %+v with checkpoint %+v, want %d events, all signed", report,
			report.Checkpoint, events)
	}
}

func checkCode(t *testing.T, err error, code signalbox.Code) {
	t.Helper()
	classified := (*signalbox.Error)(nil)
	if !errors.As(err, &classified) || classified.Code != code {
		t.Errorf("error %v, want one of code %d", err, code)
	}
}

// tamper changes the ledger behind signalbox's back.
func (k *kit) tamper(t *testing.T, statement string, args ...any) {
	t.Helper()
	// the driver comes with the journal
	db, err := sql.Open("sqlite", filepath.Join(k.dir, "ledger.db"))
	if err == nil {
		_, err = db.Exec("DROP TRIGGER IF EXISTS events_are_never_changed; DROP TRIGGER IF EXISTS events_are_never_deleted; DROP TRIGGER IF EXISTS events_are_only_appended")
	}
	if err == nil {
		_, err = db.Exec(statement, args...)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func (k *kit) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(k.dir, name))
	must.Succeed(t, err)
	return string(text)
}

func (k *kit) put(t *testing.T, name, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o600))
}

func (k *kit) remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(k.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}
