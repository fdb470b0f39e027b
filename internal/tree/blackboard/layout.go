package blackboard

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Layout says which keys there are and who sees them.
type Layout struct {
	declared []declared
	scopes   []scope
	// size is what all defaults count.
	size int
}

// Scope is a part of a tree in which the same keys are seen.
type Scope int32

// TreeScope is the scope of the tree itself, in which global keys are too.
const TreeScope Scope = 0

// Slot is the place of a key on the boards of a layout. Slots are given in the order of declaration, from 0.
type Slot int32

type declared struct {
	Key
	scope Scope
	// path is where the key belongs, "" for the tree's keys and global ones.
	path   string
	global bool
	// builtin is a key that nobody declared but NewLayout.
	builtin bool
}

// scope has a map only of its own names: a tree may use subtrees a hundred thousand times, and each use is a scope.
type scope struct {
	own  map[string]Slot
	sees Scope
}

// Builtins are the keys by which the signal actions, model calls and tools speak with a tree.
func Builtins() []Key {
	return []Key{
		{Name: "last_signal", Type: Signal},
		{Name: "signals_emitted", Type: List, Default: []any{}},
		{Name: "consecutive_same_reason", Type: Int, Default: int64(0)},
		{Name: "turns_without_signal", Type: Int, Default: int64(0)},
		{Name: "accumulated_content", Type: String},
		{Name: "llm_request", Type: Any},
		{Name: "llm_response", Type: String},
		{Name: "tool_results", Type: List, Default: []any{}},
	}
}

// NewLayout returns a layout with the tree's scope, in which the keys are declared that every tree has.
func NewLayout() *Layout {
	l := &Layout{scopes: []scope{{sees: -1}}}
	for _, key := range Builtins() {
		l.add(TreeScope, declared{Key: key, builtin: true})
	}
	return l
}

// Clone returns a layout that can be added to without changing this one.
func (l *Layout) Clone() *Layout {
	c := &Layout{slices.Clone(l.declared), slices.Clone(l.scopes), l.size}
	for i := range c.scopes {
		c.scopes[i].own = maps.Clone(c.scopes[i].own)
	}
	return c
}

// Open adds a scope in which all is seen that another sees.
func (l *Layout) Open(sees Scope) Scope {
	l.scopes = append(l.scopes, scope{sees: sees})
	return Scope(len(l.scopes) - 1)
}

// Declare adds a key to a scope, where it hides one of the same name outside. path is put before its name in snapshots. A
// key may be declared again with the same type, and then has the later default if there is one; but no key is both a
// global one and the tree's.
func (l *Layout) Declare(in Scope, key Key, path string, global bool) (Slot, error) {
	key, err := Normal(key)
	if err != nil {
		return 0, err
	}
	return l.DeclareNormal(in, key, path, global)
}

// Normal checks a key and returns it with its default as a board keeps it.
func Normal(key Key) (Key, error) {
	if !ValidName(key.Name) {
		return key, fmt.Errorf("%q is no name for a key: %s", key.Name, NameRule)
	}
	value, err := key.Type.Check(key.Default)
	if err != nil {
		return key, fmt.Errorf("the default of key '%s' does not fit: %w", key.Name, err)
	}
	key.Default = value
	return key, nil
}

// ErrDefaults is a declaration whose default makes all of them larger than a board may be.
var ErrDefaults = fmt.Errorf("the defaults of all keys are larger than %d bytes", MaxBoard)

// DeclareNormal is Declare for what Normal returned. All declarations of one key share its default.
func (l *Layout) DeclareNormal(in Scope, key Key, path string, global bool) (Slot, error) {
	if l.size += Size(key.Default); l.size > MaxBoard {
		return 0, fmt.Errorf("key '%s': %w", key.Name, ErrDefaults)
	}
	slot, known := l.scopes[in].own[key.Name]
	if !known {
		return l.add(in, declared{Key: key, scope: in, path: path, global: global}), nil
	}
	old := &l.declared[slot]
	switch {
	case old.global != global && !old.builtin:
		return 0, fmt.Errorf("key '%s' is declared twice, in blackboard and in globals", key.Name)
	case old.Type != key.Type:
		return 0, fmt.Errorf("key '%s' is declared twice, as %s and as %s", key.Name, old.Type.WithArticle(), key.Type.WithArticle())
	}
	if key.Default != nil {
		old.Default = key.Default
	}
	old.global, old.builtin = global, false
	return slot, nil
}

func (l *Layout) add(in Scope, d declared) Slot {
	slot := Slot(len(l.declared))
	l.declared = append(l.declared, d)
	l.Alias(in, d.Name, slot)
	return slot
}

// Alias lets a name of a scope stand for a key that is declared elsewhere.
func (l *Layout) Alias(in Scope, name string, slot Slot) {
	if l.scopes[in].own == nil {
		l.scopes[in].own = map[string]Slot{}
	}
	l.scopes[in].own[name] = slot
}

// Lookup returns the slot of a declared key, or of a name that stands for one, as a scope sees it.
func (l *Layout) Lookup(in Scope, name string) (Slot, bool) {
	for ; in >= 0; in = l.scopes[in].sees {
		if slot, ok := l.scopes[in].own[name]; ok {
			return slot, true
		}
	}
	return 0, false
}

// Type returns the type of a key.
func (l *Layout) Type(slot Slot) Type { return l.declared[slot].Type }

// Len is how many slots there are.
func (l *Layout) Len() int { return len(l.declared) }

// Describe writes all that decides how the boards behave, so that layouts can be compared by a digest.
func (l *Layout) Describe(w io.Writer) error {
	for i := range l.declared {
		d := &l.declared[i]
		if _, err := fmt.Fprintf(w, "%q %s %d %t %s\n", d.full(), d.Type, d.scope, d.global, Format(d.Default)); err != nil {
			return err
		}
	}
	return nil
}

func (d *declared) full() string {
	if d.path == "" {
		return d.Name
	}
	return d.path + ":" + d.Name
}

// NameRule says which names are valid.
const NameRule = "letters, digits, '_', '.' and '-', at most 100, not a digit first"

// ValidName reports whether a key can have the name: see NameRule.
func ValidName(name string) bool {
	if name == "" || len(name) > 100 || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	for _, r := range name {
		if !(r == '_' || r == '.' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return false
		}
	}
	return true
}

// Hidden reports whether a name is that of a key that needs no declaration.
func Hidden(name string) bool { return strings.HasPrefix(name, "_") && ValidName(name) }
