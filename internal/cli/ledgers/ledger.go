// Package ledgers has the commands for the record that a box keeps: ledger, blob, backup and
// restore.
package ledgers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/core/applied"
	"signalbox/internal/core/box"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
	"signalbox/internal/text"
	"signalbox/ledger"
)

type LedgerCommands struct {
	Tail       ledgerTailCommand       `cmd:"" help:"Show the last events."`
	Verify     ledgerVerifyCommand     `cmd:"" help:"Check that no event was changed, removed or inserted."`
	Prove      ledgerProveCommand      `cmd:"" help:"Create a proof that an event is in the ledger."`
	Check      ledgerCheckCommand      `cmd:"" help:"Check a proof with the public key."`
	Checkpoint ledgerCheckpointCommand `cmd:"" help:"Sign the current ledger."`
	Key        ledgerKeyCommand        `cmd:"" help:"Print the public key."`
	Export     ledgerExportCommand     `cmd:"" help:"Write all events as CloudEvents."`
	Migrate    ledgerMigrateCommand    `cmd:"" help:"Move the ledger to another database, or back into a file."`
	Grant      ledgerGrantCommand      `cmd:"" help:"Let a role of the database use the ledger."`
	AcceptLoss ledgerAcceptLossCommand `cmd:"" help:"Continue with a ledger that has lost events."`
	Repair     ledgerRepairCommand     `cmd:"" help:"Remove invalid events from the end, or set the time back."`
}

func (LedgerCommands) Help() string {
	return `The ledger records everything that happened in a box, in one chain of hashes. docs/reference/ledger-format.md describes its format and what verification shows.

Examples:

    signalbox ledger tail
    signalbox ledger verify
    signalbox ledger prove 12 > proof.json`
}

type ledgerTailCommand struct {
	cli.BoxFlag
	Number uint64          `short:"n" default:"20" help:"The number of events; 0 means all. Default: 20."`
	Follow bool            `short:"f" help:"Keep printing new events until interrupted."`
	Work   []string        `placeholder:"ID,..." help:"Only events of these work items."`
	Type   []cli.EventType `placeholder:"TYPE,..." help:"Only events of these types, such as QuestionAsked."`
	// Session, Actor and Text are like the search of the dashboard.
	Session []string `placeholder:"ID,..." help:"Only events of these sessions."`
	Actor   []string `placeholder:"NAME,..." help:"Only events that these actors caused."`
	Text    string   `placeholder:"TEXT" help:"Only events with this text in their data, in upper or lower case."`
	JSON    bool     `name:"json" help:"Print one JSON object per line."`

	filter  box.Filter
	matches func(*signalbox.Event) bool
}

func (ledgerTailCommand) Help() string {
	return `Shows the last events, oldest first. With --work, --type, --session, --actor or --text, the last ones that match all of them. docs/reference/events.md lists the types.

Examples:

    signalbox ledger tail
    signalbox ledger tail -n 5 -f
    signalbox ledger tail --work T1 --type QuestionAsked,QuestionAnswered
    signalbox ledger tail -n 0 --json`
}

