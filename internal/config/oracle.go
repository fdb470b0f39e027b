package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox"
)

// Providers of models: the wire protocols.
const (
	ProviderOpenAI    = "openai" // OpenAI or a compatible server
	ProviderAnthropic = "anthropic"
)

// Defaults of a model.
const (
	DefaultMaxTokens    = 8192
	DefaultModelTimeout = 2 * time.Minute
	DefaultTries        = 5
)

// Model is a language model on a server.
type Model struct {
	// Provider is ProviderOpenAI or ProviderAnthropic.
	Provider string `yaml:"provider"`
	// Model is its name on the server.
	Model string `yaml:"model"`
	// BaseURL is the address of the server. Empty means the provider's own.
	BaseURL string `yaml:"base_url"`
	// KeyEnv is the environment variable with the key. The key itself is never in the file.
	KeyEnv string `yaml:"key_env"`
	// MaxTokens limits one reply.
	MaxTokens int `yaml:"max_tokens"`
	// LimitName is the server's name for that limit, one of limitNames. Empty means the usual one
	// of the provider.
	LimitName string `yaml:"max_tokens_name"`
	// Timeout is how long a connection may be silent before it counts as lost.
	Timeout time.Duration `yaml:"timeout"`
	// Tries is the number of attempts to get a reply.
	Tries int `yaml:"tries"`
	// Price is nil if it is unknown. Then cost is not counted.
	Price *Price `yaml:"price"`
}

// Price is the price of a million tokens, in millionths of a dollar: n tokens cost
// n*InputMicros/1e6 millionths.
type Price struct {
	InputMicros  int64 `yaml:"input" unit:"dollars"`
	OutputMicros int64 `yaml:"output" unit:"dollars"`
	// CachedMicros is the price of input that the server had cached. The default is InputMicros.
	CachedMicros int64 `yaml:"cached" unit:"dollars"`
}

// Oracle configures the oracle. In the text, Code, Notes and Portfolio are relative to the project,
// which is the folder that contains the box, and the other paths to the folder of the box. Load
// resolves them.
type Oracle struct {
	// Model is a key of Config.Models. Empty means the only one. OracleModel resolves it.
	Model string `yaml:"model"`
	// Tree is a file with the behaviour tree that decides its turns. Empty means the built-in one.
	Tree string `yaml:"tree"`
	// Code is the folder that it may search and read. Empty means the project.
	Code string `yaml:"code"`
	// Notes is a folder with Markdown files. Empty means none.
	Notes string `yaml:"notes"`
	// Portfolio is a folder with PortfolioFile. Empty means none.
	Portfolio string `yaml:"portfolio"`
	// Prompts is a folder with prompt segments that replace built-in ones of the same name. Empty
	// means none.
	Prompts string `yaml:"prompts"`
	// Words is a file with the words that show what a question is about. Empty means the built-in
	// one.
	Words  string       `yaml:"words"`
	Limits OracleLimits `yaml:"limits"`
	// ToolTimeout is the timeout of tools without one.
	ToolTimeout time.Duration `yaml:"tool_timeout"`
	// Servers are the MCP servers, Tools the shell commands, and Subagents the other trees that it
	// may use, by name.
	Servers   map[string]Server      `yaml:"servers"`
	Tools     map[string]CommandTool `yaml:"tools"`
	Subagents map[string]Subagent    `yaml:"subagents"`
	// Workarounds map a capability that the model may lack to what it should do instead.
	Workarounds map[string]string `yaml:"workarounds"`
}

// OracleLimits limit one question. Zero means no limit, except for Turns.
type OracleLimits struct {
	Turns      int           `yaml:"turns"`
	Tokens     int64         `yaml:"tokens"`
	CostMicros int64         `yaml:"cost" unit:"dollars"` // millionths of a dollar
	Time       time.Duration `yaml:"time"`
}

// Server is an MCP server: a program, or an address.
type Server struct {
	// Command is the program and its arguments, run without a shell. It is nil if URL is set.
	Command []string `yaml:"command"`
	// Env is added to the environment of the program. ${NAME} in its values and in those of Headers
	// is an environment variable; Resolved replaces it.
	Env map[string]string `yaml:"env"`
	// URL is the address of a server. Headers are sent with every request.
	URL     string            `yaml:"url"`
	Headers map[string]string `yaml:"headers"`
	// Tools are the tools that may be used. Empty means all.
	Tools   []string      `yaml:"tools"`
	Limits  ServerLimits  `yaml:"limits"`
	Timeout time.Duration `yaml:"timeout"`
}

