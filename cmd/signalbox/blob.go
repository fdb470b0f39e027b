package main

import (
	"context"
	"io"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
)

type blobCommands struct {
	Get    blobGetCommand    `cmd:"" help:"Write the bytes of a blob."`
	Redact blobRedactCommand `cmd:"" help:"Destroy the bytes of a blob, and record it."`
}

func (blobCommands) Help() string {
	return `What agents wrote is kept in blobs, which the ledger names by digest. A blob can be destroyed without touching the ledger: it still verifies.

Examples:

    signalbox blob get 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
    signalbox blob redact 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae --reason 'contains a password'`
}

type blobGetCommand struct {
	boxFlag
	Digest signalbox.Hash `arg:"" help:"The digest, 64 hexadecimal digits."`
}

func (blobGetCommand) Help() string {
	return `Writes the bytes of a blob to standard output as they are, after checking that they have this digest. What agents wrote may hold anything: look at it with less, not with cat.

Examples:

    signalbox blob get 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae | less`
}

func (c *blobGetCommand) Run(p *program) error {
	return p.lookAtBox(c.boxFlag, func(ctx context.Context, b *box.Box) error {
		r, err := b.Blob(ctx, c.Digest)
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(p.out, r)
		return err
	})
}

type blobRedactCommand struct {
	boxFlag
	answerFlag
	Digest signalbox.Hash `arg:"" help:"The digest, 64 hexadecimal digits."`
	Reason string         `required:"" placeholder:"TEXT" help:"Why, for those who read the ledger later."`
	Actor  given          `placeholder:"A" help:"Who does it; else SIGNALBOX_ACTOR, else your user name."`
}

func (blobRedactCommand) Help() string {
	return `Destroys the bytes of a blob for good and records that, when, by whom and why. The ledger still verifies. Doing it again changes nothing, and finishes what was interrupted.

Examples:

    signalbox blob redact 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae --reason 'contains a password'`
}

// redacted is the answer: the event that records it.
type redacted struct {
	Blob signalbox.Hash `json:"blob"`
	Seq  uint64         `json:"seq"`
}

func (c *blobRedactCommand) Run(p *program) error {
	if err := p.operatorOnly("redact a blob"); err != nil {
		return err
	}
	ctx := context.Background()
	return p.withBox(ctx, c.boxFlag, func(b *box.Box) error {
		answer, err := b.Redact(ctx, rules.RedactBlob{Blob: c.Digest, Reason: c.Reason, Actor: p.actor(c.Actor)})
		if err != nil {
			return err
		}
		return c.print(p, redacted{c.Digest, answer.Seq})
	})
}
