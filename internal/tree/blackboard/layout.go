package blackboard

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Layout declares the keys of a board and the scopes in which they are visible.
type Layout struct {
	declared []declared
	scopes   []scope
	// size is the size of all defaults.
	size int
}

// Scope is a part of a tree in which the same keys are visible.
type Scope int32

// TreeScope is the scope of the tree itself. It contains the global keys too.
const TreeScope Scope = 0

// Slot is the index of a key on the boards of a layout, in the order of declaration.
type Slot int32

type declared struct {
	Key
	scope Scope
	// path is the path of the subtree to which the key belongs, "" for the keys of the tree and
	// global keys.
	path   string
	global bool
	// builtin reports whether only NewLayout declared the key.
	builtin bool
}

// scope contains its own names and refers to an outer scope. Names are not copied from there,
// because a tree may have a hundred thousand scopes, one for each use of a subtree.
type scope struct {
	own   map[string]Slot
	outer Scope
}

// Names of the keys that every tree has.
const (
	KeyLastSignal         = "last_signal"
	KeySignals            = "signals_emitted"
	KeySameReason         = "consecutive_same_reason"
	KeyTurnsWithoutSignal = "turns_without_signal"
	KeyContent            = "accumulated_content"
	KeyRequest            = "llm_request"
	KeyResponse           = "llm_response"
	KeyToolResults        = "tool_results"
)

// Builtins returns the keys that every tree has. Signal actions, model calls and tools use them.
func Builtins() []Key {
	return []Key{
		{Name: KeyLastSignal, Type: Signal},
		{Name: KeySignals, Type: List, Default: []any{}},
		{Name: KeySameReason, Type: Int, Default: int64(0)},
		{Name: KeyTurnsWithoutSignal, Type: Int, Default: int64(0)},
		{Name: KeyContent, Type: String},
		{Name: KeyRequest, Type: Any},
		{Name: KeyResponse, Type: String},
		{Name: KeyToolResults, Type: List, Default: []any{}},
	}
}

// NewLayout returns a layout that contains TreeScope with the keys of Builtins.
func NewLayout() *Layout {
	l := &Layout{scopes: []scope{{outer: -1}}}
	for _, key := range Builtins() {
		l.add(TreeScope, declared{Key: key, builtin: true})
	}
	return l
}

// Clone returns a copy of the layout.
func (l *Layout) Clone() *Layout {
	c := &Layout{slices.Clone(l.declared), slices.Clone(l.scopes), l.size}
	for i := range c.scopes {
		c.scopes[i].own = maps.Clone(c.scopes[i].own)
	}
	return c
}

// Open adds a scope inside another one.
func (l *Layout) Open(outer Scope) Scope {
	l.scopes = append(l.scopes, scope{outer: outer})
	return Scope(len(l.scopes) - 1)
}

// Declare adds a key to a scope, where it hides a key of the same name in an outer scope. In
// snapshots, path precedes its name. A key may be declared again with the same type, which replaces
// its default unless the new default is nil. A key cannot be both global and local.
func (l *Layout) Declare(in Scope, key Key, path string, global bool) (Slot, error) {
	key, err := Normal(key)
	if err != nil {
		return 0, err
	}
	return l.DeclareNormal(in, key, path, global)
}

// Normal checks a key and returns it with its default in normal form.
func Normal(key Key) (Key, error) {
	if !ValidName(key.Name) {
		return key, fmt.Errorf("%q is not a valid name for a key: %s", key.Name, NameRule)
	}
	value, err := key.Type.Check(key.Default)
	if err != nil {
		return key, fmt.Errorf("the default of key '%s' does not fit: %w", key.Name, err)
	}
	key.Default = value
	return key, nil
}

// ErrDefaults means that all defaults together are larger than a board may be.
var ErrDefaults = fmt.Errorf("the defaults of all keys are larger than %d bytes", MaxBoard)

// DeclareNormal is like Declare, for a result of Normal. It shares the default instead of copying
// it.
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
		return 0, fmt.Errorf("key '%s' is declared twice, as %s and as %s", key.Name,
			old.Type.WithArticle(), key.Type.WithArticle())
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

// Alias adds a name to a scope that refers to a key of another scope.
func (l *Layout) Alias(in Scope, name string, slot Slot) {
	if l.scopes[in].own == nil {
		l.scopes[in].own = map[string]Slot{}
	}
	l.scopes[in].own[name] = slot
}

// Lookup returns the slot of a key or alias that is visible in a scope.
func (l *Layout) Lookup(in Scope, name string) (Slot, bool) {
	for ; in >= 0; in = l.scopes[in].outer {
		if slot, ok := l.scopes[in].own[name]; ok {
			return slot, true
		}
	}
	return 0, false
}

// Type returns the type of a key.
func (l *Layout) Type(slot Slot) Type { return l.declared[slot].Type }

// Len returns the number of slots.
func (l *Layout) Len() int { return len(l.declared) }

// Describe writes a description of the layout, which is the same for equal layouts only.
func (l *Layout) Describe(w io.Writer) error {
	for i := range l.declared {
		d := &l.declared[i]
		if _, err := fmt.Fprintf(w, "%q %s %d %t %s\n", d.full(), d.Type, d.scope, d.global,
			Format(d.Default)); err != nil {
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

// NameRule describes valid names, for messages.
const NameRule = "letters, digits, '_', '.' and '-', at most 100, not a digit first"

// ValidName reports whether name is valid for a key: see NameRule.
func ValidName(name string) bool {
	if name == "" || len(name) > 100 || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	for _, r := range name {
		if !(r == '_' || r == '.' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' ||
			r >= 'A' && r <= 'Z') {
			return false
		}
	}
	return true
}

// Hidden reports whether name is valid for a key that needs no declaration.
func Hidden(name string) bool { return strings.HasPrefix(name, "_") && ValidName(name) }
