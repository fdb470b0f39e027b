// Package checks makes a folder ready to work in, and runs the checks of a task there.
//
// A Runner runs the programs of one crew, and a Job those of one of its sessions. Prepare reserves
// ports, copies files, and runs the setup commands. Run does that in a temporary folder, and then
// runs the checks. Everything that runs is contained, and ends when the session loses its lease.
package checks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/checkrun"
	"signalbox/internal/run/ports"
	"signalbox/internal/run/project"
	"signalbox/internal/run/prompts"
	"signalbox/internal/run/stored"
	"signalbox/internal/run/transport"
	"signalbox/internal/run/workspace"
	"signalbox/internal/sandbox"
	"signalbox/internal/text"
)

// Runner runs the setup commands and checks of a crew. Its methods may be called concurrently.
type Runner struct {
	Site contain.Site
	// Repo is nil if all agents work in one folder. Then nothing is made ready.
	Repo     *workspace.Repo
	Support  sandbox.Support
	Exchange *transport.Exchange
	// Owner is the register in which programs are found if this process is killed.
	Owner *agent.Owner
	// Start starts a program.
	Start func(process.Spec, func(process.ID) error) (checkrun.Running, error)
	// PortRegister is the file in which ports are reserved; "" means the user's.
	PortRegister string
	Log          *slog.Logger
	// Warn logs a warning, once for each text.
	Warn func(text string)
}

// Job is what a Runner does for one session.
type Job struct {
	*Runner
	Work string
	// Baseline means that the checks run on the base, and on nothing that a task wrote.
	Baseline bool
	// Agent and Role are those of the session.
	Agent, Role string
	// Put stores a blob.
	Put func(data []byte) (signalbox.Hash, error)
	// Report records how a folder was made ready. The session and epoch of the report are not set.
	Report func(rules.ReportSetup) error
	// Show shows what the job does; "" means that it is over.
	Show func(line string)
	// EndWithLease makes stop end a program when the lease is lost, until the result is called.
	EndWithLease func(stop func(grace time.Duration)) (done func() bool)
}

// Run makes a temporary worktree ready, and runs all checks there but mutation checks. Without a repository or checks
// there is none. A setup command that fails because of the task is a check that fails, and the
// others are not run. The blob body has the output of the checks that failed.
//
// The home folders are new, and removed at the end. Only a baseline fills the cache.
func (j *Job) Run(ctx context.Context, dir string) (
	rows []rules.CheckRow, body signalbox.Hash, err error,
) {
	homes, err := j.Site.OpenHomes(j.Work, contain.ChecksHome, j.Baseline)
	if err != nil {
		return nil, body, err
	}
	defer func() { err = errors.Join(err, homes.Close()) }()
	if j.NeedsFolder() {
		err = j.Prepare(ctx, Folder{Dir: dir, Homes: homes})
	}
	if fault := (*SetupFault)(nil); errors.As(err, &fault) {
		return []rules.CheckRow{fault.row}, fault.body, nil
	}
	if err == nil {
		err = homes.EndSetup()
	}
	if err != nil {
		return nil, body, err
	}
	if rows, body, err = j.runChecks(ctx, dir, homes); err != nil {
		return rows, body, err
	}
	if err := j.fillCache(ctx, dir, homes); err != nil {
		return nil, body, err
	}
	if err := homes.Publish(); err != nil {
		j.Log.Warn("the cache is not filled", "work", j.Work, "error", err)
	}
	return rows, body, nil
}

// NeedsFolder reports whether anything runs in a folder.
func (j *Job) NeedsFolder() bool {
	return len(j.Site.Config.OnlyCommands()) > 0 || j.fills()
}

// fills reports whether commands fill the cache.
func (j *Job) fills() bool { return j.Baseline && len(j.Site.Config.Cache.Fill) > 0 }

// fillCache runs the commands that fill the cache. One that fails leaves less in it, which only
// costs time.
func (j *Job) fillCache(ctx context.Context, dir string, homes *contain.Homes) error {
	if !j.fills() {
		return nil
	}
	options := j.options(containCheck(j.Site, j.Work, dir, homes, j.Ports(dir)))
	defer j.Show("")
	for _, command := range j.Site.Config.Cache.Fill {
		j.Show("cache: " + command)
		results, err := checkrun.Run(ctx, dir, []checkrun.Check{{Command: command}}, options)
		if left := (*process.LeftError)(nil); errors.As(err, &left) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil && !results[0].Passed {
			err = fmt.Errorf("exit status %d: %s", results[0].Exit,
				text.OneLine(text.LastLine(stored.EndOf(results[0].Output))))
		}
		if err != nil {
			j.Warn(fmt.Sprintf("cache.fill: %s: %s", command, workspace.Explain(err)))
		}
	}
	return nil
}

// contained returns what a program of a new session may do.
type contained = func(checkrun.Check, checkrun.Environment, string) *contain.Program

// options are those of every program that a job runs.
func (j *Job) options(contained contained) checkrun.Options {
	return checkrun.Options{
		Env:     []string{"SIGNALBOX_WORK=" + j.Work},
		Contain: contained,
		Grace:   j.Site.Config.Grace,
		Started: j.EndWithLease,
		Start:   j.Start,
		Register: func(name string, id process.ID) (func(), error) {
			return func() { j.Owner.Remove(name) }, j.Owner.Add(name, id)
		},
	}
}

