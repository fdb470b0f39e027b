package boxes

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/charmbracelet/x/term"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/run/project"
	"signalbox/internal/run/transport"
	"signalbox/internal/run/workspace"
)

type InviteCommand struct {
	cli.BoxFlag
	Node    cli.NonEmpty  `placeholder:"NAME" help:"In a cluster: the node that the other machine runs."`
	User    cli.NonEmpty  `placeholder:"NAME" help:"In a database: the user that the other machine logs in as. Default: the user of this machine."`
	Expires time.Duration `default:"24h" placeholder:"TIME" help:"How long the invitation is valid. Default: 24h."`
	JSON    bool          `name:"json" help:"Print one JSON object."`
}

func (InviteCommand) Help() string {
	return `Prints a token with which another machine joins the box: signalbox join. The box must have its ledger in a database that the other machine reaches, and not in a file. If no machine has published the repository of the box yet, this one does, so that the other can get it.

The token says where the ledger is, and how to recognise it: the id of the box, its public key and its last checkpoint. It has no login: the other machine needs its own for the database, such as a password in ~/.pgpass. It does not have the signing key either. The exception is a box with a cluster: its token has the secret of the cluster, so send it over a channel that only you can read. A machine refuses a token that has expired, but someone who has a login or the secret does not need a token.

Examples:

    signalbox invite
    signalbox ledger grant worker && signalbox invite --user worker
    signalbox invite --expires 1h
    signalbox invite --node b`
}

// invited is the JSON answer.
type invited struct {
	Token   string    `json:"token"`
	Box     string    `json:"box"`
	Expires time.Time `json:"expires"`
	// Secret reports whether the token has the secret of a cluster.
	Secret bool `json:"secret"`
}

func (c *InviteCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("invite a machine"); err != nil {
		return err
	}
	if c.Expires <= 0 {
		return signalbox.CodeUsage.Errorf("write a time such as 24h", "--expires must be positive")
	}
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	return p.WithBox(ctx, c.BoxFlag, func(b *box.Box) error {
		invitation, err := b.Invite(string(c.Node), string(c.User), time.Now().Add(c.Expires))
		if err != nil {
			return err
		}
		found, err := offerRepository(ctx, b, p.ActorOf(""))
		if err != nil {
			return err
		}
		invitation.NoRepository = !found
		answer := invited{invitation.Token(), invitation.Box, invitation.Expires, invitation.Cluster != nil}
		if c.JSON {
			return p.PrintJSON(answer, "")
		}
		if answer.Secret {
			p.Notef("the token has the secret of the cluster: send it over a channel that only you can read")
		}
		if owner, err := b.IsOwner(ctx, string(c.User)); err == nil && owner {
			p.Notef("the token names the user who owns the ledger and may delete it; for a machine that runs agents, use another: signalbox ledger grant worker && signalbox invite --user worker")
		}
		if invitation.Checkpoint == nil {
			p.Notef("the box has no signed checkpoint here, so the other machine cannot check that its ledger is the right one")
		}
		_, err = fmt.Fprintln(p.Out, answer.Token)
		return err
	})
}

// offerRepository publishes the repository around a box for machines that join it. found reports
// whether there is one.
func offerRepository(ctx context.Context, b *box.Box, actor string) (found bool, err error) {
	root := filepath.Dir(b.Dir)
	if _, err := workspace.Locate(ctx, root); err != nil || b.Config.Workspace.Shared() {
		return false, nil
	}
	in, err := project.Find(ctx, b.Config, root, b.Dir)
	if err == nil {
		err = transport.Offer(ctx, b, in.Repo, actor)
	}
	return true, err
}

type JoinCommand struct {
	Token     cli.NonEmpty `arg:"" optional:"" help:"What signalbox invite printed on a machine that has the box; - reads it from standard input. Leave it out with --token-file."`
	Dir       string       `arg:"" optional:"" help:"A new folder for the repository, or a clone of it. Default: the current folder."`
	TokenFile cli.NonEmpty `name:"token-file" placeholder:"FILE" help:"Read the token from a file."`
	JSON      bool         `name:"json" help:"Print one JSON object."`
}

