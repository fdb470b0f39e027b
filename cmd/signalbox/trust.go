package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/team"
)

type trustCommand struct {
	boxFlag
	Show   bool     `help:"Only show what needs trust, with its digest." xor:"act"`
	Revoke bool     `help:"Trust it no longer." xor:"act"`
	Yes    bool     `help:"Trust it without asking." xor:"act"`
	Digest nonEmpty `placeholder:"D" help:"Trust it only if this is its digest: the version that you have reviewed."`
	JSON   bool     `name:"json" help:"Print one JSON object. Without --yes and --revoke, only show."`
}

func (trustCommand) Help() string {
	return `Shows what the team's configuration, signalbox.yaml and prompts at the top of the repository, would run on this machine, and asks whether you trust it. Until you do, and again whenever it changes in the last commit, every command refuses to work that would use it. After a change it shows the difference from the version that you trusted.

What it can do: run commands as you, with or without a sandbox, with your environment variables, and tell agents what to do. Settings that can only lower what agents may do or spend (approve, keyed, protected, budget, slots up to the default, deliver: branch and deliver.squash) need no trust.

Trust is kept in your configuration folder, for this folder and this box on this machine. If there is no box, one is created. A box that was not created on this machine, and is not at the top of a git repository, needs trust too, and again whenever its own configuration changes, which is shown. So does a ledger in a database that neither init, join nor ledger migrate has put there on this machine: no command connects to it before.

Examples:

    signalbox trust
    signalbox trust --show
    signalbox trust --yes --digest 3f1c...
    signalbox trust --revoke`
}

// trust is the JSON answer.
type trust struct {
	Trusted  bool             `json:"trusted"`
	Needed   bool             `json:"needed"`
	Root     string           `json:"root"`
	Commit   string           `json:"commit,omitempty"`
	Digest   string           `json:"digest,omitempty"`
	Files    []string         `json:"files,omitempty"`
	Settings []config.Setting `json:"settings,omitempty"`
}

func (c *trustCommand) Run(p *program) error {
	if err := p.operatorOnly("decide what is trusted"); err != nil {
		return err
	}
	ctx := context.Background()
	dir, err := p.findBox(c.boxFlag)
	p.boxNamed = false // naming a box to look at it is not enough to connect to its journal
	create := signalbox.CodeOf(err) == signalbox.CodeNotFound && c.Box == "" && p.getenv(boxVariable) == ""
	found := dir
	if create {
		dir, err = filepath.Abs(box.FolderName)
	}
	if err != nil {
		return err
	}
	root := p.projectRoot(c.boxFlag, dir)
	shared, err := team.Read(ctx, root, found)
	if err != nil {
		return err
	}
	if c.Revoke {
		return c.revoke(p, shared, dir)
	}
	known, err := team.Store{}.Find(shared.Root, dir)
	if err != nil {
		return err
	}
	foreign := !team.Store{}.KnowsPlaces(dir) || shared.LooseBox && !p.ownsBox(ctx, dir)
	places, noPlaces := team.FindPlaces(dir) // as they are now: the files can change while the user reads
	trusted := shared.Trusted(known)
	answer := trust{Root: shared.Root, Commit: shared.Commit, Files: shared.Names(), Needed: shared.Files != nil && !shared.Harmless || foreign || !trusted, Trusted: trusted}
	if foreign {
		answer.Trusted, answer.Digest = trusted && shared.TrustedBox(known) && team.Store{}.KnowsPlaces(dir), shared.DigestWithBox()
	} else if shared.Files != nil || !trusted {
		answer.Digest = shared.Digest()
	}
	if shared.Files != nil {
		if answer.Settings, err = config.ShowTeam(shared.Files[config.FileName]); err != nil {
			return err
		}
	}
	if c.Digest != "" && string(c.Digest) != answer.Digest {
		return &signalbox.Error{Code: signalbox.CodeConflict, Err: fmt.Errorf("the configuration has the digest %s, not the one that you reviewed", answer.Digest),
			Hint: "review it again: signalbox trust --show"}
	}
	if !c.JSON {
		if err := c.describe(p, shared, known, answer, foreign, dir); err != nil {
			return err
		}
	}
	if answer.Needed && !answer.Trusted && !c.Show && (c.Yes || !c.JSON) {
		if err := c.decide(p); err != nil {
			return err
		}
		again, err := team.Read(ctx, root, found)
		if err != nil {
			return err
		}
		if again.Root != shared.Root || again.DigestWithBox() != shared.DigestWithBox() {
			return &signalbox.Error{Code: signalbox.CodeConflict, Err: errors.New("the configuration has changed since it was shown, so nothing was recorded"), Hint: "review it again: signalbox trust --show"}
		}
		if create {
			if _, err := box.Init(ctx, dir, p.actor(""), p.boxOptions()); err != nil {
				return err
			}
			p.notef("created a box in %s", dir)
		}
		err = (team.Store{}).Add(shared, dir, time.Now())
		if err == nil && foreign {
			err = cmp.Or(noPlaces, team.Store{}.RecordPlaces(places))
		}
		if err != nil {
			return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("cannot record that you trust it: %w", err), Hint: "check that you may write to your configuration folder and to the box"}
		}
		answer.Trusted = true
		if !c.JSON {
			_, err := fmt.Fprintln(p.out, "trusted")
			return err
		}
	}
	if c.JSON {
		return p.printJSON(answer, "")
	}
	return nil
}

