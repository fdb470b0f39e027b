package byhand

import (
	"context"
	"errors"
	"time"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
)

type workClaimCommand struct {
	cli.BoxFlag
	cli.AnswerFlag
	ID      string         `arg:"" optional:"" help:"The work item; leave it out with --next."`
	Next    bool           `help:"Claim the next work item for the role."`
	Wait    bool           `help:"With --next: wait until there is work."`
	Role    signalbox.Role `required:"" help:"Your role: business-analyst, developer, ci, critic or auditor."`
	Session cli.NonEmpty   `placeholder:"S" help:"The session. Default: a new one."`
	Actor   cli.NonEmpty   `placeholder:"A" help:"Your name on the ledger. Default: SIGNALBOX_ACTOR, or else your user name."`
	TTL     time.Duration  `name:"ttl" help:"The duration of the lease, 1s to 24h. Default: lease.ttl of the configuration, 15m."`
}

func (workClaimCommand) Help() string {
	return `Takes the lease of a work item and prints it. You need the epoch to renew, release or exit. The secret is for an agent that uses the lease itself: over MCP, or in a process with SIGNALBOX_SESSION and SIGNALBOX_SECRET set. It is not stored, so it cannot be shown again; without it, you can still use the lease as the operator. Only one session at a time holds a work item; if another session holds it, the exit status is 4. Which role may claim depends on the phase. A lease that is not renewed in time expires, and the work can be claimed again.

--next claims the work item in the latest phase, and among those the one that was opened first. If there is none, the exit status is 3, unless --wait makes the command wait. If you interrupt it then, nothing is claimed, and the exit status is 130.

Examples:

    signalbox work claim task-1 --role developer
    signalbox work claim task-1 --role critic --session review-7 --ttl 1h
    signalbox work claim --next --wait --role developer --json`
}

// claimed is the answer of claim and renew.
type claimed struct {
	Work    string          `json:"work"`
	Phase   signalbox.Phase `json:"phase"`
	Lease   claimedLease    `json:"lease"`
	Session string          `json:"session"`
	// Secret is empty unless the lease is new.
	Secret string `json:"secret,omitempty"`
}

type claimedLease struct {
	ID      string    `json:"id"`
	Epoch   uint64    `json:"epoch"`
	Expires time.Time `json:"expires"`
}

func claimedFrom(a rules.Answer) claimed {
	return claimed{a.Work, a.Phase, claimedLease{a.Lease.ID, a.Lease.Epoch, a.Lease.Expires},
		a.Session, ""}
}

func (c *workClaimCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("claim work"); err != nil {
		return err
	}
	if c.Next == (c.ID != "") || c.Wait && !c.Next {
		return signalbox.CodeUsage.Errorf("see signalbox work claim --help",
			"name one work item, or use --next, optionally with --wait")
	}
	if c.Session == "" {
		c.Session = cli.NonEmpty(box.NewID("s"))
	}
	ctx, stop := context.Background(), context.CancelFunc(func() {})
	if c.Wait {
		ctx, stop = cli.UntilInterrupted()
	}
	defer stop()
	err := p.WithBox(ctx, c.BoxFlag, func(b *box.Box) error {
		if c.TTL == 0 {
			c.TTL = b.Config.Lease.TTL
		}
		id, err := cli.FindWork(b, c.ID)
		if err != nil {
			return err
		}
		claim := rules.Claim{Work: id, Role: c.Role, Session: string(c.Session), Actor: p.ActorOf(c.Actor), Lease: box.NewID("l"), TTL: c.TTL}
		secret := box.NewSecret()
		claim.Secret = rules.HashSecret(secret)
		do := b.Engine.Do
		if c.Wait {
			do = b.Engine.DoWhenPossible
		}
		answer, err := do(ctx, claim)
		if err != nil {
			return err
		}
		claimed := claimedFrom(answer)
		if answer.Lease.ID == claim.Lease {
			claimed.Secret = secret
		}
		return c.Print(p, claimed)
	})
	if errors.Is(err, context.Canceled) || signalbox.CodeOf(err) == signalbox.CodeInterrupted {
		return signalbox.CodeInterrupted.Errorf("", "interrupted while waiting for work")
	}
	return err
}

