package box

import (
	"cmp"
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
	"signalbox/internal/durable"
	"signalbox/ledger"
)

// RestoreOptions are options for Restore.
type RestoreOptions struct {
	Options
	// PublicKey is the expected public key of the box, from a trusted place. If it is "", the key
	// of this host is used, or else the one in the backup.
	PublicKey string
	// Forget makes the signer on this host forget what it signed after the backup was made.
	Forget bool
	// Progress, if not nil, is called from time to time with the number of events restored and the
	// total.
	Progress func(done, total uint64)
}

// RestoreResult describes a restored box.
type RestoreResult struct {
	Dir    string
	Box    string
	Events uint64
	Head   signalbox.Hash
	Blobs  int
	// Signed is the number of events that the checkpoint in the backup covers, 0 if there is no
	// checkpoint.
	Signed uint64
	// KeyFile is where the private key must be for the box to sign, and KeyHere reports whether it
	// is there.
	KeyFile string
	KeyHere bool
	// Missing are blobs that an event refers to, that were not redacted, and that the box did not
	// have when it was backed up.
	Missing []signalbox.Hash
	// Forgotten is the file to which the signer's last checkpoint was moved, "" if it was not.
	Forgotten string
	// Journal is where the ledger of the box was when it was backed up, if that was not a file. The
	// restored box has it in a file.
	Journal string
	// Config is why the restored configuration is not valid, nil if it is.
	Config error
}

// Restore creates the box folder dir, which must not exist, from a backup. It verifies everything
// first: if anything is wrong, the error has CodeUnverified and nothing is left behind.
func Restore(ctx context.Context, from io.Reader, dir string,
	opts *RestoreOptions) (*RestoreResult, error) {
	if opts == nil {
		opts = &RestoreOptions{}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := checkNotExist(dir); err != nil {
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
		return nil, restoreError(err)
	}
	temp, err := os.MkdirTemp(parent, filepath.Base(dir)+"-restore-*") // with mode 0700
	if err != nil {
		undo()
		return nil, restoreError(err)
	}
	restored, err := restoreTo(ctx, from, temp, dir, opts)
	if err != nil {
		os.RemoveAll(temp)
		undo()
		return nil, restoreError(err)
	}
	return restored, nil
}

func checkNotExist(dir string) error {
	_, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return restoreError(err)
	}
	return signalbox.CodeFailed.Errorf(
		"restore to another folder, or move this one away first: a box is never overwritten",
		"%s exists", dir)
}

