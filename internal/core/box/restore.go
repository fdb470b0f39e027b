package box

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/journal/sqlite"
	"signalbox/internal/durable"
	"signalbox/ledger"
)

// RestoreOptions says how to restore. The zero value is for use.
type RestoreOptions struct {
	Options
	// PublicKey is one that was kept elsewhere, which must be the box's; "" takes that of the private key if it is here, else
	// the one in the backup.
	PublicKey string
	// Forget lets the signer on this host forget what it signed after the backup was made.
	Forget bool
	// Progress, if not nil, is called now and then with the number of events restored and of all.
	Progress func(done, all uint64)
}

// Restored tells what was restored.
type Restored struct {
	Dir    string
	Box    string
	Events uint64
	Head   signalbox.Hash
	Blobs  int
	// Signed is how many events the checkpoint in the backup signed; 0 means that there is none.
	Signed uint64
	// KeyFile is where the private key must be for the box to sign, and KeyHere whether it is.
	KeyFile string
	KeyHere bool
	// Absent are blobs that the box did not have either, though an event names them and nobody had redacted them.
	Absent []signalbox.Hash
	// Forgot is where that was moved which the signer remembered, "" if nothing was to forget.
	Forgot string
	// Config is why the restored configuration cannot be used, nil if it can.
	Config error
}

// Restore makes the box folder dir, which must not exist, from a backup. It checks everything first: what is wrong is an
// error of CodeUnverified, and nothing is left behind.
func Restore(ctx context.Context, from io.Reader, dir string, opts *RestoreOptions) (*Restored, error) {
	if opts == nil {
		opts = &RestoreOptions{}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := checkFree(dir); err != nil {
		return nil, err
	}
	parent := filepath.Dir(dir)
	made, err := makeParents(parent)
	undo := func() {
		for _, folder := range slices.Backward(made) {
			os.Remove(folder)
		}
	}
	if err != nil {
		undo()
		return nil, cannotRestore(err)
	}
	temp, err := os.MkdirTemp(parent, filepath.Base(dir)+"-restore-*") // of mode 0700
	if err != nil {
		undo()
		return nil, cannotRestore(err)
	}
	restored, err := restoreVia(ctx, from, temp, dir, opts)
	if err != nil {
		os.RemoveAll(temp)
		undo()
		return nil, cannotRestore(err)
	}
	return restored, nil
}

func checkFree(dir string) error {
	_, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return cannotRestore(err)
	}
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("%s is there already", dir),
		Hint: "restore into another folder, or move that one away first: nothing is restored over a box"}
}

// makeParents makes a folder with those above it, and returns the ones that were not there.
func makeParents(folder string) (made []string, err error) {
	if _, err := os.Stat(folder); err == nil || !errors.Is(err, fs.ErrNotExist) || folder == filepath.Dir(folder) {
		return nil, err
	}
	if made, err = makeParents(filepath.Dir(folder)); err != nil {
		return made, err
	}
	if err := os.Mkdir(folder, 0o777); err != nil {
		return made, err
	}
	return append(made, folder), nil
}

func cannotRestore(err error) error {
	if classed := (*signalbox.Error)(nil); errors.As(err, &classed) || errors.Is(err, context.Canceled) {
		return err
	}
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("cannot restore the box: %w", err),
		Hint: "choose a folder that you may write to and that has room; nothing was left behind"}
}

// restoreVia builds the box in the folder temp, and gives it its name when all is right.
func restoreVia(ctx context.Context, from io.Reader, temp, dir string, opts *RestoreOptions) (*Restored, error) {
	l, err := openLedger(ctx, temp, &opts.Options, &sqlite.Options{Create: true})
	if err != nil {
		return nil, err
	}
	u := &unpacking{l: l, progress: opts.Progress, named: newNamed(), blobs: map[signalbox.Hash]bool{}}
	if err = u.unpack(ctx, from); err == nil {
		l.id = u.manifest.Box
		err = u.checkWhole(ctx)
	}
	if err == nil {
		err = makeFolder(temp) // what every box has besides
	}
	var s *signer
	if err == nil {
		s, err = u.verify(ctx, opts)
	}
	if err = errors.Join(err, l.Close()); err != nil {
		return nil, err
	}
	restored := &Restored{Dir: dir, Box: u.manifest.Box, Events: u.manifest.Events, Head: u.manifest.Head, Blobs: len(u.blobs),
		KeyFile: s.file, KeyHere: s.public != "", Absent: u.absent}
	if u.signed != nil {
		restored.Signed = u.signed.Size
	}
	if restored.Forgot, err = giveName(temp, dir, s.forget); err != nil {
		return nil, err
	}
	_, restored.Config = config.Load(dir)
	return restored, nil
}

