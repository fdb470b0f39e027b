package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/journal"
	"signalbox/ledger"
)

type ledgerCommands struct {
	Tail       ledgerTailCommand       `cmd:"" help:"Show the last events."`
	Verify     ledgerVerifyCommand     `cmd:"" help:"Check that nothing was changed, removed, inserted or cut off."`
	Prove      ledgerProveCommand      `cmd:"" help:"Make a proof that an event is in the ledger."`
	Check      ledgerCheckCommand      `cmd:"" help:"Check a proof, with the public key alone."`
	Checkpoint ledgerCheckpointCommand `cmd:"" help:"Sign the ledger as it is now."`
	Key        ledgerKeyCommand        `cmd:"" help:"Print the public key."`
	Export     ledgerExportCommand     `cmd:"" help:"Write all events as CloudEvents."`
}

func (ledgerCommands) Help() string {
	return `The ledger is the record of everything that happened in a box, in one chain of hashes. docs/ledger-format.md says how it is made and what verification shows.

Examples:

    signalbox ledger tail
    signalbox ledger verify
    signalbox ledger prove 12 > proof.json`
}

type ledgerTailCommand struct {
	boxFlag
	Number uint64 `short:"n" default:"20" help:"How many events; 0 is all."`
	Follow bool   `short:"f" help:"Go on with events as they happen, until interrupted."`
	JSON   bool   `name:"json" help:"Print one JSON object a line."`
}

func (ledgerTailCommand) Help() string {
	return `Shows the last events, oldest first.

Examples:

    signalbox ledger tail
    signalbox ledger tail -n 5 -f
    signalbox ledger tail -n 0 --json`
}

