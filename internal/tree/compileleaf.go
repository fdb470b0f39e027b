package tree

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"signalbox/internal/text"
	"signalbox/internal/tree/blackboard"
)

// leaf compiles an action, condition, script, tool or model call.
func (c *compiler) leaf(n *Node, i int32, scope blackboard.Scope) {
	l := leaf{kind: n.Kind, name: n.Fn, args: n.Args, scope: scope}
	switch {
	case n.Do != nil:
		l.do = n.Do
	case n.Kind == Script:
		c.fault(n.At, "", "script needs a function")
	case n.Kind == Action || n.Kind == Condition:
		known, ok := c.functions.Find(n.Kind, n.Fn)
		if !ok {
			c.unknown(n)
			return
		}
		if n.Kind == Condition && known.Job != nil {
			c.fault(n.At, "make it an action, and check what it wrote",
				"'%s' is a job, and a condition must answer within the tick", n.Fn)
			return
		}
		l.set(known)
		l.args = c.arguments(n, known.Params)
	case n.Kind == Tool && n.Fn == "":
		c.fault(n.At, "", "tool needs the tool's name")
	}
	if key, given := n.Args["response_key"].(string); given && n.Kind == LLMCall {
		if _, known := c.tree.layout.Lookup(scope, key); !known && !blackboard.Hidden(key) {
			c.fault(n.At, "declare it in blackboard", "the reply goes to %v '%s'", ErrUndeclared,
				key)
		}
	}
	c.checkRefs(n, scope)
	c.tree.nodes[i].aux = int32(len(c.tree.leaves))
	c.tree.leaves = append(c.tree.leaves, l)
}

func (c *compiler) unknown(n *Node) {
	other, word := Action, "action"
	if n.Kind == Action {
		other, word = Condition, "condition"
	}
	if _, ok := c.functions.Find(other, n.Fn); ok {
		c.fault(n.At, fmt.Sprintf("use BT.%s", other), "'%s' is a function for %s, not for %s",
			n.Fn, word, n.Kind)
		return
	}
	c.faultNear(n.At, "function", lastElement(n.Fn),
		func() []string { return c.functions.Names(n.Kind) }, "unknown function '%s'", n.Fn)
}

// missing reports a tool or model that a run does not have.
func (c *compiler) missing(n *Node, services *Registry) {
	if n.Kind == LLMCall {
		c.fault(n.At, "give it one", "the tree calls a model, and none is configured")
		return
	}
	c.faultNear(n.At, "tool", lastElement(n.Fn), func() []string { return services.Names(Tool) },
		"unknown tool '%s'", n.Fn)
}

// arguments checks the arguments of a leaf and adds the defaults of those that are not given.
func (c *compiler) arguments(n *Node, declared []Param) map[string]any {
	if declared == nil {
		return n.Args
	}
	args := map[string]any{}
	for _, p := range declared {
		v, given := n.Args[p.Name]
		if _, ref := v.(Ref); ref {
			args[p.Name] = v
			continue
		}
		switch kept, err := p.Type.Check(v); {
		case p.Required && (!given || v == nil):
			c.fault(n.At, fmt.Sprintf("args = {%s = …}", p.Name), "%s needs the argument '%s'",
				n.Fn, p.Name)
		case err != nil:
			c.fault(n.At, "", "argument '%s' of %s: %v", p.Name, n.Fn, err)
		case given:
			args[p.Name] = kept
		case p.Default != nil:
			args[p.Name] = p.Default
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.Args)) {
		if !slices.ContainsFunc(declared, func(p Param) bool { return p.Name == name }) {
			names := func() (names []string) {
				for _, p := range declared {
					names = append(names, p.Name)
				}
				return names
			}
			c.faultNear(n.At, "argument", name, names, "%s has no argument '%s'", n.Fn, name)
		}
	}
	return args
}

// checkRefs checks that the keys exist to which arguments refer.
func (c *compiler) checkRefs(n *Node, scope blackboard.Scope) {
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case Ref:
			if _, known := c.tree.layout.Lookup(scope, v.Key); !known && !blackboard.Hidden(v.Key) {
				c.fault(n.At, "declare it in blackboard", "an argument of %s refers to %v '%s'",
					n.element(), ErrUndeclared, v.Key)
			}
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			for _, item := range v {
				walk(item)
			}
		}
	}
	walk(map[string]any(n.Args))
}

// suggest returns a hint that names the most similar known name.
func suggest(what, name string, known []string) string {
	best, distance := "", max(2, len(name)/3)+1
	slices.Sort(known)
	for _, k := range known {
		if d := text.EditDistance(strings.ToLower(name), strings.ToLower(k)); d < distance {
			best, distance = k, d
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf("did you mean '%s'?", best)
	case len(known) == 0:
		return fmt.Sprintf("no %s is defined", what)
	case len(known) <= 20:
		return fmt.Sprintf("known: %s", strings.Join(known, ", "))
	}
	return ""
}