type workRenewCommand struct {
	cli.BoxFlag
	cli.AnswerFlag
	ID      string        `arg:"" help:"The work item."`
	Session cli.NonEmpty  `placeholder:"S" help:"The session that holds it."`
	Epoch   uint64        `required:"" placeholder:"E" help:"The epoch of the lease."`
	TTL     time.Duration `name:"ttl" help:"The duration of the lease from now, 1s to 24h. Default: lease.ttl of the configuration, 15m."`
}

func (workRenewCommand) Help() string {
	return `Extends the lease of a session that holds work. It never shortens a lease. If the lease has expired or ended, the exit status is 4.

Examples:

    signalbox work renew task-1 --session s-0123456789ab --epoch 7`
}

func (c *workRenewCommand) Run(p *cli.Program) error {
	session, err := sessionOf(p, c.Session)
	if err != nil {
		return err
	}
	ctx := context.Background()
	return p.WithBox(ctx, c.BoxFlag, func(b *box.Box) error {
		if c.TTL == 0 {
			c.TTL = b.Config.Lease.TTL
		}
		id, err := cli.FindWork(b, c.ID)
		if err != nil {
			return err
		}
		answer, err := b.Engine.Do(ctx, rules.Renew{Work: id, Session: session, Epoch: c.Epoch,
			TTL: c.TTL, Caller: callerOf(p)})
		if err != nil {
			return err
		}
		return c.Print(p, claimedFrom(answer))
	})
}

type workReleaseCommand struct {
	cli.BoxFlag
	cli.AnswerFlag
	ID      string       `arg:"" help:"The work item."`
	Session cli.NonEmpty `placeholder:"S" help:"The session that holds the lease and returns it."`
	Epoch   uint64       `placeholder:"E" help:"The epoch of the lease; required with --session."`
	Reason  string       `placeholder:"TEXT" help:"The reason; required to revoke a lease. - reads it from standard input."`
	Actor   cli.NonEmpty `placeholder:"A" help:"Your name on the ledger. Default: SIGNALBOX_ACTOR, or else your user name."`
}

func (workReleaseCommand) Help() string {
	return `Ends a lease without moving the work, which can then be claimed again in the same phase. The holder of the lease gives --session and --epoch. An operator who revokes a lease gives --reason and no session; with --epoch, only that lease is revoked, not a later one.

Examples:

    signalbox work release task-1 --session s-0123456789ab --epoch 7
    signalbox work release task-1 --reason 'the agent hangs'`
}

func (c *workReleaseCommand) Run(p *cli.Program) error {
	reason, err := p.TextOf(c.Reason)
	if err != nil {
		return err
	}
	release := rules.Release{Epoch: c.Epoch, Reason: reason, Caller: callerOf(p)}
	if c.Session == "" && p.Getenv(cli.SessionVariable) == "" {
		if reason == "" {
			return signalbox.CodeUsage.Errorf("see signalbox work release --help",
				"use --session and --epoch to return a lease, or --reason alone to revoke it")
		}
		release.Actor = p.ActorOf(c.Actor)
	} else {
		session, err := sessionOf(p, c.Session)
		if err != nil {
			return err
		}
		if c.Epoch == 0 {
			return signalbox.CodeUsage.Errorf("use the epoch that signalbox work claim printed",
				"missing flags: --epoch=E")
		}
		release.Session = session
	}
	return orderWork(p, c.BoxFlag, c.AnswerFlag, c.ID, func(id string) rules.Command {
		release.Work = id
		return release
	})
}

// sessionOf returns the session that a command acts for. In an agent's process it must be the
// agent's own.
func sessionOf(p *cli.Program, flag cli.NonEmpty) (string, error) {
	own := cli.NonEmpty(p.Getenv(cli.SessionVariable))
	switch {
	case own == "" && flag == "":
		return "", signalbox.CodeUsage.Errorf("use the session that signalbox work claim printed",
			"missing flags: --session=S")
	case own == "" || flag == own:
		return string(flag), nil
	case flag == "":
		return string(own), nil
	}
	return "", p.InsideSession("act for session '" + string(flag) + "'")
}

// callerOf returns who uses a lease: nil for an operator, who needs no secret.
func callerOf(p *cli.Program) *rules.Caller {
	if p.Getenv(cli.SessionVariable) == "" {
		return nil
	}
	return &rules.Caller{Secret: rules.HashSecret(p.Getenv(cli.SecretVariable))}
}
