package running

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/doctor"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/forecast"
	"signalbox/internal/run/history"
	"signalbox/internal/run/plan"
	"signalbox/internal/run/planload"
	"signalbox/internal/run/project"
	"signalbox/internal/run/turnprompt"
	"signalbox/internal/run/workspace"
	"signalbox/internal/team"
)

// dryRun prints what a run of the plan would do, and what it needs that is missing. It changes
// nothing.
func (c *RunCommand) dryRun(p *cli.Program, file string, text []byte) error {
	ctx := context.Background()
	var missing []forecast.Missing
	var untrusted error
	miss := func(err error) {
		if errors.Is(err, team.ErrUntrusted) {
			untrusted = err
		}
		if err != nil {
			missing = append(missing,
				forecast.Missing{What: err.Error(), Fix: signalbox.HintOf(err)})
		}
	}
	b, root, closeBox, err := c.boxForTrial(ctx, p, miss)
	if err != nil {
		return err
	}
	defer closeBox()
	settings := b.Config
	parsed, err := plan.Parse(file, text, &plan.Options{Drafts: settings.Analyst()})
	if err != nil {
		return planError(p, err)
	}
	load := planload.Options{Actor: p.ActorOf(""), Shared: settings.Workspace.Shared(), Replace: c.Replace, Finished: c.finished()}
	load.Identify(parsed, file, root)
	loaded, id, err := c.tryLoad(ctx, b, parsed, text, load, miss)
	if err != nil {
		return err
	}
	defer loaded.Close()
	branch := ""
	if !load.Shared {
		branch, err = workspace.Inspect(ctx, root)
		if _, ok := errors.AsType[*workspace.UncommittedError](err); ok {
			edited := editedPlan{file: file, text: text, plan: parsed, load: load}
			err = edited.checkIn(ctx, p, b, err, true)
		}
		miss(err)
		branch = cmp.Or(settings.Deliver.Target, branch)
	}
	f, err := forecast.Of(ctx, loaded, parsed, id, branch)
	if err != nil {
		return err
	}
	if untrusted == nil {
		c.findMissing(ctx, b, root, f, miss)
	} else {
		f.Notes = append(f.Notes,
			"this is the run after you trust the team's configuration; what else it lacks is looked for then")
	}
	past, err := new(history.Reader).Stats(ctx, b.Journal, b.Engine.Tail().Seq)
	if err != nil {
		return err
	}
	f.Next = past.Next
	f.Missing = append(f.Missing, missing...)
	f.Notes = append(f.Notes, settings.Notes()...)
	f.OK = len(f.Missing) == 0
	if c.JSON {
		err = p.PrintJSON(f, "")
	} else {
		_, err = p.Out.WriteString(f.Text(file, cli.WidthOf(p.Stdout)))
	}
	switch {
	case err != nil:
		return err
	case untrusted != nil: // first, because everything else may be different with the team's settings
		return untrusted
	}
	return f.Error()
}

// boxForTrial opens the box for reading, with the configuration of a run. If there is none, it
// returns a new one in a temporary folder. root is the folder of the project.
func (c *RunCommand) boxForTrial(ctx context.Context, p *cli.Program, miss func(error)) (b *box.Box,
	root string, closeBox func(), err error) {
	dir, err := p.FindBox(c.BoxFlag)
	create := signalbox.CodeOf(err) == signalbox.CodeNotFound && c.Box == "" &&
		p.Getenv(cli.BoxVariable) == ""
	if create {
		dir, err = filepath.Abs(box.FolderName)
	}
	if err != nil {
		return nil, "", nil, err
	}
	root = p.ProjectRoot(c.BoxFlag, dir)
	temp := ""
	cleanup := func() {
		if temp != "" {
			os.RemoveAll(temp)
		}
	}
	defer func() {
		if err != nil {
			cleanup()
		}
	}()
	settings, shared, err := p.RunSettings(ctx, c.BoxFlag, root, dir)
	if errors.Is(err, team.ErrUntrusted) {
		miss(err)
		if temp, err = os.MkdirTemp("", "signalbox-dry-run-"); err == nil && settings == nil {
			settings, err = previewSettings(shared, dir, filepath.Join(temp, "team"))
		}
	}
	if err != nil {
		return nil, "", nil, err
	}
	options := p.BoxOptions()
	options.Load = func(context.Context, string) (*config.Config, error) { return settings, nil }
	if !create {
		if b, err = box.OpenReadOnly(ctx, dir, options); err != nil {
			return nil, "", nil, err
		}
		return b, root, func() {
			b.Close()
			cleanup()
		}, nil
	}
	if temp == "" {
		if temp, err = os.MkdirTemp("", "signalbox-dry-run-"); err != nil {
			return nil, "", nil, err
		}
	}
	dir, options.KeyFile = filepath.Join(temp, box.FolderName), filepath.Join(temp, "key")
	if _, err = box.Init(ctx, dir, p.ActorOf(""), options); err == nil {
		b, err = box.Open(ctx, dir, options)
	}
	if err != nil {
		return nil, "", nil, err
	}
	return b, root, func() {
		b.Close()
		cleanup()
	}, nil
}

