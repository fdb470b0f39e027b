package contain

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"signalbox/internal/config"
	"signalbox/internal/process"
	"signalbox/internal/sandbox"
)

// Explanation is what a program may do, for people.
type Explanation struct {
	Name string `json:"name"`
	// Check and Environment are those of a check; "" for other programs.
	Check       string `json:"check,omitempty"`
	Environment string `json:"environment,omitempty"`

	Mode    sandbox.Mode `json:"mode"`
	Network string       `json:"network"`
	Write   []Grant      `json:"write,omitempty"`
	Read    []Grant      `json:"read,omitempty"`
	// Fixed and Hidden are those of the policy.
	Fixed  []string `json:"fixed,omitempty"`
	Hidden []string `json:"hidden,omitempty"`
	// Variables are the names of the variables that it gets from the environment of signalbox, and
	// Set those that signalbox sets.
	Variables []string `json:"variables,omitempty"`
	Set       []string `json:"set,omitempty"`
	// Stripped are the variables that it gets without the user and the password in them.
	Stripped []string       `json:"stripped,omitempty"`
	Limits   sandbox.Limits `json:"limits,omitzero"`
	// Layers are what enforces it, and Open what remains possible although it is not allowed.
	Layers string   `json:"layers,omitempty"`
	Open   []string `json:"open,omitempty"`
	// Refused is why it would not be started here.
	Refused string `json:"refused,omitempty"`
	// Note says why there is no sandbox, if it is not because of the mode in the configuration.
	Note string `json:"note,omitempty"`
}

// Explain returns what a program may do on a system.
func (p *Program) Explain(name string, s sandbox.Support) Explanation {
	policy := p.Policy
	e := Explanation{Name: name, Mode: policy.Mode, Network: s.Network(policy), Fixed: policy.Fixed,
		Hidden: policy.Hidden, Limits: policy.Limits,
		Variables: variables(p.Base), Set: variables(p.Env), Stripped: p.stripped,
		Open: append(s.Open(policy), process.MissingLimits(policy.Limits)...)}
	if policy.Restricted() {
		e.Layers = s.String()
	}
	if s.Forwards(policy) { // then the proxy is used outside
		e.Variables = slices.DeleteFunc(e.Variables, process.IsProxyVariable)
	}
	if policy.Temp != "" {
		e.Write = append(e.Write, Grant{"temporary files", true, []string{policy.Temp}})
	}
	for _, g := range p.Grants {
		if g.Write {
			e.Write = merge(e.Write, g)
		} else {
			e.Read = merge(e.Read, g)
		}
	}
	if err := s.Check(policy); err != nil {
		e.Refused = err.Error()
	}
	return e
}

// GroupChecks returns explanations with a common one for all checks that may do the same.
func GroupChecks(all []Explanation) (grouped []Explanation) {
	same := func(a, b Explanation) bool {
		a.Name, a.Check, a.Environment = b.Name, b.Check, b.Environment
		return reflect.DeepEqual(a, b)
	}
	var groups [][]Explanation
	for _, e := range all {
		i := slices.IndexFunc(groups,
			func(group []Explanation) bool { return e.Check != "" && group[0].Check != "" && same(e, group[0]) })
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], e)
	}
	for _, group := range groups {
		e := group[0]
		if len(group) > 1 {
			e.Name = "checks " + checkNames(group)
		}
		grouped = append(grouped, e)
	}
	return grouped
}

// checkNames returns the names of checks, by their environments.
func checkNames(checks []Explanation) string {
	var environments []string
	named := map[string][]string{}
	for _, e := range checks {
		if named[e.Environment] == nil {
			environments = append(environments, e.Environment)
		}
		named[e.Environment] = append(named[e.Environment], e.Check)
	}
	var parts []string
	for _, environment := range environments {
		parts = append(parts, strings.Join(named[environment], ", ")+" in "+environment)
	}
	return strings.Join(parts, "; ")
}

// merge adds a grant to the one with the same name, if there is one.
func merge(all []Grant, g Grant) []Grant {
	for i := range all {
		if all[i].What == g.What {
			for _, name := range g.Paths {
				if !slices.Contains(all[i].Paths, name) {
					all[i].Paths = append(all[i].Paths, name)
				}
			}
			return all
		}
	}
	return append(all, Grant{g.What, g.Write, slices.Clone(g.Paths)})
}

func variables(environ []string) (names []string) {
	for _, entry := range environ {
		names = append(names, nameOf(entry))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// maxPaths is how many paths Text shows for each grant.
const maxPaths = 12

// Text returns the explanation as lines.
func (e Explanation) Text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s: sandbox %s", e.Name, e.Mode)
	if e.Note != "" {
		line("  %s", e.Note)
	}
	if e.Refused != "" {
		line("  does not start here: %s", e.Refused)
	}
	if e.Layers != "" {
		line("  enforced by %s", e.Layers)
		line("  network: %s", e.Network)
	}
	for _, part := range []struct {
		title  string
		grants []Grant
	}{{"may change", e.Write}, {"may read", e.Read}} {
		if len(part.grants) > 0 {
			line("  %s:", part.title)
		}
		for _, g := range part.grants {
			shown, more := g.Paths[:min(len(g.Paths), maxPaths)], ""
			if n := len(g.Paths) - len(shown); n > 0 {
				more = fmt.Sprintf(" and %d more", n)
			}
			line("    %s: %s%s", g.What, strings.Join(shown, " "), more)
		}
	}
	for _, part := range []struct {
		title string
		items []string
	}{{"may not change", e.Fixed}, {"hidden", e.Hidden}, {"variables from your environment", e.Variables}, {"variables that signalbox sets", e.Set},
		{"without the user and password in them", e.Stripped}} {
		if len(part.items) > 0 {
			line("  %s: %s", part.title, strings.Join(part.items, " "))
		}
	}
	if e.Limits != (sandbox.Limits{}) {
		line("  limits:%s", limitsText(e.Limits))
	}
	if len(e.Open) > 0 {
		line("  what remains possible:")
	}
	for _, open := range e.Open {
		line("    %s", open)
	}
	return b.String()
}

func limitsText(l sandbox.Limits) (text string) {
	if l.Memory > 0 {
		text += fmt.Sprintf(" memory %s", config.Size(l.Memory))
	}
	if l.Processes > 0 {
		text += fmt.Sprintf(" processes %d", l.Processes)
	}
	if l.CPU > 0 {
		text += fmt.Sprintf(" cores %s", config.Cores(l.CPU))
	}
	return text
}