// ServerLimits bound what the tools of a server add to every request to a model. The lengths are in
// bytes.
type ServerLimits struct {
	Tools       int `yaml:"tools"`
	Description int `yaml:"description"`
	Schema      int `yaml:"schema"`
	Total       int `yaml:"total"`
}

// CommandTool is a shell command that the model may call.
type CommandTool struct {
	// Command runs in a shell.
	Command     string `yaml:"command"`
	Description string `yaml:"description"`
	// Parameters is the JSON schema of an object.
	Parameters json.RawMessage `yaml:"parameters"`
	// ReadOnly reports whether running it again changes nothing.
	ReadOnly bool          `yaml:"read_only"`
	Timeout  time.Duration `yaml:"timeout"`
	// EnvPass is added to Config.EnvPass.
	EnvPass []string `yaml:"env_pass"`
	Sandbox Sandbox  `yaml:"sandbox"`
}

// Subagent is another tree that can answer a part of the question.
type Subagent struct {
	// Tree is a file, like Oracle.Tree.
	Tree string `yaml:"tree"`
	// Model is a key of Config.Models. Empty means the oracle's model.
	Model       string `yaml:"model"`
	Description string `yaml:"description"`
}

// noParameters is the schema of a tool without parameters.
const noParameters = `{"type":"object","properties":{}}`

func defaultOracle() Oracle {
	return Oracle{Limits: OracleLimits{Turns: 30}, ToolTimeout: time.Minute}
}

// missing marks a price that is not set, which is not valid.
const missing = -1

// fillOracle sets the defaults of models, and of the oracle's servers and tools.
func (c *Config) fillOracle(set places) {
	for name, m := range c.Models {
		at := setting("models", name)
		setUnless(set, at.field("max_tokens"), &m.MaxTokens, DefaultMaxTokens)
		setUnless(set, at.field("timeout"), &m.Timeout, DefaultModelTimeout)
		setUnless(set, at.field("tries"), &m.Tries, DefaultTries)
		if m.Price != nil {
			setUnless(set, at.field("price").field("input"), &m.Price.InputMicros, missing)
			setUnless(set, at.field("price").field("output"), &m.Price.OutputMicros, missing)
			setUnless(set, at.field("price").field("cached"), &m.Price.CachedMicros,
				m.Price.InputMicros)
		}
		m.KeyEnv = orDefault(m.KeyEnv, m.defaultKeyEnv())
		c.Models[name] = m
	}
	for pattern, price := range c.Prices {
		at := setting("prices", pattern)
		setUnless(set, at.field("input"), &price.InputMicros, missing)
		setUnless(set, at.field("output"), &price.OutputMicros, missing)
		setUnless(set, at.field("cached"), &price.CachedMicros, price.InputMicros)
		c.Prices[pattern] = price
	}
	for name, s := range c.Oracle.Servers {
		at := setting("oracle", "servers", name)
		setUnless(set, at.field("timeout"), &s.Timeout, c.Oracle.ToolTimeout)
		setUnless(set, at.field("limits").field("tools"), &s.Limits.Tools, 100)
		setUnless(set, at.field("limits").field("description"), &s.Limits.Description, 2<<10)
		setUnless(set, at.field("limits").field("schema"), &s.Limits.Schema, 16<<10)
		setUnless(set, at.field("limits").field("total"), &s.Limits.Total, 64<<10)
		c.Oracle.Servers[name] = s
	}
	for name, t := range c.Oracle.Tools {
		at := setting("oracle", "tools", name)
		setUnless(set, at.field("timeout"), &t.Timeout, c.Oracle.ToolTimeout)
		setUnless(set, at.field("parameters"), &t.Parameters, json.RawMessage(noParameters))
		c.Oracle.Tools[name] = t
	}
}

func (m Model) defaultKeyEnv() string {
	if m.Provider == ProviderAnthropic {
		return "ANTHROPIC_API_KEY"
	}
	return "OPENAI_API_KEY"
}

