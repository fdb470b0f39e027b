// Package boxes has the commands that set up a box and this machine for it: init, invite, join,
// trust, config, sandbox, notify and doctor.
package boxes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/durable"
	"signalbox/internal/run/survey"
	"signalbox/internal/team"
)

type InitCommand struct {
	Dir     string       `arg:"" optional:"" default:"." help:"The folder in which to create the box. Default: the current folder."`
	Journal cli.NonEmpty `placeholder:"ADDRESS" help:"Where the ledger is, for several machines: postgres://USER@HOST/DATABASE?schema=NAME or nats://HOST:PORT/NAME. Default: a file in the box."`
	Team    bool         `help:"Instead of a box, write a commented signalbox.yaml for the whole team to the top of the repository."`
	JSON    bool         `name:"json" help:"Print one JSON object."`
}

func (InitCommand) Help() string {
	return `Creates a box: the folder .signalbox with an empty ledger, a commented configuration (signalbox.yaml) and a .gitignore that keeps the box out of git. The private key that signs checkpoints is written to your configuration folder, outside every workspace, or to the file that SIGNALBOX_KEY names. It is never printed. The public key is printed: keep a copy elsewhere, to check proofs and backups of the box.

It looks which agent programs are installed and logged in, and what the checks of the project probably are: go.mod, Cargo.toml, pyproject.toml, the scripts of package.json, the targets of a Makefile and the like. The configuration names the agent; the checks are in it as comments, because nothing tried them. It starts no program of the project. If the repository has the configuration of a team, or the box has one, it looks for nothing.

With --team, it writes only a commented signalbox.yaml to the top of the repository, for you to commit: the configuration that everybody who works on the repository shares. docs/reference/configuration.md explains how the two are combined.

Examples:

    signalbox init
    signalbox init --team
    signalbox init ~/work/project
    signalbox init --journal postgres://signalbox@db.example.com/shop
    signalbox init --journal nats://nats.example.com:4222/shop
    SIGNALBOX_KEY=/etc/signalbox/project.key signalbox init --json`
}

func (c *InitCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("create a box"); err != nil {
		return err
	}
	if c.Team && c.Journal != "" {
		return signalbox.CodeUsage.Errorf(
			"a team's configuration does not say where the ledger of a box is",
			"--team and --journal cannot be used together")
	}
	if c.Team {
		return c.initTeam(p)
	}
	p.Quiet = c.JSON
	dir := filepath.Join(c.Dir, box.FolderName)
	options, found := p.BoxOptions(), c.survey(dir)
	options.Journal, options.Settings = string(c.Journal), found.Box()
	known := team.Store{}.KnowsPlaces(dir)
	created, err := box.Init(context.Background(), dir, p.ActorOf(""), options)
	cli.RememberPlaces(p, dir, known, err)
	if err != nil {
		return err
	}
	if c.JSON {
		answer := newBox{InitResult: created, Checks: found.Checks}
		for _, a := range found.Agents {
			answer.Agents = append(answer.Agents, newAgent{a.Name, a.NoLogin == ""})
		}
		return p.PrintJSON(answer, "")
	}
	for _, note := range found.Notes(filepath.Join(created.Dir, config.FileName)) {
		p.Notef("%s", note)
	}
	_, err = fmt.Fprintf(p.Out,
		"created %s\npublic key: %s\nsigning key: %s\n\nNext:\n  1. complete the agents and checks in %s\n  2. signalbox doctor\n  3. signalbox plan new, and write your tasks into plan.md\n  4. signalbox run plan.md\n",
		cli.Printable(created.Dir), created.PublicKey, cli.Printable(created.KeyFile),
		cli.Printable(filepath.Join(created.Dir, config.FileName)))
	return err
}

// newBox is the JSON answer, with what was found for the configuration.
type newBox struct {
	*box.InitResult
	Agents []newAgent       `json:"agents,omitempty"`
	Checks []survey.Command `json:"checks,omitempty"`
}

// newAgent is an agent program that is installed here.
type newAgent struct {
	Name string `json:"name"`
	// Login is false if its login is missing, as far as can be seen.
	Login bool `json:"login"`
}

// survey finds out what to write into the configuration of a new box. That is nothing if there is a
// configuration, of the box or of a team.
func (c *InitCommand) survey(dir string) survey.Found {
	if _, err := os.Lstat(filepath.Join(dir, config.FileName)); !errors.Is(err, fs.ErrNotExist) {
		return survey.Found{}
	}
	shared, err := team.Read(context.Background(), c.Dir, "")
	if err != nil || shared.Files != nil {
		return survey.Found{}
	}
	return survey.Look(shared.Root)
}

// teamFile is the JSON answer with --team.
type teamFile struct {
	File string `json:"file"`
}

// initTeam writes the configuration for a team.
func (c *InitCommand) initTeam(p *cli.Program) error {
	shared, err := team.Read(context.Background(), c.Dir, "")
	if err != nil {
		return err
	}
	name := filepath.Join(shared.Root, config.FileName)
	found := survey.Look(shared.Root)
	err = durable.Create(name, []byte(found.Team()), 0o644)
	if errors.Is(err, fs.ErrExist) {
		return signalbox.CodeFailed.Errorf("edit it, and commit it", "%s exists already", name)
	}
	if err != nil {
		return signalbox.CodeFailed.Errorf("choose a folder that you may write to",
			"cannot create the configuration: %w", err)
	}
	if c.JSON {
		return p.PrintJSON(teamFile{name}, "")
	}
	for _, note := range found.CommandNotes(name) {
		p.Notef("%s", note)
	}
	_, err = fmt.Fprintf(p.Out,
		"created %s\n\nNext:\n  1. complete the agents and checks in it, and commit it\n  2. signalbox trust\n  3. signalbox doctor\n", cli.Printable(name))
	return err
}
