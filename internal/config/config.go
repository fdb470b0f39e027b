// Package config is the configuration of a box: what can be set, the defaults, and what is valid. The file
// signalbox.yaml of this package is its documentation; signalbox init puts it into a new box.
package config

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/goccy/go-yaml"

	"signalbox"
)

// FileName is the name of the configuration in the folder of a box.
const FileName = "signalbox.yaml"

// Template is a configuration in which everything is explained and nothing is set.
//
//go:embed signalbox.yaml
var Template string

// Config is the configuration of a box.
type Config struct {
	Lease      Lease      `yaml:"lease"`
	Checkpoint Checkpoint `yaml:"checkpoint"`
}

// Lease is about leases.
type Lease struct {
	// TTL is how long a lease lives if a claim does not say; 0 is signalbox.DefaultLeaseTTL.
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
	return &Config{Lease: Lease{TTL: signalbox.DefaultLeaseTTL}}
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
	c, err := Parse(text)
	if err != nil {
		return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("%s: %w", name, err),
			Hint: "mend the line, or remove it for the default"}
	}
	if file := c.Checkpoint.File; file != "" && !filepath.IsAbs(file) {
		c.Checkpoint.File = filepath.Join(dir, file) // not the folder that somebody happens to be in
	}
	return c, nil
}

// Parse reads a configuration. Its errors say the line.
func Parse(text []byte) (*Config, error) {
	c := Default()
	err := yaml.UnmarshalWithOptions(text, c, yaml.Strict())
	if err == nil {
		if c.Lease.TTL == 0 { // also what an empty document leaves
			c.Lease.TTL = signalbox.DefaultLeaseTTL
		}
		err = c.validate()
	}
	if err != nil {
		return nil, lineError(text, err)
	}
	return c, nil
}

// settingError is what is wrong with the value of a setting, which is named as in "lease.ttl".
type settingError struct{ setting, fault string }

func (e *settingError) Error() string { return e.setting + ": " + e.fault }

// lineError is an error on one line that says where in the text it is, without the excerpt.
func lineError(text []byte, err error) error {
	if located := (yaml.Error)(nil); errors.As(err, &located) && located.GetToken() != nil {
		at := located.GetToken().Position
		return fmt.Errorf("line %d, column %d: %s", at.Line, at.Column, located.GetMessage())
	}
	wrong := (*settingError)(nil)
	if !errors.As(err, &wrong) { // only times are read without their place, and there is one
		wrong = &settingError{"lease.ttl", "it is not a time such as 90s, 15m or 2h"}
	}
	path, err := yaml.PathString("$." + wrong.setting)
	if err != nil {
		return wrong
	}
	node, err := path.ReadNode(bytes.NewReader(text))
	if err != nil {
		return wrong
	}
	at := node.GetToken().Position
	return fmt.Errorf("line %d, column %d: %w", at.Line, at.Column, wrong)
}

func (c *Config) validate() error {
	if c.Lease.TTL < signalbox.MinLeaseTTL || c.Lease.TTL > signalbox.MaxLeaseTTL {
		return &settingError{"lease.ttl", fmt.Sprintf("%s is not within %s and %s", c.Lease.TTL, signalbox.MinLeaseTTL, signalbox.MaxLeaseTTL)}
	}
	if len(c.Checkpoint.Command) > 0 && c.Checkpoint.Command[0] == "" {
		return &settingError{"checkpoint.command", "the name of the command is empty"}
	}
	if c.Checkpoint.Webhook != "" {
		u, err := url.Parse(c.Checkpoint.Webhook)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return &settingError{"checkpoint.webhook", fmt.Sprintf("%q is not an address that begins with https://", c.Checkpoint.Webhook)}
		}
	}
	return nil
}