// unknownHint helps users who try to write the key itself.
func (Model) unknownHint(name string) string {
	if name = strings.ToLower(name); strings.Contains(name, "key") ||
		strings.Contains(name, "secret") || strings.HasSuffix(name, "token") {
		return "do not write keys here; set key_env to the name of the environment variable that has the key"
	}
	return ""
}

// OracleModel resolves the name of a model. An empty name means the oracle's model, or the only one
// if the oracle does not name one; agents and sub-agents with a tree that do not name a model use
// it too.
func (c *Config) OracleModel(name string) (string, Model, error) {
	name, wrong := c.modelNamed(name)
	if wrong != nil {
		return "", Model{}, signalbox.CodeUsage.Errorf(wrong.hint, "%s", oneLine(wrong.fault))
	}
	return name, c.Models[name], nil
}

// modelNamed is OracleModel without the model. Its error has no path.
func (c *Config) modelNamed(name string) (string, *settingError) {
	name = orDefault(name, c.Oracle.Model)
	known := sortedKeys(c.Models)
	switch {
	case len(known) == 0:
		return "", &settingError{fault: "no model is configured", hint: fmt.Sprintf(
			"add models: {%s: {provider: openai, model: gpt-5}} to %s and set OPENAI_API_KEY; "+
				"for a local server, set base_url instead, such as http://127.0.0.1:11434/v1",
			orDefault(name, "main"), FileName)}
	case name == "" && len(known) == 1:
		return known[0], nil
	case name == "":
		return "", &settingError{fault: fmt.Sprintf(
			"there are %d models, and oracle.model does not name one", len(known)),
			hint: fmt.Sprintf("add oracle: {model: %s} to %s, or use --model; the models are %s",
				known[0], FileName, list(known))}
	case !slices.Contains(known, name):
		return "", &settingError{fault: fmt.Sprintf("there is no model %q", name),
			among: setting("models"), hint: suggest(name, known, "add it under models, or use one of")}
	}
	return name, nil
}

// Resolved returns the server with the variables in Env and Headers replaced. lookup is like
// os.LookupEnv. It is an error if a variable is not set.
func (s Server) Resolved(lookup func(string) (string, bool)) (Server, error) {
	var err error
	if s.Env, err = resolved(s.Env, lookup); err != nil {
		return Server{}, fmt.Errorf("env.%w", err)
	}
	if s.Headers, err = resolved(s.Headers, lookup); err != nil {
		return Server{}, fmt.Errorf("headers.%w", err)
	}
	return s, nil
}

// Variables returns the names of the environment variables that the settings of a server refer to.
func (s Server) Variables() (names []string) {
	note := func(name string) (string, bool) {
		names = append(names, name)
		return name, true // not empty, so that expanding continues
	}
	for _, values := range []map[string]string{s.Env, s.Headers} {
		_, _ = resolved(values, note)
	}
	return names
}

func resolved(values map[string]string,
	lookup func(string) (string, bool)) (map[string]string, error) {
	if values == nil {
		return nil, nil
	}
	all := make(map[string]string, len(values))
	for _, name := range sortedKeys(values) {
		text, fault, hint := expand(values[name], lookup)
		if fault != "" {
			return nil, signalbox.CodeUsage.Errorf(hint, "%s: %s", name, fault)
		}
		all[name] = text
	}
	return all, nil
}

// expand replaces ${NAME} by the value of the variable. Any other $ is literal.
func expand(text string, lookup func(string) (string, bool)) (expanded, fault, hint string) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String(), "", ""
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed || !variableName(name) {
			return "", "${ is not followed by the name of a variable",
				"write ${NAME}, with letters, digits and _ between the braces"
		}
		value, ok := lookup(name)
		if !ok {
			return "", fmt.Sprintf("the environment variable %s is not set", name),
				fmt.Sprintf("set %s before you start signalbox", name)
		}
		b.WriteString(value)
		text = after
	}
}

func variableName(name string) bool {
	for i, r := range name {
		if r != '_' && !(r >= 'a' && r <= 'z') && !(r >= 'A' && r <= 'Z') &&
			!(i > 0 && r >= '0' && r <= '9') {
			return false
		}
	}
	return name != ""
}
