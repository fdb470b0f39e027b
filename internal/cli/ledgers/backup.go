package ledgers

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/text"
)

type BackupCommand struct {
	cli.BoxFlag
	File  string `arg:"" help:"The file to write; - means standard output."`
	Force bool   `help:"Overwrite an existing file."`
	JSON  bool   `name:"json" help:"Print one JSON object."`
}

func (BackupCommand) Help() string {
	return `Writes a copy of the whole box to one file: all events up to now, the blobs that they refer to, the last checkpoint, the public key, signalbox.yaml and the prompts next to it. The box can be in use. The file is a tar file, compressed if its name ends in .gz or .tgz; docs/how-to/backup.md describes its contents. It is either complete or not written at all.

The private key is NOT in the backup. A restored box cannot sign without it, so keep a copy of the key elsewhere; the command prints where it is. Blobs that you redact later stay in earlier backups: protect backups like the box itself.

Examples:

    signalbox backup /mnt/backups/project.tar.gz
    signalbox backup --force nightly.tar
    signalbox backup - | ssh backup@example.org 'cat > project.tar'`
}

// backedUp is the JSON answer.
type backedUp struct {
	File   string         `json:"file"`
	Box    string         `json:"box"`
	Events uint64         `json:"events"`
	Blobs  int            `json:"blobs"`
	Bytes  int64          `json:"bytes"`
	Head   signalbox.Hash `json:"head"`
}

func (c *BackupCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("back up the box"); err != nil {
		return err
	}
	if err := c.check(p); err != nil {
		return err
	}
	ctx, stop := cli.UntilInterrupted() // so that an incomplete file is removed
	defer stop()
	return cli.WithOpened(ctx, p, c.BoxFlag, box.OpenLedger, p.BoxOptions(),
		func(l *box.Ledger) error {
			l.WarnIfLost(ctx)
			opts := box.BackupOptions{Version: p.Build().Version, Force: c.Force,
				Progress: showProgress(p, "backed up")}
			var (
				done box.BackupResult
				err  error
			)
			if c.File == "-" {
				done, err = box.Backup(ctx, l, p.Direct, opts) // check refuses a terminal
				err = incompleteRead(cmp.Or(err, p.Direct.Flush()))
			} else {
				done, err = box.BackupTo(ctx, l, c.File, opts)
			}
			if err != nil {
				return cli.OrInterrupted(ctx, err)
			}
			return c.print(p, done)
		})
}

func (c *BackupCommand) check(p *cli.Program) error {
	switch {
	case c.File == "":
		return signalbox.CodeUsage.Errorf("name a file, or use - to write to standard output",
			"the name of the file is empty")
	case c.File == "-" && c.JSON:
		return signalbox.CodeUsage.Errorf("name a file, or leave --json out",
			"--json cannot be combined with -, because the backup is on standard output")
	case c.File == "-" && cli.IsTerminal(p.Stdout):
		return signalbox.CodeUsage.Errorf("name a file, or pipe standard output to another program",
			"a backup cannot be written to a terminal")
	}
	return nil
}

func (c *BackupCommand) print(p *cli.Program, done box.BackupResult) error {
	what := fmt.Sprintf("%s, %s, %s, head %s", eventCount(done.Events),
		text.Count(done.Blobs, "blob"), formatBytes(done.Bytes), done.Head)
	var err error
	switch {
	case c.JSON:
		err = p.PrintJSON(backedUp{c.File, done.Box, done.Events, done.Blobs, done.Bytes,
			done.Head}, "")
	case c.File == "-":
		p.Notef("backed up %s: %s", done.Box, what)
	default:
		_, err = fmt.Fprintf(p.Out, "backed up %s to %s: %s\n", done.Box, cli.Printable(c.File),
			what)
	}
	if err != nil {
		return err
	}
	for _, digest := range done.Missing {
		p.Warnf("blob %s, to which an event refers, is missing from the box and was not redacted",
			digest)
	}
	for _, file := range done.Skipped {
		p.Warnf("not in the backup: %s", file)
	}
	if done.KeyFile != "" {
		p.Notef("the private key is not in the backup, and a restored box cannot sign without it: keep a copy of %s elsewhere", done.KeyFile)
	}
	return nil
}

// incompleteRead returns an error if the reader of standard output closed the pipe. Other commands
// succeed then, but a part of a backup is useless.
func incompleteRead(err error) error {
	if !errors.Is(err, cli.ErrReaderClosed) {
		return err
	}
	return signalbox.CodeFailed.Errorf(
		"an incomplete backup cannot be restored; find out why the program ended, and run the command again", "the program that reads the backup ended too early")
}