// giveName makes the box that is ready the box. What the signer remembers goes first: if this is interrupted in between, restoring
// again finishes it.
func giveName(temp, dir, forget string) (forgot string, err error) {
	if err := durable.SyncFolder(temp); err != nil {
		return "", err
	}
	if forget != "" {
		if forgot, err = moveAside(forget); err != nil {
			return "", err
		}
	}
	if err = checkFree(dir); err == nil {
		err = os.Rename(temp, dir)
	}
	if err != nil {
		if forgot != "" {
			err = errors.Join(err, os.Rename(forgot, forget))
		}
		return "", err
	}
	return forgot, durable.SyncFolder(filepath.Dir(dir))
}

// moveAside gives a file a new name, which nothing had.
func moveAside(name string) (string, error) {
	for i := 1; ; i++ {
		aside := fmt.Sprintf("%s.forgotten-%d", name, i)
		err := os.Link(name, aside)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		return aside, durable.Remove(name)
	}
}

// signer is what this host has to sign with.
type signer struct {
	file   string // where the private key is, or would be
	public string // "" if the private key is not here
	// forget is the file with what it remembers, if that must be moved aside.
	forget string
}

// verify checks the restored ledger as ledger verify does, against the checkpoint and the key of the backup, and those against what
// is known on this host.
func (u *unpacking) verify(ctx context.Context, opts *RestoreOptions) (*signer, error) {
	s := &signer{}
	s.file, _ = u.l.keyFile(u.manifest.Box) // "" where there is no place for one
	if private, err := u.l.privateKey(); err == nil {
		if s.public, err = ledger.PublicKey(private); err != nil {
			return nil, err
		}
	}
	if err := u.openCheckpoint(opts.PublicKey, s.public); err != nil {
		return nil, err
	}
	if s.public != "" {
		if err := u.compareWithSigner(ctx, s, opts.Forget); err != nil {
			return nil, err
		}
	}
	against := VerifyOptions{PublicKey: u.public}
	if u.signed != nil {
		against.Checkpoint = u.signed.Signed
	}
	if u.signed == nil && s.forget != "" {
		return nil, badBackup("it has no checkpoint, so what the signer remembers is all that it can be checked against")
	}
	report, err := u.l.Verify(ctx, against)
	switch {
	case err != nil:
		return nil, err
	case !report.OK:
		return nil, badBackup("%s", report.Reason)
	case report.Unjudged != nil:
		return nil, report.Unjudged
	}
	return s, nil
}

// openCheckpoint opens the checkpoint of the backup with the key that it must be signed with: the one that was given, that of this
// host, or else the one in the backup.
func (u *unpacking) openCheckpoint(given, here string) error {
	for _, known := range []struct{ key, whose string }{{given, "that was given"}, {here, "of this host"}} {
		switch {
		case known.key == "" || known.key == u.public:
		case u.public == "":
			return badBackup("it has no public key to compare with the one %s", known.whose)
		default:
			return badBackup("its public key is not the one %s", known.whose)
		}
	}
	if u.checkpoint == nil {
		if given != "" {
			return badBackup("it has no checkpoint, so nothing in it is signed with the key that was given")
		}
		return nil
	}
	if u.public == "" {
		return badBackup("it has a checkpoint and no public key")
	}
	opened, err := ledger.OpenCheckpoint(u.checkpoint, u.public)
	if err != nil {
		return badBackup("%s: %w", checkpointEntry, err)
	}
	if opened.Origin != origin(u.manifest.Box) {
		return badBackup("its checkpoint is of %s, not of %s", opened.Origin, origin(u.manifest.Box))
	}
	if opened.Size > u.manifest.Events {
		return badBackup("its checkpoint signed %d events, and it has %d", opened.Size, u.manifest.Events)
	}
	u.signed = &Checkpoint{opened, u.checkpoint, false}
	return nil
}

// compareWithSigner holds that the signer on this host goes on signing the history that it signed before: what is restored must
// have all of it, unless the signer is to forget.
func (u *unpacking) compareWithSigner(ctx context.Context, s *signer, forget bool) error {
	remembered, err := openCheckpoint(s.file+signedSuffix, s.public)
	if err != nil || remembered == nil {
		return err
	}
	differs := cut(remembered.Size, u.manifest.Events)
	if differs == nil {
		_, differs = u.l.treeFor(ctx, remembered)
	}
	if classed := (*signalbox.Error)(nil); differs == nil || !errors.As(differs, &classed) || classed.Code != signalbox.CodeUnverified {
		return differs
	}
	if forget {
		s.forget = s.file + signedSuffix
		return nil
	}
	what := fmt.Errorf("the backup is not the history that this host signed: %w", differs)
	if remembered.Size > u.manifest.Events {
		what = fmt.Errorf("the backup has %d events, and %d were signed on this host: the last %d would be lost",
			u.manifest.Events, remembered.Size, remembered.Size-u.manifest.Events)
	}
	return &signalbox.Error{Code: signalbox.CodeUnverified, Err: what,
		Hint: "look for a newer backup; with --forget the box goes on from this one, and what was signed after it no longer agrees with it"}
}