// describe prints what would be trusted.
func (c *trustCommand) describe(p *program, shared *team.Shared, known *team.Record, a trust, foreign bool, dir string) error {
	if note := shared.ModifiedNote(); note != "" {
		p.warnf("%s", note)
	}
	name := printable(shared.Name())
	switch {
	case shared.Files == nil && !shared.Trusted(known):
		fmt.Fprintf(p.out, "%s is gone since you trusted it on %s. If you agree, these settings no longer count:\n\n%s\n", name, known.Time.Local().Format("2006-01-02"), shared.Describe(known))
	case shared.Files == nil:
		fmt.Fprintf(p.out, "there is no configuration of a team in %s\n", printable(shared.Root))
	case shared.Harmless && shared.Trusted(known):
		fmt.Fprintf(p.out, "%s needs no trust: it cannot run anything\n", name)
	case a.Trusted && !c.Show:
		fmt.Fprintf(p.out, "%s is trusted\n", name)
	default:
		if a.Trusted {
			fmt.Fprintf(p.out, "%s is trusted\n\n", name)
			known = nil // show all of it
		} else if known != nil && known.Files != nil {
			fmt.Fprintf(p.out, "%s has changed since you trusted it on %s\n\n", name, known.Time.Local().Format("2006-01-02"))
		} else {
			fmt.Fprintf(p.out, "%s is not trusted yet\n\n", name)
			known = nil
		}
		fmt.Fprintf(p.out, "%s\n", shared.Describe(known))
	}
	if foreign {
		changed := ""
		if !(team.Store{}).KnowsPlaces(dir) {
			changed = ", or its journal was changed"
		}
		fmt.Fprintf(p.out, "\nThe box %s was not created on this machine%s. Its own configuration:\n%s\n", printable(dir), changed, team.DescribeSettings(shared.OwnText, nil))
	}
	if a.Needed {
		fmt.Fprintf(p.out, "digest: %s\n", a.Digest)
	}
	return p.out.Flush()
}

// decide asks the user, unless --yes is set.
func (c *trustCommand) decide(p *program) error {
	if c.Yes {
		return nil
	}
	yes, err := p.confirm("Trust it, so that signalbox may run this on your machine?", "review it with signalbox trust --show, and then run signalbox trust --yes --digest with its digest")
	if err == nil && !yes {
		err = &signalbox.Error{Code: signalbox.CodeFailed, Err: errors.New("it is not trusted, and nothing was changed")}
	}
	return err
}

func (c *trustCommand) revoke(p *program, shared *team.Shared, dir string) error {
	if c.Digest != "" {
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("--revoke cannot be combined with --digest"), Hint: "leave out --digest"}
	}
	removed, err := team.Store{}.Remove(shared.Root, dir)
	if err != nil {
		return err
	}
	connected, err := team.Store{}.RemovePlaces(dir)
	if err != nil {
		return err
	}
	removed = removed || connected
	if c.JSON {
		return p.printJSON(trust{Root: shared.Root, Needed: shared.Files != nil && !shared.Harmless}, "")
	}
	text := "no longer trusted"
	if !removed {
		text = "it was not trusted"
	}
	_, err = fmt.Fprintln(p.out, text)
	return err
}
