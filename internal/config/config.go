// Package config reads the configuration of a box, signalbox.yaml, and of a portfolio,
// portfolio.yaml: the settings, their defaults, and what is valid. The file signalbox.yaml in this
// package is the template that signalbox init puts into a new box; docs/reference/configuration.md
// is the reference.
//
// A setting that is unknown, set twice or not valid is an error with its line and column, and a
// hint that says what to write.
package config

import (
	_ "embed"
	"time"

	"signalbox"
	"signalbox/internal/sandbox"
)

// FileName is the name of the configuration in the folder of a box.
const FileName = "signalbox.yaml"

// Template is a configuration that explains every setting in comments and sets none.
//
//go:embed signalbox.yaml
var Template string

// Config is the configuration of a box. Default, Load and Parse fill in the defaults.
type Config struct {
	// Journal is where the ledger is: JournalSQLite, or the address of a database that several
	// machines share. Only the box's own configuration may set it.
	Journal string `yaml:"journal"`
	// Cluster lists the machines of the box if they run the database themselves, which is
	// JournalCluster.
	Cluster Cluster `yaml:"cluster"`
	// Agents are the configured agents, by name.
	Agents map[string]Agent `yaml:"agents"`
	// Agent are the agents of every role that does not name any: keys of Agents, or presets.
	Agent AgentList `yaml:"agent"`
	// Roles has the configured roles. RoleOf includes the defaults.
	Roles map[signalbox.Role]Role `yaml:"roles"`
	// Independence is how much critics and auditors must differ from the author. Empty means what
	// EffectiveIndependence returns.
	Independence string `yaml:"independence"`
	// Slots is how many agents run at the same time, over all roles.
	Slots        int           `yaml:"slots"`
	Experts      []Expert      `yaml:"experts"`
	Checks       []Check       `yaml:"checks"`
	Environments []Environment `yaml:"environments"`
	// Setup are commands that make a worktree ready, and Copy are patterns, like Protected, for
	// ignored files that are copied into it from the checkout of the project.
	Setup []Setup  `yaml:"setup"`
	Copy  []string `yaml:"copy"`
	// Cache is what build tools keep between two builds.
	Cache Cache `yaml:"cache"`
	// Ports is how many TCP ports each worktree gets; 0 means none.
	Ports int `yaml:"ports"`
	// Protected are patterns for paths that tasks should not edit: path.Match for each segment, and
	// ** for any number of segments.
	Protected []string `yaml:"protected"`
	// ProtectedExisting are patterns like Protected for files that tasks may add, but not edit once
	// they are on the base.
	ProtectedExisting []string  `yaml:"protected_existing"`
	Workspace         Workspace `yaml:"workspace"`
	// Approve is which merges a person must approve: ApproveMerge all of them, ApproveSteering
	// those that change files that steer agents, ApproveNever none. Empty means ApproveSteering.
	Approve string `yaml:"approve"`
	// Deliver is what happens with finished work.
	Deliver Deliver `yaml:"deliver"`
	// Keyed gives each agent a key that its signals must have.
	Keyed bool `yaml:"keyed"`
	// Sandbox is what agents, checks and tools may do on this machine. SandboxOf includes the
	// settings of one of them.
	Sandbox Sandbox `yaml:"sandbox"`
	// EnvPass are the names of environment variables that all programs get, besides the usual ones.
	// A star at the end of a name stands for any text.
	EnvPass []string `yaml:"env_pass"`
	Budget  Budgets  `yaml:"budget"`
	Limits  Limits   `yaml:"limits"`
	Notify  Notify   `yaml:"notify"`
	// Webhooks get the events of the ledger.
	Webhooks []Webhook `yaml:"webhooks"`
	Traces   Traces    `yaml:"traces"`
	// Grace is how long an agent may take to exit before it is killed.
	Grace      time.Duration `yaml:"grace"`
	Lease      Lease         `yaml:"lease"`
	Checkpoint Checkpoint    `yaml:"checkpoint"`
	MCP        MCP           `yaml:"mcp"`
	// Models are the models for the oracle and for agents with a tree, by name. OracleModel
	// resolves a name.
	Models map[string]Model `yaml:"models"`
	Oracle Oracle           `yaml:"oracle"`
	// Prices are prices of models by patterns for their names, as in path.Match. PriceOf includes
	// the built-in ones.
	Prices map[string]Price `yaml:"prices"`
	// Team is the folder with a copy of the team's configuration, for other processes of a run. ""
	// means that there is none.
	Team string `yaml:"-"`
	// TeamFiles are the files of the team's configuration in the project, with absolute paths.
	// Programs must not change them.
	TeamFiles []string `yaml:"-"`
}

// Lease configures leases.
type Lease struct {
	// TTL is how long a lease lives if the claim does not specify it.
	TTL time.Duration `yaml:"ttl"`
	// Checks is how long the lease of a check or a merge lives if other machines share the ledger,
	// but not longer than TTL. It is short, because all machines wait for it: see Short.
	Checks time.Duration `yaml:"checks"`
}

// Short returns how long the lease of a check or a merge lives if other machines share the ledger.
func (l Lease) Short() time.Duration { return min(l.Checks, l.TTL) }

// LeaseMargin returns how long before a lease expires its programs are ended if the lease could not
// be renewed: two agents must never do the same work. A third of it covers clocks that differ, a
// third programs that are slow to end, and a third other delays. Each third is 5 seconds for a lease
// of 45 seconds.
func LeaseMargin(ttl time.Duration) time.Duration { return min(30*time.Second, ttl/3) }

// DefaultLeaseChecks lets another machine take over within a minute.
const DefaultLeaseChecks = 45 * time.Second

// Checkpoint lists where signed checkpoints are copied. Empty fields are not used.
type Checkpoint struct {
	// File is relative to the folder of the box in the text. Load resolves it.
	File    string   `yaml:"file"`
	Command []string `yaml:"command"`
	Webhook string   `yaml:"webhook"`
}

// Default returns the configuration that an empty text has.
func Default() *Config {
	return &Config{
		Journal:      JournalSQLite,
		Cluster:      Cluster{SecretFile: DefaultSecretFile},
		Agent:        AgentList{PresetClaude},
		Slots:        5,
		Environments: []Environment{{Name: "local"}},
		Cache:        Cache{Developers: true},
		Deliver:      Deliver{Train: DefaultTrain, TrainTime: DefaultTrainTime},
		Sandbox:      Sandbox{Mode: sandbox.Enforce, Processes: sandbox.EndProcesses},
		Limits:       defaultLimits(),
		Grace:        10 * time.Second,
		Lease:        Lease{signalbox.DefaultLeaseTTL, DefaultLeaseChecks},
		Oracle:       defaultOracle(),
	}
}

// Load reads the configuration in the folder of a box, and checks that the files that it names
// exist. Without a configuration it returns Default.
func Load(dir string) (*Config, error) { return LoadTeam(dir, nil) }

// Parse parses a configuration. The returned [*signalbox.Error] contains an [*Error] with
// everything that is wrong. Parse does not look at the files that the configuration names.
func Parse(text []byte) (*Config, error) {
	c, places, faults := parse(text)
	if err := places.locate("", "", faults); err != nil {
		return nil, err
	}
	return c, nil
}

func parse(text []byte) (*Config, places, faults) {
	c := Default()
	places, faults := read(text, c)
	c.complete(places, &faults)
	return c, places, faults
}