func (JoinCommand) Help() string {
	return `Makes this machine part of a box that another machine has. It checks that the ledger can be reached and is the one that the token names, gets the repository through the ledger if the folder is not a clone of it, and writes a box with a commented configuration. Nothing is written unless all of that succeeds, and you can repeat it.

Other users can see the arguments of a program, and the shell keeps them in its history. So pass the token on standard input, or in a file. A token with the secret of a cluster is refused as an argument.

Agents, checks and logins are each machine's own: name them in the new signalbox.yaml, or share the team's configuration in the repository. The signing key does not come with the token. A machine without it works like any other, and what it does is signed when a machine that has the key runs; docs/how-to/machines.md says how to copy it.

Examples:

    signalbox join - ~/work/shop
    ssh a.example.com signalbox invite --box /srv/shop --node b | signalbox join - ~/work/shop
    cd shop && signalbox join --token-file ~/token`
}

func (c *JoinCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("join a box"); err != nil {
		return err
	}
	invitation, err := c.invitation(p)
	if err != nil {
		return err
	}
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	options := p.BoxOptions()
	options.Connect = nil // the user has named the address with the token
	joined, err := transport.Join(ctx, cmp.Or(c.Dir, "."), invitation, options)
	if err != nil {
		return cli.OrInterrupted(ctx, err)
	}
	cli.RememberPlaces(p, joined.Box, false, nil)
	if c.JSON {
		return p.PrintJSON(joined, "")
	}
	if joined.Cloned {
		fmt.Fprintf(p.Out, "cloned the repository into %s\n",
			cli.Printable(filepath.Dir(joined.Box)))
	}
	_, err = fmt.Fprintf(p.Out,
		"joined %s in %s\n\nNext:\n  1. name this machine's agents in %s, and log them in\n  2. signalbox trust, if the team shares its configuration in the repository\n  3. signalbox doctor\n  4. signalbox worker\n",
		joined.ID, cli.Printable(joined.Box),
		cli.Printable(filepath.Join(joined.Box, config.FileName)))
	return err
}

// maxInvitation bounds what is read of a file with a token.
const maxInvitation = 64 << 10

// invitation reads the token. With --token-file, the only argument is the folder.
func (c *JoinCommand) invitation(p *cli.Program) (*box.Invitation, error) {
	const usage = "pass the token on standard input, signalbox join - DIR, or in a file, signalbox join --token-file FILE DIR"
	name := "-"
	switch {
	case c.TokenFile != "" && c.Dir != "":
		return nil, signalbox.CodeUsage.Errorf(usage,
			"a token and --token-file cannot be used together")
	case c.TokenFile != "":
		name, c.Dir = string(c.TokenFile), string(c.Token)
	case c.Token == "":
		return nil, signalbox.CodeUsage.Errorf(usage, "the token is missing")
	case c.Token != "-":
		invitation, err := box.ParseInvitation(string(c.Token), time.Now())
		if err == nil && invitation.Cluster != nil {
			return nil, signalbox.CodeUsage.Errorf(usage+
				"; remove this command from the history of your shell",
				"the token has the secret of the cluster, and other users can see the arguments of a program")
		}
		return invitation, err
	}
	read := func() ([]byte, error) { return p.ReadAll(&name, maxInvitation) }
	if stdin, ok := p.Stdin.(*os.File); ok && name == "-" && term.IsTerminal(stdin.Fd()) {
		read = func() ([]byte, error) {
			return cli.ReadHidden(p, stdin, "paste the token and press Enter; it is not shown",
				maxInvitation)
		}
	}
	token, err := read()
	if err != nil {
		return nil, err
	}
	return box.ParseInvitation(string(token), time.Now())
}
