package tree

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox/internal/text"
)

// NodeInfo describes a compiled node.
type NodeInfo struct {
	Index  int
	Parent int // -1 for the root
	Depth  int // 0 for the root
	Kind   Kind
	// Name is the declared name, or "".
	Name string
	// Path identifies the node: the names of the nodes from the root, or their kinds if they have
	// none.
	Path string
	// Detail describes the options of the node: "5s", "3 attempts, backoff 1s", "2 of 3",
	// "signal_type_is(expected_type=stuck)".
	Detail      string
	Description string
	At          Position
	Children    []int
}

// View is the visible state of a node of a run.
type View struct {
	Status Status
	// Visits is the number of times the node was ticked.
	Visits int
	// Err is the reason of the last failure, if it gave one.
	Err string
}

// Name returns the name of the tree.
func (t *Tree) Name() string { return t.def.Name }

// Description returns the description of the tree.
func (t *Tree) Description() string { return t.def.Description }

// Keys returns the keys of the tree and the global keys.
func (t *Tree) Keys() []Key { return slices.Concat(t.def.Keys, t.def.Globals) }

// Len returns the number of nodes.
func (t *Tree) Len() int { return len(t.nodes) }

// Info describes node i. The root is node 0, and a node precedes its children.
func (t *Tree) Info(i int) NodeInfo {
	m, n := t.meta[i], t.nodes[i]
	info := NodeInfo{Index: i, Parent: int(m.parent), Depth: int(m.depth), Kind: n.kind,
		Name: m.def.Name, Path: t.path(int32(i)),
		Detail: m.def.detail(), Description: m.def.Description, At: m.def.At}
	if n.kind == Subtree && info.Name == "" {
		info.Name = m.def.Uses
	}
	for c := int32(i) + 1; c < n.end; c = t.nodes[c].end {
		info.Children = append(info.Children, int(c))
	}
	return info
}

// Kind returns the kind of node i. It is cheaper than Info.
func (t *Tree) Kind(i int) Kind { return t.nodes[i].kind }

// Path returns the path of node i. It is cheaper than Info.
func (t *Tree) Path(i int) string { return t.path(int32(i)) }

// Find returns the node with a path.
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

// detail describes the options of a node.
func (n *Node) detail() string {
	switch n.Kind {
	case Timeout, Cooldown, Wait:
		return formatDuration(n.After)
	case Retry:
		detail := text.Count(n.Times, "attempt")
		if n.After > 0 {
			detail += ", backoff " + formatDuration(n.After)
		}
		return detail
	case Repeat:
		switch {
		case n.Until == UntilTimes:
			return text.Count(n.Times, "time")
		case n.Times > 0:
			return "until " + n.Until.String() + ", at most " + text.Count(n.Times, "time")
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
			return "" // the same as its name
		}
		return formatCall(n.Uses, n.Ports)
	case Action, Condition, Tool, LLMCall:
		return formatCall(lastElement(n.Fn), n.Args)
	}
	return ""
}

// formatDuration formats a duration without zero units: 5s, 1.5s, 2m.
func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
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

// formatCall formats a name with its arguments: f(a=1, b=$key).
func formatCall[V any](name string, given map[string]V) string {
	if len(given) == 0 {
		return name
	}
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(given)) {
		v := shown(any(given[key]))
		value, plain := v.(string)
		if !plain {
			value = FormatValue(v)
		}
		texts = append(texts, key+"="+text.Shorten(value, 60))
	}
	return name + "(" + strings.Join(texts, ", ") + ")"
}

// shown replaces references by their keys.
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

// Calls returns the name of the function or tool behind a leaf, "" for other nodes.
func (t *Tree) Calls(i int) string { return t.meta[i].def.Fn }

// Tools returns the names of the tools that the tree calls, sorted.
func (t *Tree) Tools() []string {
	names := map[string]bool{}
	for i := range t.meta {
		if t.meta[i].def.Kind == Tool {
			names[t.Calls(i)] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// CallsModel reports whether the tree calls a model.
func (t *Tree) CallsModel() bool {
	return slices.ContainsFunc(t.meta, func(m meta) bool { return m.def.Kind == LLMCall })
}
