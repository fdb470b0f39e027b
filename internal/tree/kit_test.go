package tree

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// failer is implemented by testing.TB and rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// epoch is the time "@0s" of the tests.
var epoch = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

func answer(st Status) Func { return func(*Call) Status { return st } }

// does returns an action that always gives the same answer.
func does(st Status) *Node { return &Node{Kind: Action, Do: answer(st)} }

// asks returns a condition that always gives the same answer.
func asks(st Status) *Node { return &Node{Kind: Condition, Do: answer(st)} }

func of(kind Kind, children ...*Node) *Node { return &Node{Kind: kind, Children: children} }

// job returns an action that is a job. The tests end it with Finish.
func job(name string) *Node { return &Node{Kind: Action, Name: name, Fn: "job"} }

func noJob(context.Context, Request) Result { panic("jobs of these tests are ended by hand") }

// functions returns a registry with the function of job.
func functions() *Registry {
	r := &Registry{}
	r.Add(Action, "job", Leaf{Job: noJob})
	return r
}

func mustCompile(t failer, def *Definition, functions *Registry) *Tree {
	t.Helper()
	compiled, err := Compile(def, functions)
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	return compiled
}

func mustRun(t failer, compiled *Tree, o *RunOptions) *Run {
	t.Helper()
	r, err := NewRun(compiled, o)
	if err != nil {
		t.Fatalf("new run: %v", err)
	}
	return r
}

// runOf compiles a tree and returns a run of it.
func runOf(t failer, root *Node, keys ...Key) *Run {
	t.Helper()
	return mustRun(t, mustCompile(t, &Definition{Name: "test", Keys: keys, Root: root},
		functions()), &RunOptions{Record: true, Observe: true})
}

func wantStatus(t failer, got, want Status) {
	t.Helper()
	if got != want {
		t.Fatalf("the answer is %s, want %s", got, want)
	}
}

func wantError(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("there is no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error is %q, want %q in it", err, part)
		}
	}
}

// expression parses trees as written in docs/reference/tree-nodes.md.
type expression struct {
	text  string
	names map[string]*expectedLeaf
	subs  []*SubtreeDefinition
	ask   func(*expectedLeaf, *Call) Status
}

// expectedLeaf is a leaf of an expression, with its name and the key that it reads.
type expectedLeaf struct {
	name, key string
	job       bool
}

// parseTree returns the definition of an expression. Its leaves call ask.
func parseTree(text string, ask func(*expectedLeaf, *Call) Status) (def *Definition,
	leaves map[string]*expectedLeaf, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%q cannot be read: %v", text, v)
		}
	}()
	e := &expression{text: text, names: map[string]*expectedLeaf{}, ask: ask}
	root := e.node()
	if e.text != "" {
		panic("there is more: " + e.text)
	}
	keys := []Key{{Name: "list", Type: List}, {Name: "inner", Type: List}, {Name: "n", Type: Any}, {Name: "x", Type: Any}}
	return &Definition{Name: "reference", Keys: keys, Root: root, Subtrees: e.subs}, e.names, nil
}

func (e *expression) word() string {
	e.text = strings.TrimSpace(e.text)
	n := strings.IndexAny(e.text+" ", "()[]{},?! ")
	if n == 0 {
		panic("a word is missing at " + e.text)
	}
	word := e.text[:n]
	e.text = e.text[n:]
	return word
}

func (e *expression) take(s string) bool {
	e.text = strings.TrimSpace(e.text)
	rest, ok := strings.CutPrefix(e.text, s)
	if ok {
		e.text = rest
	}
	return ok
}

// between returns the text between two brackets, if the first one is next.
func (e *expression) between(first, last string) string {
	if !e.take(first) {
		return ""
	}
	inside, rest, ok := strings.Cut(e.text, last)
	if !ok {
		panic("a " + last + " is missing")
	}
	e.text = rest
	return inside
}

func (e *expression) node() *Node {
	word := e.word()
	kind, known := ParseKind(word)
	switch {
	case !known:
		return e.leaf(Action, word)
	case kind == Wait:
		return &Node{Kind: Wait, After: duration(e.between("{", "}"))}
	case kind == Subtree:
		return e.subtree()
	}
	settings := e.between("{", "}")
	if !e.take("(") {
		panic("a ( is missing")
	}
	n := &Node{Kind: kind}
	if kind.IsLeaf() {
		n = e.leaf(kind, e.word())
	} else {
		for {
			n.Children = append(n.Children, e.node())
			if !e.take(",") {
				break
			}
		}
		e.settings(n, settings)
	}
	if !e.take(")") {
		panic("a ) is missing")
	}
	return n
}

