package ledgers

import (
	"context"
	"io"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
)

type BlobCommands struct {
	Get    blobGetCommand    `cmd:"" help:"Write a blob to standard output."`
	Redact blobRedactCommand `cmd:"" help:"Destroy the content of a blob."`
}

func (BlobCommands) Help() string {
	return `The output of agents is stored in blobs, to which the ledger refers by digest. You can destroy the content of a blob, and the ledger still verifies.

Examples:

    signalbox blob get 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
    signalbox blob redact 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae --reason 'contains a password'`
}

type blobGetCommand struct {
	cli.BoxFlag
	cli.RawFlag
	Digest signalbox.Hash `arg:"" help:"The digest, 64 hexadecimal digits."`
}

func (blobGetCommand) Help() string {
	return `Writes a blob to standard output, unchanged, after checking its digest. The output of agents can contain anything: on a terminal control characters are escaped, unless you use --raw.

Examples:

    signalbox blob get 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae | less`
}

func (c *blobGetCommand) Run(p *cli.Program) error {
	return p.WithReadOnlyBox(c.BoxFlag, func(ctx context.Context, b *box.Box) error {
		r, err := b.Blob(ctx, c.Digest)
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(p.Exact(c.RawFlag), r)
		return err
	})
}

type blobRedactCommand struct {
	cli.BoxFlag
	cli.AnswerFlag
	Digest signalbox.Hash `arg:"" help:"The digest, 64 hexadecimal digits."`
	Reason *string        `placeholder:"TEXT" help:"The reason, recorded on the ledger; - reads it from standard input. On a terminal, your editor opens without it."`
	Actor  cli.NonEmpty   `placeholder:"A" help:"Your name on the ledger. Default: SIGNALBOX_ACTOR, or else your user name."`
}

func (blobRedactCommand) Help() string {
	return `Destroys the content of a blob permanently, and records when, who and why. The ledger still verifies. You can safely repeat the command, also to finish one that was interrupted.

Examples:

    signalbox blob redact 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae --reason 'contains a password'`
}

// redacted is the answer, with the event that records the redaction.
type redacted struct {
	Blob signalbox.Hash `json:"blob"`
	Seq  uint64         `json:"seq"`
}

func (c *blobRedactCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("redact a blob"); err != nil {
		return err
	}
	reason, err := p.RequireText(c.Reason,
		cli.WantedText{Name: "the reason", Missing: "missing flags: --reason=TEXT",
			Usage: "signalbox blob redact DIGEST --reason TEXT"})
	if err != nil {
		return err
	}
	ctx := context.Background()
	return p.WithBox(ctx, c.BoxFlag, func(b *box.Box) error {
		answer, err := b.Redact(ctx, rules.RedactBlob{Blob: c.Digest, Reason: reason,
			Actor: p.ActorOf(c.Actor)})
		if err != nil {
			return err
		}
		return c.Print(p, redacted{c.Digest, answer.Seq})
	})
}
