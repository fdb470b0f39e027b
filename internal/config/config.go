// Package config is the configuration of a box: what can be set, the defaults, and what is valid. The file
// signalbox.yaml of this package is its template, which signalbox init puts into a new box; docs/configuration.md
// is its reference. What is unknown, set twice or not valid is an error that says its line and column and, as a
// hint, what to write.
package config

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"signalbox"
)

// FileName is the name of the configuration in the folder of a box.
const FileName = "signalbox.yaml"

// Template is a configuration in which everything is explained and nothing is set.
//
//go:embed signalbox.yaml
var Template string

// Config is the configuration of a box. Default, Load and Parse fill in what is not set.
type Config struct {
	// Agents are those whom roles can name, by name.
	Agents map[string]Agent `yaml:"agents"`
	// Agent names the agent of every role that names none: one of Agents, or a preset.
	Agent string `yaml:"agent"`
	// Roles has what is set for roles; RoleOf has the defaults too.
	Roles map[signalbox.Role]Role `yaml:"roles"`
	// Slots is how many agents run at once, all roles together.
	Slots        int           `yaml:"slots"`
	Experts      []Expert      `yaml:"experts"`
	Checks       []Check       `yaml:"checks"`
	Environments []Environment `yaml:"environments"`
	// Protected are patterns of paths that no task should edit: path.Match for each segment, and ** for any number of
	// segments.
	Protected []string `yaml:"protected"`
	// Workspace is WorkspaceWorktree, WorkspaceShared, or "" for a worktree where there is a git repository.
	Workspace string `yaml:"workspace"`
	// Approve is ApproveMerge if a human says yes before every merge, or "".
	Approve string  `yaml:"approve"`
	Budget  Budgets `yaml:"budget"`
	Limits  Limits  `yaml:"limits"`
	Notify  Notify  `yaml:"notify"`
	// Grace is how long an agent that was asked to end has before it is killed.
	Grace      time.Duration `yaml:"grace"`
	Lease      Lease         `yaml:"lease"`
	Checkpoint Checkpoint    `yaml:"checkpoint"`
	// Models are what the oracle and agents with a tree may talk to, by name; OracleModel finds one.
	Models map[string]Model `yaml:"models"`
	Oracle Oracle           `yaml:"oracle"`
}

// Lease is about leases.
type Lease struct {
	// TTL is how long a lease lives if a claim does not say.
	TTL time.Duration `yaml:"ttl"`
}

// Checkpoint says where signed checkpoints are handed to. Each may be zero.
type Checkpoint struct {
	// File may be relative in the text, to the folder of the box; Load makes it whole.
	File    string   `yaml:"file"`
	Command []string `yaml:"command"`
	Webhook string   `yaml:"webhook"`
}

// Default is the configuration where nothing is set.
func Default() *Config {
	return &Config{
		Agent:        PresetClaude,
		Slots:        5,
		Environments: []Environment{{Name: "local"}},
		Limits:       defaultLimits(),
		Grace:        10 * time.Second,
		Lease:        Lease{TTL: signalbox.DefaultLeaseTTL},
		Oracle:       defaultOracle(),
	}
}

// Load reads the configuration in the folder of a box. A box without one has the default.
func Load(dir string) (*Config, error) {
	name := filepath.Join(dir, FileName)
	text, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return Default(), nil
	}
	if err != nil {
		return nil, &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("cannot read the configuration: %w", err),
			Hint: "check that it is a file you may read"}
	}
	c, places, faults := parse(text)
	if len(faults) == 0 {
		c.findFiles(dir, &faults)
	}
	if err := places.locate(name, faults); err != nil {
		return nil, err
	}
	return c, nil
}

// Parse reads a configuration. Everything that is wrong with it is in the [*Error] inside the returned [*signalbox.Error].
// Files that it names are not looked at.
func Parse(text []byte) (*Config, error) {
	c, places, faults := parse(text)
	if err := places.locate("", faults); err != nil {
		return nil, err
	}
	return c, nil
}

func parse(text []byte) (*Config, places, faults) {
	c := Default()
	places, faults := read(text, c)
	if len(faults) == 0 { // what was not read correctly cannot be validated
		c.fill(places)
		c.validate(&faults)
	}
	return c, places, faults
}
