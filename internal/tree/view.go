package tree

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// NodeInfo describes a compiled node.
type NodeInfo struct {
	Index  int
	Parent int // -1 for the root
	Depth  int // 0 for the root
	Kind   Kind
	// Name is the declared one, or "".
	Name string
	// Path identifies the node: the names from the root, or kinds for nodes without one.
	Path string
	// Detail says in a few words how the node is set: "5s", "3 attempts, backoff 1s", "2 of 3", "signal_type_is(expected_type=stuck)".
	Detail      string
	Description string
	At          Position
	Children    []int
}

// View is what can be seen of a node of a run.
type View struct {
	Status Status
	// Visits is how often the node was ticked.
	Visits int
	// Err is why it failed last, if it said so.
	Err string
}

// Name is the tree's name.
func (t *Tree) Name() string { return t.def.Name }

// Description is the tree's description.
func (t *Tree) Description() string { return t.def.Description }

// Keys are those that the definition declares for the tree and beyond it.
func (t *Tree) Keys() []Key { return slices.Concat(t.def.Keys, t.def.Globals) }

// Len is how many nodes there are.
func (t *Tree) Len() int { return len(t.nodes) }

// Info describes a node. The root is 0, and a node stands before its children.
func (t *Tree) Info(i int) NodeInfo {
	m, n := t.meta[i], t.nodes[i]
	info := NodeInfo{Index: i, Parent: int(m.parent), Depth: int(m.depth), Kind: n.kind, Name: m.def.Name, Path: t.path(int32(i)),
		Detail: m.def.detail(), Description: m.def.Description, At: m.def.At}
	if n.kind == Subtree && info.Name == "" {
		info.Name = m.def.Uses
	}
	for c := int32(i) + 1; c < n.end; c = t.nodes[c].end {
		info.Children = append(info.Children, int(c))
	}
	return info
}

// Path is that of Info, for less.
func (t *Tree) Path(i int) string { return t.path(int32(i)) }

// Find returns the node of a path.
func (t *Tree) Find(path string) (int, bool) {
	for i := range t.nodes {
		if t.path(int32(i)) == path {
			return i, true
		}
	}
	return 0, false
}

// path joins the elements from the root to a node.
func (t *Tree) path(i int32) string {
	var elements []string
	for ; i >= 0; i = t.meta[i].parent {
		m := &t.meta[i]
		element := m.def.element()
		if m.nth > 1 {
			element += "#" + strconv.Itoa(int(m.nth))
		}
		elements = append(elements, element)
	}
	slices.Reverse(elements)
	return strings.Join(elements, "/")
}

// detail says how a node is set.
func (n *Node) detail() string {
	switch n.Kind {
	case Timeout, Cooldown, Wait:
		return seconds(n.After)
	case Retry:
		text := counted(n.Times, "attempt")
		if n.After > 0 {
			text += ", backoff " + seconds(n.After)
		}
		return text
	case Repeat:
		switch {
		case n.Until == UntilTimes:
			return counted(n.Times, "time")
		case n.Times > 0:
			return "until " + n.Until.String() + ", at most " + counted(n.Times, "time")
		}
		return "until " + n.Until.String()
	case Parallel:
		text := "all"
		if n.Require > 0 && n.Require < len(n.Children) {
			text = fmt.Sprintf("%d of %d", n.Require, len(n.Children))
		}
		if n.MaxConcurrent > 0 {
			text += fmt.Sprintf(", %d at once", n.MaxConcurrent)
		}
		return text
	case ForEach:
		return n.As + " in " + n.Items
	case Subtree:
		if n.Name == "" && len(n.Ports) == 0 {
			return "" // its name says it
		}
		return bound(n.Uses, n.Ports)
	case Action, Condition, Tool, LLMCall:
		return bound(last(n.Fn), n.Args)
	}
	return ""
}

// seconds writes a duration as people do: 5s, 1.5s, 2m.
func seconds(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func (u Until) String() string {
	switch u {
	case UntilSuccess:
		return "success"
	case UntilFailure:
		return "failure"
	}
	return "times"
}

// bound writes a name with what it is given: f(a=1, b=key).
func bound[V any](name string, given map[string]V) string {
	if len(given) == 0 {
		return name
	}
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(given)) {
		v := shown(any(given[key]))
		text, plain := v.(string)
		if !plain {
			text = FormatValue(v)
		}
		texts = append(texts, key+"="+clip(text, 60))
	}
	return name + "(" + strings.Join(texts, ", ") + ")"
}

// shown writes references as their keys.
func shown(v any) any {
	switch v := v.(type) {
	case Ref:
		return "$" + v.Key
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = shown(v[i])
		}
		return list
	case map[string]any:
		fields := make(map[string]any, len(v))
		for key := range v {
			fields[key] = shown(v[key])
		}
		return fields
	}
	return v
}

// clip shortens a text, at the end of a character.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// Calls returns the name of the function or tool behind a leaf, "" for other nodes.
func (t *Tree) Calls(i int) string { return t.meta[i].def.Fn }