func (c *ledgerTailCommand) Run(p *cli.Program) error {
	c.filter = box.Filter{Works: c.Work, Sessions: c.Session, Actors: c.Actor, Text: c.Text}
	for _, t := range c.Type {
		if err := t.Check(); err != nil {
			return err
		}
		c.filter.Types = append(c.filter.Types, string(t))
	}
	c.matches = c.filter.Matcher()
	return p.WithLedger(c.BoxFlag, func(ctx context.Context, l *box.Ledger) error {
		head, err := l.Journal.Head(ctx)
		if err != nil {
			return err
		}
		after, err := c.start(ctx, l, head)
		if err != nil {
			return err
		}
		if c.Follow {
			if err := c.checkWork(ctx, l); signalbox.CodeOf(err) == signalbox.CodeNotFound {
				p.Notef("%v yet; waiting for it", err)
			} else if err != nil {
				return err
			}
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
		return c.checkWork(ctx, l)
	})
}

// checkWork returns an error if there is no event of a work item that was named.
func (c *ledgerTailCommand) checkWork(ctx context.Context, l *box.Ledger) error {
	missing := slices.Clone(c.Work)
	for e, err := range l.Events(ctx, 0) {
		if err != nil {
			return err
		}
		if missing = slices.DeleteFunc(missing,
			func(id string) bool { return id == e.Work }); len(missing) == 0 {
			return nil
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return signalbox.CodeNotFound.Errorf("list the work with signalbox work list",
		"there is no work '%s'", cli.Shortened(missing[0]))
}

// start returns the sequence number before the first event to show. It searches from the end.
func (c *ledgerTailCommand) start(ctx context.Context, l *box.Ledger, head uint64) (uint64, error) {
	switch {
	case c.Number == 0:
		return 0, nil
	case c.filter.IsZero():
		return head - min(c.Number, head), nil
	}
	missing := c.Number
	for e, err := range l.Backward(ctx, 1, head) {
		if err != nil {
			return 0, err
		}
		if c.matches(e) {
			missing--
		}
		if missing == 0 {
			return e.Seq - 1, nil
		}
	}
	return 0, nil
}

func (c *ledgerTailCommand) follow(p *cli.Program, l *box.Ledger, after uint64) error {
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	for {
		err := c.showNew(ctx, p, l, &after)
		if errors.Is(err, journal.ErrUnavailable) { // it may come back
			err = engine.WhenAvailable(ctx, p.BoxOptions().Log,
				func() error { _, err := l.Journal.Head(ctx); return err })
		}
		if ctx.Err() != nil {
			return nil // an interrupt is the normal end
		}
		if err != nil {
			return err
		}
	}
}

// showNew shows the events that follow the event after, and advances after, until ctx is done or
// the ledger cannot be read.
func (c *ledgerTailCommand) showNew(ctx context.Context, p *cli.Program, l *box.Ledger,
	after *uint64) error {
	for e, err := range l.Journal.Watch(ctx, *after) {
		if err != nil {
			return err
		}
		*after = e.Seq
		if err := c.show(p, &e); err != nil {
			return err
		}
		if err := p.Out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// show prints an event if it matches.
func (c *ledgerTailCommand) show(p *cli.Program, e *signalbox.Event) error {
	if !c.matches(e) {
		return nil
	}
	if c.JSON {
		return p.PrintJSON(e, "")
	}
	who := e.Actor
	if e.Session != "" {
		who = e.Session
	}
	_, err := fmt.Fprintf(p.Out, "%6d  %s  %-21s  %-16s  %-16s  %s\n", e.Seq,
		e.Time.Local().Format(time.DateTime), cli.Printable(e.Type),
		cli.Printable(e.Work), cli.Printable(who), cli.Printable(string(e.Data)))
	return err
}

type ledgerVerifyCommand struct {
	cli.BoxFlag
	Checkpoint cli.NonEmpty `placeholder:"FILE" help:"A checkpoint that you keep elsewhere. Default: the one in the box."`
	Key        cli.NonEmpty `placeholder:"KEY" help:"The public key, or a file that contains it. Default: the one in the box."`
	NoBlobs    bool         `name:"no-blobs" help:"Check only the events, not the blobs that they refer to."`
	JSON       bool         `name:"json" help:"Print one JSON object."`
}

func (ledgerVerifyCommand) Help() string {
	return `Reads the whole ledger and checks every sequence number, time, link and hash. With a checkpoint, it also checks that the ledger still contains exactly what was signed. It reports the first bad event and the reason. Then it reads every blob that an event refers to, such as prompts, transcripts and the output of checks, and compares its bytes with its digest. A missing blob is an error unless an event records that it was redacted. It also compares the ledger with the last events that this machine applied: one that is missing, or that has another in its place, is an error too. Exit status 5 means that the ledger or a blob was changed, or that events are lost. With --no-blobs, only the events are checked.

The checkpoint and the public key of the box are stored next to the ledger, and someone who can change one can change all three. So keep a checkpoint and the public key elsewhere, and name them here. Without a checkpoint, events that were cut off at the end go unnoticed on a machine that has not applied them.

Examples:

    signalbox ledger verify
    signalbox ledger verify --checkpoint /mnt/audit/signalbox.checkpoint --key /mnt/audit/key.pub
    signalbox ledger verify --no-blobs
    signalbox ledger verify --json`
}

// verified is the JSON answer.
type verified struct {
	OK         bool                `json:"ok"`
	Events     uint64              `json:"events"`
	Head       signalbox.Hash      `json:"head"`
	FirstBad   *uint64             `json:"first_bad"`
	Reason     *string             `json:"reason"`
	Blobs      *box.BlobReport     `json:"blobs,omitempty"`
	Lost       *applied.Lost       `json:"lost,omitempty"`
	Checkpoint *verifiedCheckpoint `json:"checkpoint"`
}

type verifiedCheckpoint struct {
	Origin string         `json:"origin"`
	Size   uint64         `json:"size"`
	Root   signalbox.Hash `json:"root"`
}

func (c *ledgerVerifyCommand) Run(p *cli.Program) error {
	opts := box.VerifyOptions{NoBlobs: c.NoBlobs, Progress: showProgress(p, "verified")}
	var err error
	if opts.Checkpoint, err = readFile(c.Checkpoint); err != nil {
		return err
	}
	if opts.PublicKey, err = publicKey(c.Key); err != nil {
		return err
	}
	var report box.Verified
	ctx := context.Background()
	err = cli.WithOpened(ctx, p, c.BoxFlag, box.OpenLedger, p.BoxOptions(),
		func(l *box.Ledger) error {
			report, err = l.Verify(ctx, opts)
			return err
		})
	if errors.Is(err, journal.ErrDamaged) { // it cannot be opened
		report, err = box.Verified{Report: ledger.Report{FirstBad: 1, Reason: err.Error()}}, nil
	}
	if err != nil {
		return err
	}
	if c.JSON {
		err = p.PrintJSON(verifiedFrom(report), "")
	} else if report.OK {
		err = printVerified(p, report)
	}
	if err == nil && report.NotReplayed != nil {
		p.Warnf("the hash chain is intact, but the events could not all be replayed: %v",
			report.NotReplayed)
	}
	if err != nil || report.OK {
		return err
	}
	return notVerified(report)
}

func notVerified(report box.Verified) error {
	from, hint := "", report.Hint
	if report.FirstBad > 0 && report.Blobs == nil {
		from = fmt.Sprintf(" from event %d on", report.FirstBad)
	}
	if hint == "" {
		hint = "the ledger was changed: stop the agents, keep the box unchanged for the investigation, and restore a backup elsewhere"
	}
	err := fmt.Errorf("not verified%s: %s", from, report.Reason)
	if report.Lost != nil {
		err = lostError{err, report.Lost}
	}
	return &signalbox.Error{Code: signalbox.CodeUnverified, Err: err, Hint: hint}
}

// lostError is an error of a ledger that has also lost events.
type lostError struct {
	error
	lost *applied.Lost
}

func (e lostError) Unwrap() error { return e.lost }

func verifiedFrom(r box.Verified) verified {
	v := verified{OK: r.OK, Events: r.Events, Head: r.Head, Blobs: r.Blobs, Lost: r.Lost}
	if !r.OK {
		v.Reason = &r.Reason
	}
	if r.FirstBad != 0 {
		v.FirstBad = &r.FirstBad
	}
	if r.Checkpoint != nil {
		v.Checkpoint = &verifiedCheckpoint{r.Checkpoint.Origin, r.Checkpoint.Size,
			r.Checkpoint.Root}
	}
	return v
}

func printVerified(p *cli.Program, r box.Verified) error {
	lines := []string{fmt.Sprintf("verified %s, head %s", eventCount(r.Events), r.Head)}
	switch {
	case r.Checkpoint == nil:
	case r.Checkpoint.Size == r.Events:
		lines = append(lines, "all signed by "+r.Checkpoint.Origin)
	default:
		lines = append(lines, fmt.Sprintf("the first %d signed by %s", r.Checkpoint.Size,
			r.Checkpoint.Origin))
	}
	if blobs := r.Blobs; blobs != nil && blobs.Checked > 0 {
		lines = append(lines, text.Count(int(blobs.Checked), "blob")+" intact")
	}
	if blobs := r.Blobs; blobs != nil && blobs.Redacted > 0 {
		lines = append(lines, text.Count(int(blobs.Redacted), "blob")+" redacted")
	}
	if _, err := fmt.Fprintln(p.Out, strings.Join(lines, "\n")); err != nil {
		return err
	}
	switch {
	case r.Checkpoint == nil:
		p.Warnf("there is no checkpoint, so events may have been cut off at the end")
	case r.Checkpoint.Size < r.Events:
		p.Notef("%s after the checkpoint; sign them with signalbox ledger checkpoint",
			eventCount(r.Events-r.Checkpoint.Size))
	}
	if blobs := r.Blobs; blobs != nil && blobs.Remaining > 0 {
		first := blobs.List[slices.IndexFunc(blobs.List,
			func(found box.BlobFinding) bool { return found.Status == box.BlobRemaining })]
		p.Warnf("%s redacted but still there, first %s: repeat signalbox blob redact",
			text.Count(int(blobs.Remaining), "blob"), first.Blob)
	}
	return nil
}

func eventCount(n uint64) string { return text.Count(int(n), "event") }

// showProgress returns a function that prints progress on a terminal once per second. It returns
// nil if standard error is not a terminal.
func showProgress(p *cli.Program, done string) func(n, all uint64) {
	if !cli.IsTerminal(p.Stderr) {
		return nil
	}
	shown := time.Now() // print nothing in the first second
	return func(n, all uint64) {
		if now := time.Now(); now.Sub(shown) > time.Second {
			shown = now
			fmt.Fprintf(p.Stderr, "%s %d of %d events\r", done, n, all)
		}
	}
}
