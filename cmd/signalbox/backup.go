package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"signalbox"
	"signalbox/internal/core/box"
)

type backupCommand struct {
	boxFlag
	File  string `arg:"" help:"The file to write; - is standard output."`
	Force bool   `help:"Replace a file that is there."`
	JSON  bool   `name:"json" help:"Print one JSON object."`
}

func (backupCommand) Help() string {
	return `Writes a copy of the whole box to one file, while others go on writing to it: all events up to now, the blobs that they name, the last checkpoint, the public key, signalbox.yaml and the prompts beside it. The file is a tar file, compressed if its name ends in .gz or .tgz; docs/backup.md says what is in it. It is there whole or not at all.

The private key is NOT in it. A restored box cannot sign without the key, so keep a copy of it elsewhere; the command says where it is. What is redacted later stays in the backups made before: treat them like the box itself.

Examples:

    signalbox backup /mnt/backups/project.tar.gz
    signalbox backup --force nightly.tar
    signalbox backup - | ssh backup@example.org 'cat > project.tar'`
}

// backedUp is the answer for programs.
type backedUp struct {
	File   string         `json:"file"`
	Box    string         `json:"box"`
	Events uint64         `json:"events"`
	Blobs  int            `json:"blobs"`
	Bytes  int64          `json:"bytes"`
	Head   signalbox.Hash `json:"head"`
}

func (c *backupCommand) Run(p *program) error {
	if err := p.operatorOnly("back up the box"); err != nil {
		return err
	}
	if err := c.check(p); err != nil {
		return err
	}
	ctx, stop := untilInterrupted() // nothing half-written is left
	defer stop()
	return opening(ctx, p, c.boxFlag, box.OpenLedger, func(l *box.Ledger) error {
		opts := box.BackupOptions{Version: currentBuild().Version, Force: c.Force, Progress: p.progress("backed up")}
		var (
			done box.BackupResult
			err  error
		)
		if c.File == "-" {
			done, err = l.Backup(ctx, p.out, opts)
			err = untaken(cmp.Or(err, p.out.Flush()))
		} else {
			done, err = l.BackupTo(ctx, c.File, opts)
		}
		if err != nil {
			return orInterrupted(ctx, err)
		}
		return c.print(p, done)
	})
}

func (c *backupCommand) check(p *program) error {
	switch {
	case c.File == "":
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("the name of the file is empty"),
			Hint: "name a file, or give - to write to standard output"}
	case c.File == "-" && c.JSON:
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("with - the backup itself is on standard output, so --json has no place there"),
			Hint: "name a file, or leave --json out"}
	case c.File == "-" && isTerminal(p.stdout):
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("a backup is not for a terminal"),
			Hint: "name a file, or send standard output to another program"}
	}
	return nil
}

func (c *backupCommand) print(p *program, done box.BackupResult) error {
	what := fmt.Sprintf("%s, %s, %s, head %s", events(done.Events), blobs(done.Blobs), bytesOf(done.Bytes), done.Head)
	var err error
	switch {
	case c.JSON:
		err = p.printJSON(backedUp{c.File, done.Box, done.Events, done.Blobs, done.Bytes, done.Head}, "")
	case c.File == "-":
		p.notef("backed up %s: %s", done.Box, what)
	default:
		_, err = fmt.Fprintf(p.out, "backed up %s to %s: %s\n", done.Box, printable(c.File), what)
	}
	if err != nil {
		return err
	}
	for _, digest := range done.Missing {
		p.warnf("an event names blob %s, nobody redacted it, and the box does not have it", digest)
	}
	for _, file := range done.Skipped {
		p.warnf("not in the backup: %s", file)
	}
	if done.KeyFile != "" {
		p.notef("the private key is not in the backup, and a restored box cannot sign without it: keep a copy of %s elsewhere", done.KeyFile)
	}
	return nil
}

// untaken makes an error of a reader that went away: unlike who reads a list, nobody has enough of a backup before its end.
func untaken(err error) error {
	if !errors.Is(err, errReaderWentAway) {
		return err
	}
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: errors.New("the program that reads the backup ended before it had all of it"),
		Hint: "what it got cannot be restored; look at what it said, and run the command again"}
}

// orInterrupted says so if it is why something ended.
func orInterrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: errors.New("interrupted"), Hint: "nothing was left behind; run the command again"}
}

// blobs is a number of blobs in words.
func blobs(n int) string {
	if n == 1 {
		return "1 blob"
	}
	return fmt.Sprintf("%d blobs", n)
}

