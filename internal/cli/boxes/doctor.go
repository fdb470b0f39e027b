package boxes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/doctor"
	"signalbox/internal/run/agent"
	"signalbox/internal/serve/access"
	"signalbox/internal/team"
)

type DoctorCommand struct {
	cli.BoxFlag
	JSON  bool `name:"json" help:"Print one JSON object."`
	Probe bool `help:"Also ask each agent for one word, to see whether it is logged in. That costs what one short request costs."`
}

func (DoctorCommand) Help() string {
	return `Checks what signalbox needs: the platform, git and the repository, the box and its configuration, the ledger, its database if it is in one (version, replicas, whether it syncs what it stores, lag, rights, latency, and how far its clock differs), locks, disk, clock, key and checkpoint, the limit on open files, the commands and trees of the agents, whether there is a login or a key for each agent program, the prompt templates, what the configured checks need (programs, interpreters, files of the last commit, submodules), whether checks fail on the base and why, the models with their keys or servers, the MCP servers of the oracle, and tokens of the API that never expire. It connects to servers that have an address, but sends them no request. With --probe it also starts each agent program in an empty folder and asks it for one word, which is the only way to know whether its login is accepted. Each check is ok, a warning (it works, but could be better) or a problem (something does not work), and says what to do. Nothing is changed. To read and check the whole ledger, run signalbox ledger verify.

The exit status is 1 if there is a problem. Warnings do not count.

Examples:

    signalbox doctor
    signalbox doctor --probe
    signalbox doctor --json`
}

// diagnosis is the JSON answer.
type diagnosis struct {
	OK     bool        `json:"ok"`
	Checks []box.Check `json:"checks"`
}

func (c *DoctorCommand) Run(p *cli.Program) error {
	ctx := context.Background()
	var settings *config.Config
	opts := box.DoctorOptions{Options: *p.BoxOptions(), Version: p.Build().Version,
		Instead:  agent.Instead,
		Progress: func(what string) { p.Notef("%s", what) }}
	opts.Dir, opts.FindError = p.FindBox(c.BoxFlag)
	var shared *team.Shared
	if opts.FindError == nil {
		loaded, found, err := p.RunSettings(ctx, c.BoxFlag, p.ProjectRoot(c.BoxFlag, opts.Dir),
			opts.Dir)
		// box.Doctor reports the error
		opts.Load = func(context.Context, string) (*config.Config, error) { return loaded, err }
		if shared = found; err == nil {
			settings, opts.Agents, opts.Slots = loaded, doctor.Commands(loaded), loaded.Slots
		}
	}
	checks := append(box.Doctor(ctx, opts), teamChecks(shared, settings != nil)...)
	if opts.FindError == nil {
		checks = append(checks, tokenChecks(access.NewStore(opts.Dir))...)
	}
	if settings != nil {
		root := p.ProjectRoot(c.BoxFlag, opts.Dir)
		checks = doctor.Complete(ctx, settings, root, opts.Dir, checks)
		if c.Probe {
			checks = append(checks, doctor.Probe(ctx, settings, checks)...)
		}
		var b *box.Box // nil if box.Doctor reports why it cannot be opened
		if !slices.ContainsFunc(checks,
			func(c box.Check) bool { return c.Health == box.Problem && ledgerChecks[c.Name] }) {
			// a database may stop answering at any time
			opening, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			if opened, err := box.OpenReadOnly(opening, opts.Dir, &opts.Options); err == nil {
				b = opened
			}
		}
		checks = append(checks, doctor.Base(ctx, settings, root, opts.Dir, b)...)
		if b != nil {
			b.Close()
		}
	}
	problems := 0
	for _, check := range checks {
		if check.Health == box.Problem {
			problems++
		}
	}
	if c.JSON {
		if err := p.PrintJSON(diagnosis{problems == 0, checks}, ""); err != nil {
			return err
		}
	} else if err := printChecks(p, checks); err != nil {
		return err
	}
	switch problems {
	case 0:
		return nil
	case 1:
		return signalbox.CodeFailed.Errorf("", "there is a problem")
	}
	return signalbox.CodeFailed.Errorf("", "there are %d problems", problems)
}

// ledgerChecks are the checks without which the ledger cannot be read.
var ledgerChecks = map[string]bool{"journal": true, "database": true, "ledger": true}

// teamChecks describes the team's configuration, if there is one. used means that it is used.
func teamChecks(shared *team.Shared, used bool) (checks []box.Check) {
	const name = "team"
	if shared == nil {
		return nil
	}
	if shared.Files != nil && used {
		trust := "trusted"
		if shared.Harmless {
			trust = "it needs no trust"
		}
		checks = append(checks, box.Check{Name: name, Health: box.Healthy, Detail: shared.Name() +
			", " + trust})
	}
	if len(shared.Modified) > 0 {
		what, fix, _ := strings.Cut(shared.ModifiedNote(), "; ")
		checks = append(checks, box.Check{Name: name, Health: box.Warning, Detail: what, Fix: fix})
	}
	if shared.Files != nil && shared.Commit == "" {
		checks = append(checks, box.Check{Name: name, Health: box.Warning,
			Detail: "it is used as it is, because there is no commit yet", Fix: "commit " +
				config.FileName})
	}
	return checks
}

// tokenChecks names the tokens that are valid until somebody revokes them: those of earlier
// versions, and those with --expires never.
func tokenChecks(store *access.Store) []box.Check {
	const name = "tokens"
	tokens, err := store.List()
	if err != nil {
		return []box.Check{{Name: name, Health: box.Problem, Detail: err.Error(),
			Fix: signalbox.HintOf(err)}}
	}
	var endless []string
	for _, t := range tokens {
		if t.Expires.IsZero() {
			endless = append(endless, t.Name)
		}
	}
	if len(endless) == 0 {
		return nil
	}
	return []box.Check{{Name: name, Health: box.Warning,
		Detail: "these never expire: " + strings.Join(endless, ", "),
		Fix: "signalbox token revoke NAME, and then signalbox token create NAME: " +
			"new tokens expire after 90 days, or when --expires says"}}
}

func printChecks(p *cli.Program, checks []box.Check) error {
	for _, check := range checks {
		if _, err := fmt.Fprintf(p.Out, "%-8s %-14s %s\n", check.Health, cli.Printable(check.Name),
			cli.Printable(check.Detail)); err != nil {
			return err
		}
		for line := range strings.Lines(check.Output) {
			if _, err := fmt.Fprintf(p.Out, "%-8s %-14s | %s\n", "", "",
				cli.Printable(strings.TrimRight(line, "\r\n"))); err != nil {
				return err
			}
		}
		if check.Fix == "" {
			continue
		}
		if _, err := fmt.Fprintf(p.Out, "%-8s %-14s to do: %s\n", "", "",
			cli.Printable(check.Fix)); err != nil {
			return err
		}
	}
	return nil
}