// previewSettings returns the settings of a run after the user trusts the team's configuration. Of
// the files that they name it keeps only the team's own, which were copied to a folder.
func previewSettings(shared *team.Shared, dir, copies string) (*config.Config, error) {
	settings, err := shared.Preview(dir, copies)
	if err != nil {
		return nil, err
	}
	for name, role := range settings.Roles {
		if !strings.HasPrefix(role.Prompt, copies+string(filepath.Separator)) {
			role.Prompt = ""
			settings.Roles[name] = role
		}
	}
	return settings, nil
}

// tryLoad loads the plan into a copy of the box. A plan that a run would refuse is missing
// something, and shown as if it replaced the other.
func (c *RunCommand) tryLoad(ctx context.Context, b *box.Box, parsed *plan.Plan, text []byte,
	load planload.Options, miss func(error)) (*box.Box, string, error) {
	loaded, err := b.Fork(ctx)
	if err != nil {
		return nil, "", err
	}
	change, err := planload.Load(ctx, loaded, parsed, text, load)
	if err == nil {
		return loaded, change.ID, nil
	}
	loaded.Close()
	miss(err)
	return planload.Preview(ctx, b, parsed, text, load)
}

// findMissing finds what the configuration, the agents, the sandbox and the base lack.
func (c *RunCommand) findMissing(ctx context.Context, b *box.Box, root string, f *forecast.Forecast,
	miss func(error)) {
	settings := b.Config
	host := contain.ThisHost()
	faults := map[string]error{}
	for _, fault := range agent.Faults(doctor.WithoutServers(settings), rules.DispatchRoles()) {
		if faults[fault.Name] = fault.Err; fault.Needed {
			miss(fault.Err)
		} else {
			f.Notes = append(f.Notes, fmt.Sprintf("agent %s cannot be started: %v", fault.Name,
				fault.Err))
		}
	}
	for _, name := range agent.Names(settings) {
		err := faults[name]
		if fix := host.MissingLogin(settings.AgentNamed(name)); fix != "" && err == nil {
			miss(signalbox.CodeFailed.Errorf(fix, "no login of agent %s was found", name))
		}
	}
	if in, err := project.Locate(ctx, settings, root); err == nil { // otherwise it was reported
		notes, err := in.CheckSandboxes(settings, b.Dir, process.Support())
		miss(err)
		for _, note := range notes {
			f.Notes = append(f.Notes, "the sandbox is incomplete: "+note)
		}
	}
	if settings.Keyed || c.Keyed {
		miss(agent.CheckKeyed(settings, rules.DispatchRoles()))
	}
	for _, role := range config.AgentRoles() {
		if settings.RoleOf(role).Prompt != "" {
			miss(turnprompt.CheckTemplate(settings, b.Dir, role, settings.Keyed || c.Keyed))
		}
	}
	for _, check := range doctor.Base(ctx, settings, root, b.Dir, b) {
		if check.Health == box.Problem {
			miss(signalbox.CodeFailed.Errorf(check.Fix, "%s", check.Detail))
		} else {
			f.Notes = append(f.Notes, check.Detail)
		}
	}
	if text, hint, fails := settings.DescribeIndependence(); fails {
		f.Notes = append(f.Notes, "independence is "+text+": "+hint)
	}
	if len(settings.Checks) == 0 {
		f.Notes = append(f.Notes,
			"no checks are configured: only the critic and the auditor review the work before it is merged")
	}
}