// bytesOf is a size in words.
func bytesOf(n int64) string {
	if n < 10_000 {
		return fmt.Sprintf("%d bytes", n)
	}
	size, unit := float64(n), 0
	for size >= 1000 && unit < 4 {
		size, unit = size/1000, unit+1
	}
	return fmt.Sprintf("%.1f %s", size, strings.Fields("B kB MB GB TB")[unit])
}

type restoreCommand struct {
	File   string `arg:"" help:"A file that signalbox backup made; - is standard input."`
	Dir    string `arg:"" optional:"" default:"." help:"The folder to make the box in; none is this one."`
	Key    given  `placeholder:"KEY" help:"The public key that was kept elsewhere, or a file that has it: the backup must be signed with it."`
	Forget bool   `help:"Let the signer on this host forget what it signed after the backup was made."`
	JSON   bool   `name:"json" help:"Print one JSON object."`
}

func (restoreCommand) Help() string {
	return `Makes the folder .signalbox from a backup. Everything is checked before the box is there: the hash of every event and its link to the one before, that no event is one that signalbox would not have written, the checkpoint's root and signature, and the digest of every blob. If anything is wrong the first thing is named, nothing is left behind, and the exit status is 5. A backup proves itself only against a key that was not in it: name the one you keep elsewhere with --key.

The restored box is the same box: it has the same id, and its next event continues the last. The private key is not in a backup. If it is on this host the box signs; else put it where the command says, or name it in SIGNALBOX_KEY. Do not go on with the original beside the restored box: both would continue the same history, each in its own way.

If this host signed more than the backup has, the backup is refused: those events would be lost. With --forget the box goes on without them. What was signed is kept, under another name, and no longer agrees with the box.

Examples:

    signalbox restore /mnt/backups/project.tar.gz
    signalbox restore project.tar ~/work/project --key /mnt/audit/key.pub
    ssh backup@example.org 'cat project.tar' | signalbox restore -`
}

// restoredBox is the answer for programs.
type restoredBox struct {
	Dir    string         `json:"box"`
	ID     string         `json:"id"`
	Events uint64         `json:"events"`
	Blobs  int            `json:"blobs"`
	Head   signalbox.Hash `json:"head"`
	// Signed is how many of the events are signed.
	Signed  uint64 `json:"signed"`
	KeyHere bool   `json:"key_here"`
}

func (c *restoreCommand) Run(p *program) error {
	if err := p.operatorOnly("restore a box"); err != nil {
		return err
	}
	key, err := publicKey(c.Key)
	if err != nil {
		return err
	}
	in, err := p.open(&c.File)
	if err != nil {
		return err
	}
	defer in.Close()
	ctx, stop := untilInterrupted()
	defer stop()
	done, err := box.Restore(ctx, in, filepath.Join(c.Dir, box.FolderName), &box.RestoreOptions{
		Options: *p.boxOptions(), PublicKey: key, Forget: c.Forget, Progress: p.progress("restored"),
	})
	if err != nil {
		return orInterrupted(ctx, err)
	}
	return c.print(p, done)
}

func (c *restoreCommand) print(p *program, done *box.RestoreResult) error {
	var err error
	if c.JSON {
		err = p.printJSON(restoredBox{done.Dir, done.Box, done.Events, done.Blobs, done.Head, done.Signed, done.KeyHere}, "")
	} else {
		_, err = fmt.Fprintf(p.out, "restored %s to %s: %s, %s, head %s\n", done.Box, printable(done.Dir), events(done.Events), blobs(done.Blobs), done.Head)
	}
	if err != nil {
		return err
	}
	switch {
	case done.Signed == 0:
		p.warnf("the backup has no checkpoint, so nothing shows that it is what it was")
	case c.Key == "" && !done.KeyHere:
		p.warnf("the backup was checked against the public key in it; compare that with one kept elsewhere: signalbox ledger key")
	}
	for _, digest := range done.Missing {
		p.warnf("the box did not have blob %s when it was backed up", digest)
	}
	if done.Config != nil {
		p.warnf("the configuration needs mending: %v", done.Config)
	}
	if !done.KeyHere {
		p.notef("the private key is not on this host, so the box does not sign: put it into %s, or name it in %s", done.KeyFile, keyVariable)
	}
	if done.Forgotten != "" {
		p.notef("what this host signed after the backup is kept in %s", done.Forgotten)
	}
	p.notef("do not go on with the original box beside this one: the two histories would fork")
	return nil
}