// runChecks runs all checks in all environments and stores their output.
func (j *Job) runChecks(ctx context.Context, dir string, homes *contain.Homes) (
	rows []rules.CheckRow, body signalbox.Hash, err error,
) {
	c, contained := j.Site.Config, containCheck(j.Site, j.Work, dir, homes, j.Ports(dir))
	options := j.options(contained)
	options.Environments = environmentsOf(c)
	options.Each = func(r checkrun.Result) { j.Show(r.Check + ": " + PassOrFail(r.Passed)) }
	results, err := checkrun.Run(ctx, dir, checksOf(c.OnlyCommands()), options)
	if left := (*process.LeftError)(nil); ctx.Err() != nil && !errors.As(err, &left) {
		return nil, body, context.Cause(ctx)
	}
	if err != nil {
		return nil, body, err
	}
	var failed strings.Builder
	for _, r := range results {
		output, err := j.Put(r.Output)
		if err != nil {
			return nil, body, err
		}
		recorded, err := j.Recorded(r.Sandbox)
		if err != nil {
			return nil, body, err
		}
		row := rules.CheckRow{Check: r.Check, Environment: r.Environment, Exit: r.Exit,
			Passed: r.Passed, Millis: r.Duration.Milliseconds(), Output: output, Sandbox: recorded}
		if !r.Passed {
			if j.Baseline { // a task may have caused what a check of its own commit lacks
				row.Cause = failureCause(dir, c, contained, r)
			}
			fmt.Fprintf(&failed, "%s in %s: exit status %d after %s\n\n%s\n\n",
				r.Check, r.Environment, r.Exit, r.Duration.Round(time.Millisecond),
				quoteOutput(r.Output))
		}
		rows = append(rows, row)
	}
	if failed.Len() > 0 {
		body, err = j.Put([]byte(failed.String()))
	}
	return rows, body, err
}

// failureCause returns why a check failed in a folder and what to do, if that is something that no
// agent should have to repair.
func failureCause(
	dir string, c *config.Config, contained contained, r checkrun.Result,
) string {
	check := checkrun.Check{}
	for _, known := range checksOf(c.Checks) {
		if known.Name == r.Check {
			check = known
		}
	}
	environment := checkrun.Environment{}
	for _, known := range environmentsOf(c) {
		if known.Name == r.Environment {
			environment = known
		}
	}
	var causes []string
	p := contained(check, environment, project.ExampleSession)
	for _, cause := range checkrun.DiagnoseFailure(os.DirFS(dir), check, environment, p, r) {
		causes = append(causes, fmt.Sprintf("%s (%s)", cause.What, cause.Fix))
	}
	return strings.Join(causes, "; ")
}

// PassOrFail returns how a result is written.
func PassOrFail(passed bool) string {
	if passed {
		return "PASS"
	}
	return "FAIL"
}

// quoteOutput returns the end of a check's output as an indented block.
func quoteOutput(output []byte) string { return prompts.Indent(stored.EndOf(output)) }

func checksOf(configured []config.Check) (checks []checkrun.Check) {
	for _, check := range configured {
		checks = append(checks, checkrun.Check{Name: check.Name, Command: check.Command,
			Timeout: check.Timeout, Environments: check.Environments})
	}
	return checks
}

func environmentsOf(c *config.Config) (environments []checkrun.Environment) {
	for _, e := range c.Environments {
		environments = append(environments,
			checkrun.Environment{Name: e.Name, Run: e.Run, Env: e.Env})
	}
	return environments
}

func containCheck(
	site contain.Site, work, dir string, homes *contain.Homes, ports contain.Ports,
) contained {
	c := site.Config
	return func(
		check checkrun.Check, environment checkrun.Environment, session string,
	) *contain.Program {
		due := contain.Check{Work: work, Session: session, Dir: dir, Homes: homes, Ports: ports,
			Environment: config.Environment{Run: environment.Run, Env: environment.Env}}
		isCheck := func(configured config.Check) bool { return configured.Name == check.Name }
		if i := slices.IndexFunc(c.Checks, isCheck); i >= 0 {
			due.Config = c.Checks[i]
		}
		return site.Check(due)
	}
}

// Recorded returns what the ledger records about a policy, and stores the policy.
func (j *Job) Recorded(p *sandbox.Policy) (rules.Sandbox, error) {
	if !p.Restricted() {
		return rules.Sandbox{Mode: string(sandbox.Off)}, nil
	}
	text, err := json.Marshal(p)
	if err != nil {
		return rules.Sandbox{}, err
	}
	digest, err := j.Put(text)
	recorded := rules.Sandbox{Mode: string(p.Mode), Network: j.Support.Network(p),
		Layers: j.Support.String(), Policy: digest}
	if j.Support.Processes() == sandbox.WatchProcesses {
		recorded.Processes = string(sandbox.WatchProcesses)
	}
	return recorded, err
}

// reservePorts returns the ports of a folder.
func (r *Runner) reservePorts(dir string) (p contain.Ports, err error) {
	count, register := r.Site.Config.Ports, r.PortRegister
	if count == 0 {
		return p, nil
	}
	if register == "" {
		if register, err = ports.Register(); err != nil {
			return p, err
		}
	}
	first, err := ports.Reserve(register, dir, count)
	return contain.Ports{First: first, Count: count}, err
}

// Ports returns the ports of a folder, none if they cannot be reserved. In a worktree they have
// been.
func (r *Runner) Ports(dir string) contain.Ports {
	ports, err := r.reservePorts(dir)
	if err != nil {
		r.Warn("cannot reserve ports: " + workspace.Explain(err))
		return contain.Ports{}
	}
	return ports
}

// Cache returns what the program of an agent gets of the cache, nil if there is none. Without it
// programs are only slower.
func (r *Runner) Cache(role signalbox.Role) *contain.Generation {
	if role.IsAuthor() && !r.Site.Config.Cache.Developers {
		return nil
	}
	cache, err := r.Site.Cache.Use()
	if err != nil {
		r.Warn("programs start without the cache: " + workspace.Explain(err))
	}
	return cache
}