// leaf parses a name and its suffixes: ? is a condition, ! a job, [key] the key that it reads and
// writes.
func (e *expression) leaf(kind Kind, name string) *Node {
	l := &expectedLeaf{name: name, job: kind == Tool || kind == LLMCall}
	if e.names[name] != nil {
		panic("two leaves have the name " + name)
	}
	e.names[name] = l
	if e.take("?") {
		kind = Condition
	} else if e.take("!") {
		l.job = true
	}
	l.key = e.between("[", "]")
	n := &Node{Kind: kind, Name: name}
	switch {
	case kind == Tool:
		n.Fn = "job"
	case l.job && kind == Action:
		n.Fn = "job"
	case kind != LLMCall:
		n.Do = func(c *Call) Status { return e.ask(l, c) }
	}
	return n
}

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

func value(text string) any {
	v, err := ParseValue(text)
	if err != nil {
		panic(fmt.Sprintf("%q is not a value: %v", text, err))
	}
	return v
}

// settings parses the text in braces after a kind.
func (e *expression) settings(n *Node, text string) {
	if text == "" {
		return
	}
	parts := strings.Split(text, ", ")
	for i, part := range parts {
		first, rest, _ := strings.Cut(part, " ")
		switch {
		case n.Kind == ForEach && part == "keep_going":
			n.KeepGoing = true
		case n.Kind == ForEach && strings.Contains(part, " in "):
			var item string
			item, n.Items, _ = strings.Cut(part, " in ")
			if i == 1 {
				n.As, n.Index = parts[0], item
			} else {
				n.As = item
			}
		case n.Kind == ForEach: // the item's name, before the index
		case n.Kind == Parallel && first == "max":
			n.MaxConcurrent = number(rest)
		case n.Kind == Parallel:
			n.Require = number(part)
		case first == "until":
			n.Until = map[string]Until{"success": UntilSuccess, "failure": UntilFailure}[rest]
		case n.Kind == Repeat, n.Kind == Retry && i == 0:
			n.Times = number(part)
		default:
			n.After = duration(part)
		}
	}
}

// subtree parses subtree{k=1, p is n}(…): k is a key of the subtree, p a port.
func (e *expression) subtree() *Node {
	sub := &SubtreeDefinition{Name: fmt.Sprintf("part%d", len(e.subs)+1)}
	n := &Node{Kind: Subtree, Uses: sub.Name, Ports: map[string]string{}}
	e.subs = append(e.subs, sub)
	for part := range strings.SplitSeq(e.between("{", "}"), ", ") {
		if key, outer, ok := strings.Cut(part, " is "); ok {
			sub.Ports = append(sub.Ports, Key{Name: key})
			n.Ports[key] = outer
		} else if key, v, ok := strings.Cut(part, "="); ok {
			sub.Keys = append(sub.Keys, Key{Name: key, Default: value(v)})
		}
	}
	if !e.take("(") {
		panic("a ( is missing")
	}
	sub.Root = e.node()
	if !e.take(")") {
		panic("a ) is missing")
	}
	return n
}

// Halt halts every node that is running, as a parent would.
func (r *Run) Halt() {
	r.begin(r.now)
	r.ticks--
	r.halt(0)
	r.status = r.state[0].status
}

// dump returns everything that a run remembers between two ticks, except for results that no tick
// has taken.
func dump(r *Run) string {
	return fmt.Sprintf("%s %d %d %d %d %s %t %v %d\n%+v\n%s\n%s %s %q", r.id, r.ticks, r.step,
		r.now, r.wake, r.status, r.followed, r.topics, r.emits,
		r.state, FormatValue(r.board.Snapshot()), format(r.lists), format(r.payloads), r.errs)
}

func format[V any](values map[int32]V) string {
	texts := map[string]any{}
	for i, v := range values {
		texts[strconv.Itoa(int(i))] = FormatValue(v)
	}
	return FormatValue(texts)
}

// replayed returns a run that replays recorded ticks and then continues.
func replayed(t *Tree, o *RunOptions, log [][]byte) (*Run, error) {
	r, err := NewReplay(t, o)
	if err != nil {
		return nil, err
	}
	for _, line := range log {
		rec, err := ParseRecord(append(slices.Clone(line), '}'))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		if err := r.Replay(rec); err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		if again := r.AppendRecord(nil); !bytes.Equal(line, again) {
			return nil, fmt.Errorf("recorded as\n%s\nand replayed as\n%s", line, again)
		}
	}
	return r, r.Resume(o)
}
