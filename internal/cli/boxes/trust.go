package boxes

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/team"
)

type TrustCommand struct {
	cli.BoxFlag
	Show   bool         `help:"Only show what needs trust, with its digest." xor:"act"`
	Revoke bool         `help:"Trust it no longer." xor:"act"`
	Yes    bool         `help:"Trust it without asking." xor:"act"`
	Digest cli.NonEmpty `placeholder:"D" help:"Trust it only if this is its digest: the version that you have reviewed."`
	JSON   bool         `name:"json" help:"Print one JSON object. Without --yes and --revoke, only show."`
}

func (TrustCommand) Help() string {
	return `Shows what the team's configuration, signalbox.yaml and prompts at the top of the repository, would run on this machine, and asks whether you trust it. Until you do, and again whenever it changes in the last commit, every command refuses to work that would use it. After a change it shows the difference from the version that you trusted.

What it can do: run commands as you, with or without a sandbox, with your environment variables, and tell agents what to do. Settings that can only lower what agents may do or spend (approve: merge, keyed, protected, protected_existing, budget, slots up to the default, deliver: branch and deliver.squash) need no trust.

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

// review is what a user looks at before trusting it.
type review struct {
	shared *team.Shared
	known  *team.Record // what was trusted before
	// foreign reports that the box itself needs trust too, because it is from elsewhere or its
	// journal was changed.
	foreign bool
	// places are those of its journal as they were when the review began: the files can change
	// while the user reads. noPlaces is why they are not known.
	places   []team.Place
	noPlaces error

	// of the project; of the box, "" if there is none; of the box that there would be
	root, found, dir string
	answer           trust
}

func (c *TrustCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("decide what is trusted"); err != nil {
		return err
	}
	ctx := context.Background()
	r, err := c.begin(ctx, p)
	if err != nil {
		return err
	}
	if c.Revoke {
		return c.revoke(p, r.shared, r.dir)
	}
	if err := r.compute(ctx, p); err != nil {
		return err
	}
	if c.Digest != "" && string(c.Digest) != r.answer.Digest {
		return signalbox.CodeConflict.Errorf("review it again: signalbox trust --show",
			"the configuration has the digest %s, not the one that you reviewed", r.answer.Digest)
	}
	if !c.JSON {
		if err := c.describe(p, r); err != nil {
			return err
		}
	}
	if r.answer.Needed && !r.answer.Trusted && !c.Show && (c.Yes || !c.JSON) {
		if err := c.decide(p); err != nil {
			return err
		}
		if err := r.record(ctx, p); err != nil {
			return err
		}
		if !c.JSON {
			_, err := fmt.Fprintln(p.Out, "trusted")
			return err
		}
	}
	if c.JSON {
		return p.PrintJSON(r.answer, "")
	}
	return nil
}

// begin finds the box and reads the team's configuration.
func (c *TrustCommand) begin(ctx context.Context, p *cli.Program) (*review, error) {
	found, err := p.FindBox(c.BoxFlag)
	p.BoxNamed = false // naming a box to look at it is not enough to connect to its journal
	r := &review{found: found, dir: found}
	if signalbox.CodeOf(err) == signalbox.CodeNotFound && c.Box == "" &&
		p.Getenv(cli.BoxVariable) == "" {
		r.dir, err = filepath.Abs(box.FolderName)
	}
	if err != nil {
		return nil, err
	}
	r.root = p.ProjectRoot(c.BoxFlag, r.dir)
	r.shared, err = team.Read(ctx, r.root, r.found)
	return r, err
}

// compute finds out what is trusted, and what needs trust.
func (r *review) compute(ctx context.Context, p *cli.Program) (err error) {
	if r.known, err = (team.Store{}).Find(r.shared.Root, r.dir); err != nil {
		return err
	}
	knowsPlaces := team.Store{}.KnowsPlaces(r.dir)
	r.foreign = !knowsPlaces || r.shared.LooseBox && !p.OwnsBox(ctx, r.dir)
	r.places, r.noPlaces = team.FindPlaces(r.dir)
	shared, trusted := r.shared, r.shared.Trusted(r.known)
	r.answer = trust{Root: shared.Root, Commit: shared.Commit, Files: shared.Names(),
		Needed: shared.Files != nil && !shared.Harmless || r.foreign || !trusted, Trusted: trusted}
	if r.foreign {
		r.answer.Trusted, r.answer.Digest = trusted && shared.TrustedBox(r.known) && knowsPlaces,
			shared.DigestWithBox()
	} else if shared.Files != nil || !trusted {
		r.answer.Digest = shared.Digest()
	}
	if shared.Files != nil {
		r.answer.Settings, err = config.ShowTeam(shared.Files[config.FileName])
	}
	return err
}

// record records that the user trusts what was shown, and creates the box if there is none.
func (r *review) record(ctx context.Context, p *cli.Program) error {
	again, err := team.Read(ctx, r.root, r.found)
	if err != nil {
		return err
	}
	if again.Root != r.shared.Root || again.DigestWithBox() != r.shared.DigestWithBox() {
		return signalbox.CodeConflict.Errorf("review it again: signalbox trust --show",
			"the configuration has changed since it was shown, so nothing was recorded")
	}
	if r.found == "" {
		if _, err := box.Init(ctx, r.dir, p.ActorOf(""), p.BoxOptions()); err != nil {
			return err
		}
		p.Notef("created a box in %s", r.dir)
	}
	err = (team.Store{}).Add(r.shared, r.dir, time.Now())
	if err == nil && r.foreign {
		err = cmp.Or(r.noPlaces, team.Store{}.RecordPlaces(r.places))
	}
	if err != nil {
		return signalbox.CodeFailed.Errorf(
			"check that you may write to your configuration folder and to the box",
			"cannot record that you trust it: %w", err)
	}
	r.answer.Trusted = true
	return nil
}

// describe prints what would be trusted.
func (c *TrustCommand) describe(p *cli.Program, r *review) error {
	shared, known := r.shared, r.known
	if note := shared.ModifiedNote(); note != "" {
		p.Warnf("%s", note)
	}
	name := cli.Printable(shared.Name())
	switch {
	case shared.Files == nil && !shared.Trusted(known):
		fmt.Fprintf(p.Out, "%s is gone since you trusted it on %s. If you agree, these settings no longer count:\n\n%s\n", name, known.Time.Local().Format("2006-01-02"), shared.Describe(known))
	case shared.Files == nil:
		fmt.Fprintf(p.Out, "there is no configuration of a team in %s\n",
			cli.Printable(shared.Root))
	case shared.Harmless && shared.Trusted(known):
		fmt.Fprintf(p.Out, "%s needs no trust: it cannot run anything\n", name)
	case r.answer.Trusted && !c.Show:
		fmt.Fprintf(p.Out, "%s is trusted\n", name)
	default:
		if r.answer.Trusted {
			fmt.Fprintf(p.Out, "%s is trusted\n\n", name)
			known = nil // show all of it
		} else if known != nil && known.Files != nil {
			fmt.Fprintf(p.Out, "%s has changed since you trusted it on %s\n\n", name,
				known.Time.Local().Format("2006-01-02"))
		} else {
			fmt.Fprintf(p.Out, "%s is not trusted yet\n\n", name)
			known = nil
		}
		fmt.Fprintf(p.Out, "%s\n", shared.Describe(known))
	}
	if r.foreign {
		changed := ""
		if !(team.Store{}).KnowsPlaces(r.dir) {
			changed = ", or its journal was changed"
		}
		fmt.Fprintf(p.Out, "\nThe box %s was not created on this machine%s. Its own configuration:\n%s\n", cli.Printable(r.dir), changed, team.DescribeSettings(shared.OwnText, nil))
	}
	if r.answer.Needed {
		fmt.Fprintf(p.Out, "digest: %s\n", r.answer.Digest)
	}
	return p.Out.Flush()
}

// decide asks the user, unless --yes is set.
func (c *TrustCommand) decide(p *cli.Program) error {
	if c.Yes {
		return nil
	}
	yes, err := p.Confirm("Trust it, so that signalbox may run this on your machine?",
		"review it with signalbox trust --show, and then run signalbox trust --yes --digest with its digest")
	if err == nil && !yes {
		err = signalbox.CodeFailed.Errorf("", "it is not trusted, and nothing was changed")
	}
	return err
}

func (c *TrustCommand) revoke(p *cli.Program, shared *team.Shared, dir string) error {
	if c.Digest != "" {
		return signalbox.CodeUsage.Errorf("leave out --digest",
			"--revoke cannot be combined with --digest")
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
		return p.PrintJSON(trust{Root: shared.Root, Needed: shared.Files != nil &&
			!shared.Harmless}, "")
	}
	text := "no longer trusted"
	if !removed {
		text = "it was not trusted"
	}
	_, err = fmt.Fprintln(p.Out, text)
	return err
}
