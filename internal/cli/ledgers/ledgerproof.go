package ledgers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/ledger"
)

type ledgerProveCommand struct {
	cli.BoxFlag
	Seq    uint64       `arg:"" help:"The sequence number of the event."`
	Output cli.NonEmpty `short:"o" placeholder:"FILE" help:"Write the proof to this file. Default: standard output."`
}

func (ledgerProveCommand) Help() string {
	return `Creates a proof that an event is in the ledger: one file with the event, the hashes from it to the root of the ledger, and a signed checkpoint. To check it, signalbox ledger check needs only the public key, not the ledger.

Examples:

    signalbox ledger prove 12 > proof.json
    signalbox ledger prove 12 -o proof.json`
}

func (c *ledgerProveCommand) Run(p *cli.Program) error {
	return p.WithLedger(c.BoxFlag, func(ctx context.Context, l *box.Ledger) error {
		proof, err := l.Prove(ctx, c.Seq)
		if err != nil {
			return err
		}
		if c.Output == "" {
			// check accepts exactly these bytes
			_, err = p.Exact(cli.RawFlag{}).Write(proof.Format())
			return err
		}
		if err := os.WriteFile(string(c.Output), proof.Format(), 0o644); err != nil {
			return signalbox.CodeFailed.Errorf("name a file that you may write",
				"cannot write %s: %w", c.Output, cli.Cause(err))
		}
		return nil
	})
}

type ledgerCheckCommand struct {
	cli.BoxFlag
	File *string      `arg:"" optional:"" help:"The file with the proof. Default: standard input, like -."`
	Key  cli.NonEmpty `placeholder:"KEY" help:"The public key, or a file that contains it. Default: that of the box."`
	JSON bool         `name:"json" help:"Print the event as one JSON object."`
}

func (ledgerCheckCommand) Help() string {
	return `Checks a proof that signalbox ledger prove created: that the event is unchanged, that it is in the ledger that the checkpoint signed, and that the key signed the checkpoint. It needs only the public key, not the ledger. Exit status 5 means that the proof is invalid.

Examples:

    signalbox ledger check --key 'signalbox/box-0a1b2c3d4e5f+1234abcd+AQ…' proof.json
    signalbox ledger check --key key.pub proof.json`
}

// maxProofBytes is more than the proof of the largest event needs.
const maxProofBytes = 8 << 20

func (c *ledgerCheckCommand) Run(p *cli.Program) error {
	data, err := p.ReadAll(c.File, maxProofBytes)
	if err != nil {
		return err
	}
	key, err := publicKey(c.Key)
	if err != nil {
		return err
	}
	if key == "" {
		err = p.WithLedger(c.BoxFlag, func(_ context.Context, l *box.Ledger) error {
			key, err = l.PublicKey()
			return err
		})
	}
	if err != nil {
		return signalbox.CodeUsage.Errorf(
			"use --key with the output of signalbox ledger key from the box that made the proof",
			"there is no public key to check the proof with")
	}
	proof, err := ledger.ParseProof(data)
	if err != nil {
		return unproven(err)
	}
	checkpoint, err := proof.Check(key)
	if err != nil {
		return unproven(err)
	}
	if c.JSON {
		return p.PrintJSON(proof.Event, "")
	}
	e := proof.Event
	_, err = fmt.Fprintf(p.Out,
		"event %d is in the ledger of %s, which had %s when it was signed\n%s  %s  %s  %s\n%s\n",
		e.Seq, checkpoint.Origin, eventCount(checkpoint.Size), e.Time.Format(signalbox.EventTime),
		cli.Printable(e.Type), cli.Printable(e.Work), cli.Printable(e.Session),
		cli.Printable(string(e.Data)))
	return err
}

// unproven adds a hint to the error of an invalid proof, unless it has one.
func unproven(err error) error {
	if signalbox.CodeOf(err) == 0 || signalbox.HintOf(err) != "" {
		return err
	}
	return &signalbox.Error{Code: signalbox.CodeUnverified, Err: err,
		Hint: "do not rely on it; ask the owner of the ledger for a new proof of that event"}
}

type ledgerCheckpointCommand struct {
	cli.BoxFlag
}

func (ledgerCheckpointCommand) Help() string {
	return `Signs the current ledger and prints the checkpoint. It first checks that the ledger still starts with what the last checkpoint signed, and otherwise signs nothing (exit status 5). Commands that write to the box sign it themselves; use this command for a box that was written to on a host without the key. The configuration says where checkpoints are published.

Examples:

    signalbox ledger checkpoint
    signalbox ledger checkpoint > /mnt/audit/signalbox.checkpoint`
}

func (c *ledgerCheckpointCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("sign the ledger"); err != nil {
		return err
	}
	ctx := context.Background()
	return cli.WithOpened(ctx, p, c.BoxFlag, box.Open, p.WorkOptions(c.BoxFlag),
		func(b *box.Box) error {
			checkpoint, err := b.Sign(ctx)
			if err != nil {
				return err
			}
			if _, err := p.Out.Write(checkpoint.Signed); err != nil {
				return err
			}
			return box.Publish(ctx, b.Config.Checkpoint, checkpoint.Signed)
		})
}

type ledgerKeyCommand struct {
	cli.BoxFlag
}

func (ledgerKeyCommand) Help() string {
	return `Prints the public key of the box. Keep a copy where you check proofs and checkpoints. On a host that has the private key, it is the public key of that key; there is a warning if the box's file key.pub has another one.

Examples:

    signalbox ledger key > key.pub`
}

func (c *ledgerKeyCommand) Run(p *cli.Program) error {
	return p.WithLedger(c.BoxFlag, func(_ context.Context, l *box.Ledger) error {
		key, err := l.PublicKey()
		if err == nil {
			_, err = fmt.Fprintln(p.Out, key)
		}
		if wrong := l.CheckPublicKey(); err == nil && wrong != nil {
			p.Warnf("%v", wrong)
			if hint := signalbox.HintOf(wrong); hint != "" {
				p.Say("hint", hint)
			}
		}
		return err
	})
}

// publicKey returns the key in a flag, or in the file that the flag names.
func publicKey(flag cli.NonEmpty) (string, error) {
	if flag == "" {
		return "", nil
	}
	if _, err := ledger.KeyName(string(flag)); err == nil {
		return string(flag), nil
	}
	text, err := readFile(flag)
	if err != nil {
		return "", signalbox.CodeUsage.Errorf(
			"use the whole output of signalbox ledger key, in quotes",
			"--key is neither a public key nor a file with one: %s", flag)
	}
	return strings.TrimSpace(string(text)), nil
}

// readFile reads the file that a flag names. It returns nil if the flag is empty.
func readFile(flag cli.NonEmpty) ([]byte, error) {
	if flag == "" {
		return nil, nil
	}
	name := string(flag)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, signalbox.CodeNotFound.Errorf("check the path", "%s: no such file", name)
	}
	if err != nil {
		return nil, cli.OpenError(name, err)
	}
	return data, nil
}