// formatBytes formats a size.
func formatBytes(n int64) string {
	if n < 10_000 {
		return fmt.Sprintf("%d bytes", n)
	}
	size, unit := float64(n), 0
	for size >= 1000 && unit < 4 {
		size, unit = size/1000, unit+1
	}
	return fmt.Sprintf("%.1f %s", size, strings.Fields("B kB MB GB TB")[unit])
}

type RestoreCommand struct {
	File   string       `arg:"" help:"The backup; - means standard input."`
	Dir    string       `arg:"" optional:"" default:"." help:"The folder in which to create the box. Default: the current folder."`
	Key    cli.NonEmpty `placeholder:"KEY" help:"The public key that you keep elsewhere, or a file that contains it. The backup must be signed with it."`
	Forget bool         `help:"Discard what this host signed after the backup was made."`
	JSON   bool         `name:"json" help:"Print one JSON object."`
}

func (RestoreCommand) Help() string {
	return `Creates the folder .signalbox from a backup. Everything is checked first: the hash of every event and its link to the previous one, that every event is one that signalbox would have written, the root and signature of the checkpoint, and the digest of every blob. If a check fails, the command reports the first fault, writes nothing, and the exit status is 5. To be sure that a backup is genuine, check it against a key that you keep elsewhere: use --key.

The restored box is the same box: it has the same id, and its next event follows the last one. The private key is not in a backup. If the key is on this host, the box can sign. Otherwise put the key where the command says, or set SIGNALBOX_KEY. Do not keep using the original box: the two histories would diverge. Its ledger is in a file, also if that of the original was in a database; signalbox ledger migrate puts it into one.

If this host signed events that are not in the backup, the backup is refused, because those events would be lost. With --forget it is restored without them. The newer signatures are kept under another name, but no longer match the box.

Examples:

    signalbox restore /mnt/backups/project.tar.gz
    signalbox restore project.tar ~/work/project --key /mnt/audit/key.pub
    ssh backup@example.org 'cat project.tar' | signalbox restore -`
}

// restoredBox is the JSON answer.
type restoredBox struct {
	Dir    string         `json:"box"`
	ID     string         `json:"id"`
	Events uint64         `json:"events"`
	Blobs  int            `json:"blobs"`
	Head   signalbox.Hash `json:"head"`
	// Signed is the number of signed events.
	Signed  uint64 `json:"signed"`
	KeyHere bool   `json:"key_here"`
}

func (c *RestoreCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("restore a box"); err != nil {
		return err
	}
	key, err := publicKey(c.Key)
	if err != nil {
		return err
	}
	in, err := p.Open(&c.File)
	if err != nil {
		return err
	}
	defer in.Close()
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	done, err := box.Restore(ctx, in, filepath.Join(c.Dir, box.FolderName), &box.RestoreOptions{
		Options: *p.BoxOptions(), PublicKey: key, Forget: c.Forget,
		Progress: showProgress(p, "restored"),
	})
	if err != nil {
		return cli.OrInterrupted(ctx, err)
	}
	return c.print(p, done)
}

func (c *RestoreCommand) print(p *cli.Program, done *box.RestoreResult) error {
	var err error
	if c.JSON {
		err = p.PrintJSON(restoredBox{done.Dir, done.Box, done.Events, done.Blobs, done.Head,
			done.Signed, done.KeyHere}, "")
	} else {
		_, err = fmt.Fprintf(p.Out, "restored %s to %s: %s, %s, head %s\n", done.Box,
			cli.Printable(done.Dir), eventCount(done.Events), text.Count(done.Blobs, "blob"),
			done.Head)
	}
	if err != nil {
		return err
	}
	switch {
	case done.Signed == 0:
		p.Warnf("the backup has no checkpoint, so it cannot be shown to be unchanged")
	case c.Key == "" && !done.KeyHere:
		p.Warnf("the backup was checked only against its own public key; compare the output of signalbox ledger key with a copy that you keep elsewhere")
	}
	for _, digest := range done.Missing {
		p.Warnf("blob %s was missing from the box when it was backed up", digest)
	}
	if done.Journal != "" {
		p.Notef("the ledger was in %s, and is in a file of the restored box; to put it into an empty database, use signalbox ledger migrate", done.Journal)
	}
	if done.Config != nil {
		p.Warnf("the configuration has a fault: %v", done.Config)
	}
	if !done.KeyHere {
		p.Notef("the private key is not on this host, so the box cannot sign: put the key into %s, or set %s", done.KeyFile, cli.KeyVariable)
	}
	if done.Forgotten != "" {
		p.Notef("what this host signed after the backup is kept in %s", done.Forgotten)
	}
	p.Notef("do not keep using the original box: the two histories would diverge")
	return nil
}