func (c *ledgerTailCommand) Run(p *program) error {
	return p.withLedger(c.boxFlag, func(ctx context.Context, l *box.Ledger) error {
		head, err := l.Journal.Head(ctx)
		if err != nil {
			return err
		}
		after := uint64(0)
		if c.Number != 0 && c.Number < head {
			after = head - c.Number
		}
		if c.Follow {
			return c.follow(p, l, after)
		}
		for e, err := range l.Events(ctx, after) {
			if err == nil {
				err = c.show(p, e)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *ledgerTailCommand) follow(p *program, l *box.Ledger, after uint64) error {
	ctx, stop := untilInterrupted()
	defer stop()
	for e, err := range l.Journal.Watch(ctx, after) {
		if ctx.Err() != nil {
			return nil // interrupted, as it is meant to be
		}
		if err != nil {
			return err
		}
		if err := c.show(p, &e); err != nil {
			return err
		}
		if err := p.out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func (c *ledgerTailCommand) show(p *program, e *signalbox.Event) error {
	if c.JSON {
		return p.printJSON(e, "")
	}
	who := e.Actor
	if e.Session != "" {
		who = e.Session
	}
	_, err := fmt.Fprintf(p.out, "%6d  %s  %-21s  %-16s  %-16s  %s\n", e.Seq, e.Time.Local().Format(time.DateTime), printable(e.Type),
		printable(e.Work), printable(who), printable(string(e.Data)))
	return err
}

type ledgerVerifyCommand struct {
	boxFlag
	Checkpoint given `placeholder:"FILE" help:"A checkpoint that was kept elsewhere; else the box's own."`
	Key        given `placeholder:"KEY" help:"The public key, or a file that has it; else the box's own."`
	JSON       bool  `name:"json" help:"Print one JSON object."`
}

func (ledgerVerifyCommand) Help() string {
	return `Reads the whole ledger and checks every sequence, time, link and hash; and, given a checkpoint, that the ledger still has exactly what was signed. It names the first bad event and what is wrong with it. Exit status 5 means that the ledger is not what it was.

The box's own checkpoint and key lie beside the ledger. Whoever can change one can change all three, so keep a checkpoint and the public key elsewhere, and name them here. Without any checkpoint nobody can tell whether events were cut off at the end.

Examples:

    signalbox ledger verify
    signalbox ledger verify --checkpoint /mnt/audit/signalbox.checkpoint --key /mnt/audit/key.pub
    signalbox ledger verify --json`
}

// verified is the answer for programs.
type verified struct {
	OK         bool                `json:"ok"`
	Events     uint64              `json:"events"`
	Head       signalbox.Hash      `json:"head"`
	FirstBad   *uint64             `json:"first_bad"`
	Reason     *string             `json:"reason"`
	Checkpoint *verifiedCheckpoint `json:"checkpoint"`
}

type verifiedCheckpoint struct {
	Origin string         `json:"origin"`
	Size   uint64         `json:"size"`
	Root   signalbox.Hash `json:"root"`
}

func (c *ledgerVerifyCommand) Run(p *program) error {
	opts := box.VerifyOptions{Progress: p.progress("verified")}
	var err error
	if opts.Checkpoint, err = readFile(c.Checkpoint); err != nil {
		return err
	}
	if opts.PublicKey, err = publicKey(c.Key); err != nil {
		return err
	}
	var report box.Verified
	err = p.withLedger(c.boxFlag, func(ctx context.Context, l *box.Ledger) error {
		report, err = l.Verify(ctx, opts)
		return err
	})
	if errors.Is(err, journal.ErrDamaged) { // it cannot even be opened
		report, err = box.Verified{Report: ledger.Report{FirstBad: 1, Reason: err.Error()}}, nil
	}
	if err != nil {
		return err
	}
	if c.JSON {
		err = p.printJSON(verifiedFrom(report.Report), "")
	} else if report.OK {
		err = p.printVerified(report.Report)
	}
	if err == nil && report.NotReplayed != nil {
		p.warnf("the events are chained and hashed as they should be, but what they mean was not judged to the end: %v", report.NotReplayed)
	}
	if err != nil || report.OK {
		return err
	}
	return notVerified(report)
}

func notVerified(report box.Verified) error {
	from, hint := "", report.Hint
	if report.FirstBad > 0 {
		from = fmt.Sprintf(" from event %d on", report.FirstBad)
	}
	if hint == "" {
		hint = "the ledger is not what it was: stop the agents, keep the box as it is for whoever looks into it, and restore a copy elsewhere"
	}
	return &signalbox.Error{Code: signalbox.CodeUnverified, Err: fmt.Errorf("not verified%s: %s", from, report.Reason), Hint: hint}
}

func verifiedFrom(r ledger.Report) verified {
	v := verified{OK: r.OK, Events: r.Events, Head: r.Head}
	if !r.OK {
		v.Reason = &r.Reason
	}
	if r.FirstBad != 0 {
		v.FirstBad = &r.FirstBad
	}
	if r.Checkpoint != nil {
		v.Checkpoint = &verifiedCheckpoint{r.Checkpoint.Origin, r.Checkpoint.Size, r.Checkpoint.Root}
	}
	return v
}

func (p *program) printVerified(r ledger.Report) error {
	if _, err := fmt.Fprintf(p.out, "verified %s, head %s\n", events(r.Events), r.Head); err != nil {
		return err
	}
	if r.Checkpoint == nil {
		p.warnf("there is no checkpoint, so this does not show that nothing was cut off at the end")
		return nil
	}
	newer := r.Events - r.Checkpoint.Size
	if newer == 0 {
		_, err := fmt.Fprintf(p.out, "all signed by %s\n", r.Checkpoint.Origin)
		return err
	}
	_, err := fmt.Fprintf(p.out, "the first %d signed by %s\n", r.Checkpoint.Size, r.Checkpoint.Origin)
	p.notef("%s after the checkpoint; signalbox ledger checkpoint signs the rest", events(newer))
	return err
}

// events is a number of events in words.
func events(n uint64) string {
	if n == 1 {
		return "1 event"
	}
	return fmt.Sprintf("%d events", n)
}

// progress returns a function that shows on a terminal how far something is; nil elsewhere.
func (p *program) progress(done string) func(n, all uint64) {
	if !isTerminal(p.stderr) {
		return nil
	}
	shown := time.Now() // what is done within a second shows nothing
	return func(n, all uint64) {
		if now := time.Now(); now.Sub(shown) > time.Second {
			shown = now
			fmt.Fprintf(p.stderr, "%s %d of %d events\r", done, n, all)
		}
	}
}
