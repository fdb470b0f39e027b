package main

import (
	"context"
	"fmt"
	"path/filepath"

	"signalbox/internal/config"
	"signalbox/internal/core/box"
)

type initCommand struct {
	Dir  string `arg:"" optional:"" default:"." help:"The folder in which to create the box. Default: the current folder."`
	JSON bool   `name:"json" help:"Print one JSON object."`
}

func (initCommand) Help() string {
	return `Creates a box: the folder .signalbox with an empty ledger, a commented configuration (signalbox.yaml) and a .gitignore that keeps the box out of git. The private key that signs checkpoints is written to your configuration folder, outside every workspace, or to the file that SIGNALBOX_KEY names. It is never printed. The public key is printed: keep a copy elsewhere, to check proofs and backups of the box.

Examples:

    signalbox init
    signalbox init ~/work/project
    SIGNALBOX_KEY=/etc/signalbox/project.key signalbox init --json`
}

func (c *initCommand) Run(p *program) error {
	if err := p.operatorOnly("create a box"); err != nil {
		return err
	}
	created, err := box.Init(context.Background(), filepath.Join(c.Dir, box.FolderName), p.actor(""), p.boxOptions())
	if err != nil {
		return err
	}
	if c.JSON {
		return p.printJSON(created, "")
	}
	_, err = fmt.Fprintf(p.out, "created %s\npublic key: %s\nsigning key: %s\n\nNext:\n  1. name your agents and checks in %s\n  2. signalbox doctor\n  3. signalbox run plan.md\n",
		printable(created.Dir), created.PublicKey, printable(created.KeyFile), printable(filepath.Join(created.Dir, config.FileName)))
	return err
}