// makeParents creates a folder and its parents, and returns those that it created.
func makeParents(folder string) (made []string, err error) {
	if _, err := os.Stat(folder); err == nil || !errors.Is(err, fs.ErrNotExist) ||
		folder == filepath.Dir(folder) {
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

func restoreError(err error) error {
	if signalbox.CodeOf(err) != 0 || errors.Is(err, context.Canceled) {
		return err
	}
	return signalbox.CodeFailed.Errorf(
		"choose a folder that you may write to and that has enough space; nothing was left behind",
		"cannot restore the box: %w", err)
}

// restoreTo builds the box in the folder temp and, when everything is verified, renames it to dir.
func restoreTo(ctx context.Context, from io.Reader, temp, dir string,
	opts *RestoreOptions) (*RestoreResult, error) {
	l, err := openLedgerAt(ctx, temp, config.JournalSQLite, &opts.Options, create)
	if err != nil {
		return nil, err
	}
	u := &unpacker{l: l, progress: opts.Progress, refs: newBlobRefs(), blobs: map[signalbox.Hash]bool{}}
	if err = u.unpack(ctx, from); err == nil {
		l.id = u.manifest.Box
		err = u.checkComplete(ctx)
	}
	if err == nil {
		err = makeFolder(temp, config.Template) // the files that every box has
	}
	was := ""
	if err == nil {
		was, err = makeLocal(temp)
	}
	var s *signer
	if err == nil {
		s, err = u.verify(ctx, opts)
	}
	if err == nil {
		err = l.remember(ctx)
	}
	if err = errors.Join(err, l.Close()); err != nil {
		return nil, err
	}
	restored := &RestoreResult{Dir: dir, Box: u.manifest.Box, Events: u.manifest.Events, Head: u.manifest.Head, Blobs: len(u.blobs),
		KeyFile: s.file, KeyHere: s.public != "", Missing: u.missing, Journal: was}
	if u.signed != nil {
		restored.Signed = u.signed.Size
	}
	if restored.Forgotten, err = install(temp, dir, s.forget); err != nil {
		return nil, err
	}
	_, restored.Config = config.Load(dir)
	return restored, nil
}

// setAside is the file with a configuration that cannot be changed automatically.
const setAside = "signalbox-backup.yaml"

// makeLocal changes the configuration of a restored box so that its ledger is in a file, and
// returns where it was. The database that the backup names may be in use: the restored box must not
// continue there. A configuration that cannot be changed is set aside.
func makeLocal(dir string) (was string, err error) {
	name := filepath.Join(dir, config.FileName)
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	if was, err = config.ReadJournal(dir); err == nil && was == config.JournalSQLite {
		return "", nil
	}
	if err == nil {
		if local, err := config.WithoutJournal(text); err == nil {
			return was, durable.Replace(name, local, 0o600)
		}
	}
	if err := durable.Replace(filepath.Join(dir, setAside), text, 0o600); err != nil {
		return "", err
	}
	return cmp.Or(was, "a place that cannot be read"),
		durable.Replace(name, []byte(config.Template), 0o600)
}

// install renames the complete box to its final name. It moves the signer's last checkpoint aside
// first, so that an interrupted restore can be repeated.
func install(temp, dir, forget string) (forgotten string, err error) {
	if err := durable.SyncFolder(temp); err != nil {
		return "", err
	}
	if forget != "" {
		if forgotten, err = moveAside(forget); err != nil {
			return "", err
		}
	}
	if err = checkNotExist(dir); err == nil {
		err = os.Rename(temp, dir)
	}
	if err != nil {
		if forgotten != "" {
			err = errors.Join(err, os.Rename(forgotten, forget))
		}
		return "", err
	}
	return forgotten, durable.SyncFolder(filepath.Dir(dir))
}

// moveAside renames a file to a name that is not in use.
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

// signer is the signing key of this host.
type signer struct {
	file   string // of the private key, which may not exist
	public string // "" if the private key is not here
	// forget is the file with the last checkpoint, if that must be moved aside.
	forget string
}

// verify verifies the restored ledger like ledger verify, against the checkpoint and the key in the
// backup, and verifies those against the key and the last checkpoint of this host.
func (u *unpacker) verify(ctx context.Context, opts *RestoreOptions) (*signer, error) {
	s := &signer{}
	s.file, _ = u.l.keyFile(u.manifest.Box) // "" if this host has no configuration folder
	_, s.public, _ = u.l.privateKey()       // "" if it is not here
	if err := u.openCheckpoint(opts.PublicKey, s.public); err != nil {
		return nil, err
	}
	if s.public != "" {
		if err := u.compareWithSigner(ctx, s, opts.Forget); err != nil {
			return nil, err
		}
	}
	// unpack and checkComplete have checked the blobs
	against := VerifyOptions{PublicKey: u.public, NoBlobs: true}
	if u.signed != nil {
		against.Checkpoint = u.signed.Signed
	}
	if u.signed == nil && s.forget != "" {
		return nil, badBackup(
			"it has no checkpoint, so --forget would leave nothing to verify it against")
	}
	report, err := u.l.Verify(ctx, against)
	switch {
	case err != nil:
		return nil, err
	case !report.OK:
		return nil, badBackup("%s", report.Reason)
	case report.NotReplayed != nil:
		return nil, report.NotReplayed
	}
	return s, nil
}

// openCheckpoint opens the checkpoint of the backup. The key in the backup must be the given one
// and that of this host, if there are such.
func (u *unpacker) openCheckpoint(given, here string) error {
	for _, known := range []struct{ key, whose string }{{given, "the given one"}, {here, "the one of this host"}} {
		switch {
		case known.key == "" || known.key == u.public:
		case u.public == "":
			return badBackup("it has no public key to compare with %s", known.whose)
		default:
			return badBackup("its public key is not %s", known.whose)
		}
	}
	if u.checkpoint == nil {
		if given != "" {
			return badBackup("it has no checkpoint, so nothing in it is signed with the given key")
		}
		return nil
	}
	if u.public == "" {
		return badBackup("it has a checkpoint but no public key")
	}
	opened, err := ledger.OpenCheckpoint(u.checkpoint, u.public)
	if err != nil {
		return badBackup("%s: %w", checkpointEntry, err)
	}
	if opened.Origin != origin(u.manifest.Box) {
		return badBackup("its checkpoint belongs to %s, not to %s", opened.Origin,
			origin(u.manifest.Box))
	}
	if opened.Size > u.manifest.Events {
		return badBackup("its checkpoint covers %d events, but it has %d", opened.Size,
			u.manifest.Events)
	}
	u.signed = &Checkpoint{opened, u.checkpoint, false}
	return nil
}

// compareWithSigner checks that the restored ledger contains everything that this host signed, so
// that its signer never signs two different histories. With forget, the last checkpoint of the
// signer is moved aside instead.
func (u *unpacker) compareWithSigner(ctx context.Context, s *signer, forget bool) error {
	remembered, err := openCheckpoint(s.file+signedSuffix, s.public)
	if err != nil || remembered == nil {
		return err
	}
	differs := checkLength(remembered.Size, u.manifest.Events)
	if differs == nil {
		_, differs = u.l.treeFor(ctx, remembered)
	}
	if signalbox.CodeOf(differs) != signalbox.CodeUnverified {
		return differs
	}
	if forget {
		s.forget = s.file + signedSuffix
		return nil
	}
	what := fmt.Errorf("the backup is not the history that this host signed: %w", differs)
	if remembered.Size > u.manifest.Events {
		what = fmt.Errorf("the backup has %d events, but this host signed %d: the last %d would be lost",
			u.manifest.Events, remembered.Size, remembered.Size-u.manifest.Events)
	}
	return &signalbox.Error{Code: signalbox.CodeUnverified, Err: what,
		Hint: "look for a newer backup; --forget continues from this one, and checkpoints signed after it will no longer match the box"}
}
