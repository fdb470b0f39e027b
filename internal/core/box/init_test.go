package box

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
	"signalbox/ledger"
)

// checkWhole fails unless a box in the user's own place is as Init makes one.
func checkWhole(t *testing.T, dir, keys string) {
	t.Helper()
	k := &kit{dir: dir}
	checkVerified(t, k, 1)
	if got := k.read(t, ".gitignore"); !strings.HasSuffix(got, "\n*\n") {
		t.Errorf(".gitignore has %q", got)
	}
	if got := k.read(t, config.FileName); got != config.Template {
		t.Errorf("the configuration has %q", got)
	}
	l := k.ledger(t)
	private, err := os.ReadFile(filepath.Join(keys, l.ID()+".key"))
	must.Succeed(t, err)
	public, err := ledger.PublicKey(strings.TrimSpace(string(private)))
	if got := k.read(t, publicKeyName); err != nil || got != public+"\n" {
		t.Errorf("the public key is %q, want %q, %v", got, public, err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for _, name := range []string{".gitignore", config.FileName, "ledger.db", checkpointName,
		publicKeyName} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil ||
			info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", name, info.Mode(), err)
		}
	}
}

func keyFiles(t *testing.T, keys string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(keys, "*.key"))
	must.Succeed(t, err)
	return found
}

func TestInit(t *testing.T) {
	keys := atHome(t)
	dir := filepath.Join(t.TempDir(), "deep", FolderName)
	made, err := Init(t.Context(), dir, "ann", nil)
	must.Succeed(t, err)
	checkWhole(t, dir, keys)
	if want := []string{made.KeyFile}; len(keyFiles(t, keys)) != 1 ||
		keyFiles(t, keys)[0] != want[0] {
		t.Errorf("keys %q, want %q", keyFiles(t, keys), want)
	}
	if name, err := ledger.KeyName(made.PublicKey); err != nil || name != "signalbox/"+made.ID ||
		made.Dir != dir {
		t.Errorf("made %+v, with a key of %s, %v", made, name, err)
	}

	before := (&kit{dir: dir}).read(t, checkpointName)
	_, err = Init(t.Context(), dir, "ann", nil)
	checkCode(t, err, signalbox.CodeFailed)
	if !strings.Contains(err.Error(), "a box already exists in "+dir) ||
		len(keyFiles(t, keys)) != 1 {
		t.Errorf("the second time: %v, keys %q", err, keyFiles(t, keys))
	}
	if after := (&kit{dir: dir}).read(t, checkpointName); after != before {
		t.Errorf("the second time changed the checkpoint to %s", after)
	}
	checkWhole(t, dir, keys)
}

