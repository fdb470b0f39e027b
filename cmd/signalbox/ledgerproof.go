package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/ledger"
)

type ledgerProveCommand struct {
	boxFlag
	Seq    uint64 `arg:"" help:"The event's sequence."`
	Output given  `short:"o" placeholder:"FILE" help:"Write the proof here; else to standard output."`
}

func (ledgerProveCommand) Help() string {
	return `Makes a proof that an event is in the ledger: one file with the event, the way from it to the root of the ledger, and a signed checkpoint. signalbox ledger check checks it with the public key alone, on a machine that has no ledger.

Examples:

    signalbox ledger prove 12 > proof.json
    signalbox ledger prove 12 -o proof.json`
}

func (c *ledgerProveCommand) Run(p *program) error {
	return p.withLedger(c.boxFlag, func(ctx context.Context, l *box.Ledger) error {
		proof, err := l.Prove(ctx, c.Seq)
		if err != nil {
			return err
		}
		if c.Output == "" {
			_, err = p.out.Write(proof.Format())
			return err
		}
		if err := os.WriteFile(string(c.Output), proof.Format(), 0o644); err != nil {
			return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("cannot write %s: %w", c.Output, cause(err)),
				Hint: "name a file that you may write"}
		}
		return nil
	})
}

type ledgerCheckCommand struct {
	boxFlag
	File *string `arg:"" optional:"" help:"The proof; - or none is standard input."`
	Key  given   `placeholder:"KEY" help:"The public key, or a file that has it; else that of the box."`
	JSON bool    `name:"json" help:"Print the event as one JSON object."`
}

func (ledgerCheckCommand) Help() string {
	return `Checks a proof that signalbox ledger prove made: that the event is unchanged, that it is in the ledger that the checkpoint signed, and that the key signed the checkpoint. It needs no ledger, only the public key. Exit status 5 means that the proof proves nothing.

Examples:

    signalbox ledger check --key 'signalbox/box-0a1b2c3d4e5f+1234abcd+AQ…' proof.json
    signalbox ledger check --key key.pub proof.json`
}

// maxProofBytes is far more than a proof of the largest event has.
const maxProofBytes = 8 << 20

func (c *ledgerCheckCommand) Run(p *program) error {
	data, err := p.readAll(c.File, maxProofBytes)
	if err != nil {
		return err
	}
	key, err := publicKey(c.Key)
	if err != nil {
		return err
	}
	if key == "" {
		err = p.withLedger(c.boxFlag, func(_ context.Context, l *box.Ledger) error {
			key, err = l.PublicKey()
			return err
		})
	}
	if err != nil {
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("which public key is it to be checked with?"),
			Hint: "give --key with what signalbox ledger key printed where the proof comes from"}
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
		return p.printJSON(proof.Event, "")
	}
	e := proof.Event
	_, err = fmt.Fprintf(p.out, "event %d is in the ledger of %s, which had %s when it was signed\n%s  %s  %s  %s\n%s\n",
		e.Seq, checkpoint.Origin, events(checkpoint.Size), e.Time.Format(signalbox.EventTime), printable(e.Type), printable(e.Work), printable(e.Session),
		printable(string(e.Data)))
	return err
}

// unproven says what to do about a proof that proves nothing, unless the error does.
func unproven(err error) error {
	if classed := (*signalbox.Error)(nil); !errors.As(err, &classed) || classed.Hint != "" {
		return err
	}
	return &signalbox.Error{Code: signalbox.CodeUnverified, Err: err,
		Hint: "do not rely on it; ask whoever keeps the ledger for the proof of that event anew"}
}

type ledgerCheckpointCommand struct {
	boxFlag
}

func (ledgerCheckpointCommand) Help() string {
	return `Signs the ledger as it is now and prints the checkpoint. It first shows that the ledger still begins with what the last checkpoint signed, and signs nothing if it does not (exit status 5). Commands that write to the box do this by themselves; it is for a box that was written to on a host without the key. The configuration says where checkpoints are handed to.

Examples:

    signalbox ledger checkpoint
    signalbox ledger checkpoint > /mnt/audit/signalbox.checkpoint`
}

func (c *ledgerCheckpointCommand) Run(p *program) error {
	if err := p.operatorOnly("sign the ledger"); err != nil {
		return err
	}
	ctx := context.Background()
	return opening(ctx, p, c.boxFlag, box.Open, func(b *box.Box) error {
		checkpoint, err := b.Sign(ctx)
		if err != nil {
			return err
		}
		if _, err := p.out.Write(checkpoint.Signed); err != nil {
			return err
		}
		return box.Publish(ctx, b.Config.Checkpoint, checkpoint.Signed)
	})
}

type ledgerKeyCommand struct {
	boxFlag
}

func (ledgerKeyCommand) Help() string {
	return `Prints the public key of the box. Keep it where you check proofs and checkpoints.

Examples:

    signalbox ledger key > key.pub`
}

func (c *ledgerKeyCommand) Run(p *program) error {
	return p.withLedger(c.boxFlag, func(_ context.Context, l *box.Ledger) error {
		key, err := l.PublicKey()
		if err == nil {
			_, err = fmt.Fprintln(p.out, key)
		}
		return err
	})
}

// publicKey takes a key as it is, or reads it from the file of that name.
func publicKey(flag given) (string, error) {
	if flag == "" {
		return "", nil
	}
	if _, err := ledger.KeyName(string(flag)); err == nil {
		return string(flag), nil
	}
	text, err := readFile(flag)
	if err != nil {
		return "", &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("--key is neither a public key nor a file that has one: %s", flag),
			Hint: "give what signalbox ledger key prints, whole and in quotes"}
	}
	return strings.TrimSpace(string(text)), nil
}

// readFile reads a file that a flag names; none is nil.
func readFile(flag given) ([]byte, error) {
	if flag == "" {
		return nil, nil
	}
	name := string(flag)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &signalbox.Error{Code: signalbox.CodeNotFound, Err: fmt.Errorf("%s: no such file", name), Hint: "check the path"}
	}
	if err != nil {
		return nil, openError(name, err)
	}
	return data, nil
}
