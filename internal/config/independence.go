package config

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"signalbox"
)

// Values of Config.Independence.
const (
	IndependenceVendor = "vendor"
	IndependenceModel  = "model"
	IndependenceNone   = "none"
)

// modelVendors are patterns for the names of models, with their vendors.
var modelVendors = [][2]string{{"claude-*", "anthropic"}, {"gpt-*", "openai"},
	{"chatgpt-*", "openai"}, {"codex-*", "openai"}, {"o[0-9]*", "openai"}, {"gemini-*", "google"}}

// presetVendors are the vendors of the programs that use the models of one vendor.
var presetVendors = map[string]string{PresetClaude: "anthropic", PresetCodex: "openai",
	PresetGemini: "google"}

// modelVendor returns the vendor of a model, "" if its name does not say. A provider in front of
// the name, as in openai/gpt-5 and azure:gpt-5, is not the vendor.
func modelVendor(model string) string {
	name := strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	_, behind, _ := strings.Cut(name, ":")
	for _, known := range modelVendors {
		matches, _ := path.Match(known[0], name)
		if again, _ := path.Match(known[0], behind); matches || again {
			return known[1]
		}
	}
	return ""
}

// VendorOf returns the vendor of the model that an agent uses, "" if it is not known: that of the
// model that its program has reported, if its name says, or else what is configured. With another
// server, a program does not tell whose model answers.
func (c *Config) VendorOf(name, reported string) string {
	a := c.AgentNamed(name)
	configured := a.Model
	if a.Tree != "" {
		if _, m, err := c.OracleModel(a.Model); err == nil {
			configured = m.Model
		}
	}
	if vendor := modelVendor(reported); vendor != "" {
		return vendor
	}
	if a.Vendor != "" {
		return strings.ToLower(a.Vendor)
	}
	if vendor := modelVendor(configured); vendor != "" || a.BaseURL != "" {
		return vendor
	}
	return presetVendors[a.Preset]
}

// NamesAgent reports whether the configuration names agents for a role.
func (c *Config) NamesAgent(role signalbox.Role) bool { return len(c.Roles[role].Agent) > 0 }

// EffectiveIndependence returns how much critics and auditors must differ from the author. By
// default it is IndependenceVendor if that is possible whichever developer wrote the work.
func (c *Config) EffectiveIndependence() string {
	switch {
	case c.Independence != "":
		return c.Independence
	case len(c.exempt()) < len(judges) && len(c.dependent()) == 0:
		return IndependenceVendor
	}
	return IndependenceNone
}

var judges = []signalbox.Role{signalbox.RoleCritic, signalbox.RoleAuditor}

// exempt returns the roles that judge and for which the configuration names agents.
func (c *Config) exempt() []signalbox.Role {
	return slices.DeleteFunc(slices.Clone(judges),
		func(role signalbox.Role) bool { return !c.NamesAgent(role) })
}

// dependent returns the developers whose work no agent of some role could judge, because each agent
// of that role comes from the same vendor, or uses the same model if that is what must differ.
func (c *Config) dependent() (list []string) {
	for _, author := range c.AgentsFor(signalbox.RoleDeveloper, "") {
		for _, role := range judges {
			if c.NamesAgent(role) || slices.Contains(list, author) ||
				slices.ContainsFunc(c.AgentsFor(role, ""), func(name string) bool {
					return c.couldJudge(name, author)
				}) {
				continue
			}
			list = append(list, author)
		}
	}
	return list
}

// couldJudge reports whether an agent may be independent of an author, as far as the configuration
// says. The program of an author reports its model; one that has not worked yet has none.
func (c *Config) couldJudge(judge, author string) bool {
	model := c.AgentNamed(judge).Model
	if c.Independence == IndependenceModel && model != "" && judge != author {
		same, known := signalbox.SameModel(model, c.AgentNamed(author).Model)
		if known {
			return !same
		}
		if _, named := signalbox.SameModel(model, model); named {
			return c.AgentNamed(author).Model == "" || c.otherVendor(author, judge)
		}
	}
	return c.otherVendor(author, judge)
}

func (c *Config) otherVendor(a, b string) bool {
	one, other := c.VendorOf(a, ""), c.VendorOf(b, "")
	return one != "" && other != "" && one != other
}

// DescribeIndependence describes which agents may judge work, with a hint. fails means that work
// could wait forever.
func (c *Config) DescribeIndependence() (text, hint string, fails bool) {
	value := c.EffectiveIndependence()
	text = value + ": the critic and the auditor are of another " + value + " than the author"
	dependent := c.dependent()
	for _, name := range dependent {
		if c.VendorOf(name, "") == "" {
			hint = fmt.Sprintf("set agents.%s.vendor: only then it is known whose model it uses",
				name)
		}
	}
	if len(dependent) > 0 && (hint == "" || value == IndependenceModel) {
		hint = "name agents of two vendors, as in agent: [claude, codex]"
	}
	if value == IndependenceModel {
		hint += ", or agents with two models, under agents.NAME.model"
	}
	switch {
	case value == IndependenceNone && c.Independence == "" && len(c.exempt()) < len(judges):
		return "none: no other vendor judges what " + strings.Join(dependent, ", ") +
			" writes; " + hint, "", false
	case value == IndependenceNone:
		text = "none: the critic and the auditor may be of the same vendor as the author"
	case len(dependent) > 0:
		return fmt.Sprintf("%s: no agent of another %s can judge what %s writes, so that it would "+
				"wait", value, value, strings.Join(dependent, ", ")),
			hint + ", or write independence: none", true
	}
	return text + c.namedAnyway(), "", false
}

// namedAnyway lists the agents that judge work of their own vendor because they are named for their
// role.
func (c *Config) namedAnyway() string {
	var named []string
	for _, role := range c.exempt() {
		for _, name := range c.AgentsFor(role, "") {
			if slices.ContainsFunc(c.AgentsFor(signalbox.RoleDeveloper, ""),
				func(author string) bool { return !c.otherVendor(author, name) }) {
				named = append(named, fmt.Sprintf("%s as %s", name, role))
			}
		}
	}
	if len(named) == 0 {
		return ""
	}
	return "; " + strings.Join(named, " and ") +
		" may judge what the same vendor wrote, because roles names the agent"
}