// interruptedInit executes the first steps of Init.
func interruptedInit(t *testing.T, dir string, steps int) {
	t.Helper()
	if steps == 0 {
		return
	}
	must.Succeed(t, os.MkdirAll(dir, 0o700))
	if steps == 1 {
		return
	}
	must.Succeed(t, makeFolder(dir, config.Template))
	if steps == 2 {
		return
	}
	l, err := openLedger(t.Context(), dir, nil, create)
	must.Succeed(t, err)
	b, err := newBox(t.Context(), l, l.openForgetfulEngine)
	must.Succeed(t, err)
	defer b.Close()
	if steps == 3 {
		return
	}
	keyFile, err := b.keyFile("box-interrupted")
	must.Succeed(t, err)
	if _, err := createKey(keyFile, origin("box-interrupted")); err != nil {
		t.Fatal(err)
	}
	if steps == 4 {
		return
	}
	if _, err := b.Engine.Do(t.Context(),
		rules.OpenBox{Box: "box-interrupted", Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
}

func TestInterruptedInit(t *testing.T) {
	for steps := range 5 {
		keys := atHome(t)
		dir := filepath.Join(t.TempDir(), FolderName)
		interruptedInit(t, dir, steps)
		if _, err := Init(t.Context(), dir, "ann", nil); err != nil {
			t.Errorf("interrupted after %d steps: %v", steps, err)
			continue
		}
		checkWhole(t, dir, keys)
	}
}

// Once its first event is there the box is open. What is missing then, the next signature makes up
// for.
func TestInitInterruptedBeforeSigning(t *testing.T) {
	keys := atHome(t)
	dir := filepath.Join(t.TempDir(), FolderName)
	interruptedInit(t, dir, 5)
	_, err := Init(t.Context(), dir, "ann", nil)
	checkCode(t, err, signalbox.CodeFailed)
	sign(t, (&kit{dir: dir}).open(t))
	checkWhole(t, dir, keys)
}

// A key in a named file is never overwritten, also not one that an interrupted Init left: it may be
// another box's.
func TestInitKeepsExistingKey(t *testing.T) {
	dir := t.TempDir()
	opts := &Options{KeyFile: filepath.Join(dir, "box.key")}
	must.Succeed(t, os.WriteFile(opts.KeyFile, []byte("somebody's"), 0o600))
	_, err := Init(t.Context(), filepath.Join(dir, FolderName), "ann", opts)
	checkCode(t, err, signalbox.CodeFailed)
	if text, err := os.ReadFile(opts.KeyFile); err != nil || string(text) != "somebody's" {
		t.Errorf("the key is now %q, %v", text, err)
	}
	opts.KeyFile = filepath.Join(dir, "another.key")
	if _, err := Init(t.Context(), filepath.Join(dir, FolderName), "ann", opts); err != nil {
		t.Errorf("with another file: %v", err)
	}
	if _, err := Init(t.Context(), filepath.Join(dir, FolderName), "ann", opts); err == nil ||
		!strings.Contains(err.Error(), "a box already exists") {
		t.Errorf("once more: %v", err)
	}
}

// Of many that make one box, in one process and in several, one does; the others say so, and leave
// no key behind.
func TestConcurrentInit(t *testing.T) {
	for name, initOnce := range map[string]func(dir string) error{
		"goroutines": func(dir string) error { _, err := Init(t.Context(), dir, "ann", nil); return err },
		"processes":  initElsewhere,
	} {
		t.Run(name, func(t *testing.T) {
			keys := atHome(t)
			dir := filepath.Join(t.TempDir(), FolderName)
			errs := make([]error, 4)
			var all sync.WaitGroup
			for i := range errs {
				all.Go(func() { errs[i] = initOnce(dir) })
			}
			all.Wait()
			won := 0
			for _, err := range errs {
				switch {
				case err == nil:
					won++
				case !strings.Contains(err.Error(), "a box already exists in "+dir):
					t.Errorf("a loser says: %v", err)
				}
			}
			if won != 1 || len(keyFiles(t, keys)) != 1 {
				t.Errorf("%d have made it, and there are the keys %q; want one", won,
					keyFiles(t, keys))
			}
			checkWhole(t, dir, keys)
		})
	}
}

func TestInitInvalidFolder(t *testing.T) {
	atHome(t)
	file := filepath.Join(t.TempDir(), "file")
	must.Succeed(t, os.WriteFile(file, nil, 0o600))
	_, err := Init(t.Context(), filepath.Join(file, FolderName), "ann", nil)
	checkCode(t, err, signalbox.CodeFailed)
	dir := filepath.Join(t.TempDir(), FolderName)
	_, err = Init(t.Context(), dir, "ann", &Options{KeyFile: filepath.Join(file, "box.key")})
	checkCode(t, err, signalbox.CodeFailed)
	_, err = Init(t.Context(), dir, "not an id",
		&Options{KeyFile: filepath.Join(filepath.Dir(file), "box.key")})
	checkCode(t, err, signalbox.CodeUsage)
	if _, err := os.Stat(filepath.Join(filepath.Dir(file), "box.key")); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("a key without a box: %v", err)
	}
}

func TestNewID(t *testing.T) {
	if a, b := NewID("s"), NewID("s"); a == b || signalbox.CheckID(a) != nil ||
		!strings.HasPrefix(a, "s-") {
		t.Errorf("ids %s and %s", a, b)
	}
}

// A folder that was made by hand gets what Init gives to one, whichever of the two commands is
// first. Other folders are left as they are.
func TestHandmadeFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no modes of files")
	}
	open := func(dir string) error {
		b, err := Open(t.Context(), dir, nil)
		if err == nil {
			b.Close()
		}
		return err
	}
	create := func(dir string) error {
		_, err := Init(t.Context(), dir, "ann",
			&Options{KeyFile: filepath.Join(t.TempDir(), "key")})
		return err
	}
	for name, test := range map[string]struct {
		folder string
		use    func(dir string) error
		mode   os.FileMode
	}{
		"created":       {FolderName, create, 0o700},
		"opened":        {FolderName, open, 0o700},
		"another named": {"project", open, 0o755},
	} {
		dir := filepath.Join(t.TempDir(), test.folder)
		must.Succeed(t, os.Mkdir(dir, 0o700))
		must.Succeed(t, os.Chmod(dir, 0o755))
		err := test.use(dir)
		info, statErr := os.Stat(dir)
		if statErr != nil {
			t.Fatal(statErr)
		}
		_, ignoreErr := os.Stat(filepath.Join(dir, ".gitignore"))
		if ignored := ignoreErr == nil; info.Mode().Perm() != test.mode ||
			ignored != (test.mode == 0o700) {
			t.Errorf("%s: mode %o, ignored %t, want %o (%v)", name, info.Mode().Perm(), ignored,
				test.mode, err)
		}
	}
}

// A box that cannot be created leaves nothing, so that the next attempt may name another place.
func TestFailedInitLeavesNothing(t *testing.T) {
	atHome(t)
	dir := filepath.Join(t.TempDir(), FolderName)
	fails := errors.New("no right to create the tables")
	opts := &Options{Journal: "postgres://signalbox@db.example.com/shop"}
	opts.open = func(_ context.Context, _, _ string, how access, _ *Options) (journal.Journal, error) {
		if how == readWrite {
			return nil, &signalbox.Error{Code: signalbox.CodeNotFound, Err: fails}
		}
		return nil, fails
	}
	if _, err := Init(t.Context(), dir, "ann", opts); !errors.Is(err, fails) {
		t.Fatalf("error %v, want %v", err, fails)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}

	settings := "slots: 3\n" + strings.Repeat("# "+strings.Repeat("x", 98)+"\n", 1000)
	must.Succeed(t, os.Mkdir(dir, 0o700))
	name := filepath.Join(dir, config.FileName)
	must.Succeed(t, os.WriteFile(name, []byte(settings), 0o600))
	if _, err := Init(t.Context(), dir, "ann", opts); !errors.Is(err, fails) {
		t.Fatalf("error %v, want %v", err, fails)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != settings {
		t.Errorf("the settings are %q, %v; want what they were", text, err)
	}
}
