package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/token"

	"signalbox"
)

// settingPath names a setting by the names and list indexes on the way to it, each followed by a
// byte that no name contains. Its String is like "checks.command": the line shows which item of a
// list is meant.
type settingPath string

const (
	pathEnd  = "\x00"
	pathItem = "#"
)

func setting(names ...string) settingPath {
	var p settingPath
	for _, name := range names {
		p = p.field(name)
	}
	return p
}

func (p settingPath) field(name string) settingPath { return p + settingPath(name) + pathEnd }

func (p settingPath) item(i int) settingPath { return p.field(pathItem + strconv.Itoa(i)) }

// outer returns the path of the group or list that the setting is in.
func (p settingPath) outer() settingPath {
	return p[:strings.LastIndex(strings.TrimSuffix(string(p), pathEnd), pathEnd)+1]
}

func (p settingPath) String() string {
	var names []string
	for name := range strings.SplitSeq(strings.TrimSuffix(string(p), pathEnd), pathEnd) {
		if !strings.HasPrefix(name, pathItem) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ".")
}

// settingError is one error in a setting.
type settingError struct {
	at    settingPath
	onKey bool // the name is wrong, not the value
	bare  bool // fault names the setting itself
	fault string
	hint  string
	where *token.Position // nil means the position of the setting
	// among is where the name that the setting refers to would be defined. "" means that it refers
	// to none.
	among settingPath
}

// follows reports whether an error that validation found may only be there because other settings
// could not be read: those that it is about, or one beside the setting that is missing.
func (e *settingError) follows(unread faults, set places) bool {
	return slices.ContainsFunc(unread, func(u *settingError) bool {
		at := string(u.at)
		return strings.HasPrefix(at, string(e.at)) ||
			!set.has(e.at) && strings.HasPrefix(at, string(e.at.outer())) ||
			e.among != "" && strings.HasPrefix(at, string(e.among))
	})
}

func (e *settingError) Error() string {
	if e.bare || e.at == "" {
		return e.fault
	}
	return e.at.String() + ": " + e.fault
}

// faultAt returns an error in a setting. The last arguments are those of fmt.Sprintf.
func faultAt(at settingPath, hint, format string, args ...any) *settingError {
	return &settingError{at: at, fault: fmt.Sprintf(format, args...), hint: hint}
}

// badName returns an error in the name of a setting, which the fault names itself.
func badName(at settingPath, hint, format string, args ...any) *settingError {
	wrong := faultAt(at, hint, format, args...)
	wrong.onKey, wrong.bare = true, true
	return wrong
}

// faults are the errors in a text.
type faults []*settingError

// add records a fault. Nil is ignored, and so is a fault of a setting that has one already, or that
// is inside such a setting: it is usually a consequence of the first.
func (f *faults) add(e *settingError) {
	covered := func(other *settingError) bool { return strings.HasPrefix(string(e.at), string(other.at)) }
	if e == nil || slices.ContainsFunc(*f, covered) {
		return
	}
	*f = append(*f, e)
}

// fail adds the error that faultAt returns.
func (f *faults) fail(at settingPath, hint, format string, args ...any) {
	f.add(faultAt(at, hint, format, args...))
}

// place is the position of a setting. The value is nil if it is null.
type place struct {
	key, value *token.Position
	team       bool // it is in the team's file
}

// places are the positions of the settings that a text contains.
type places map[settingPath]place

// has reports whether the setting has a value in the text.
func (ps places) has(at settingPath) bool { return ps[at].value != nil }

// Fault is one error in a configuration.
type Fault struct {
	File         string // "" if it is that of the Error
	Line, Column int
	Text         string // on one line
	Hint         string // what to write instead
}

// Error lists all errors in a configuration, in the order of the text.
type Error struct {
	File   string // "" if the text does not come from a file
	Faults []Fault
}

// Error describes all faults, on one line.
func (e *Error) Error() string {
	described := make([]string, len(e.Faults))
	for i := range e.Faults {
		described[i] = e.Describe(i)
	}
	return strings.Join(described, "; ")
}

// Describe returns one fault with its position.
func (e *Error) Describe(i int) string {
	f := e.Faults[i]
	described := fmt.Sprintf("line %d, column %d: %s", f.Line, f.Column, f.Text)
	if file := orDefault(f.File, e.File); file != "" {
		return file + ": " + described
	}
	return described
}

// locate returns an error with the position of each fault, or nil if there is none. A missing
// setting has the position of the group that it is missing from. teamFile is the file of the
// settings that are the team's.
func (ps places) locate(file, teamFile string, all faults) error {
	if len(all) == 0 {
		return nil
	}
	located := &Error{File: file}
	for _, e := range all {
		pos, team := ps.position(e)
		fault := Fault{Line: pos.Line, Column: pos.Column, Text: oneLine(e.Error()), Hint: e.hint}
		if team {
			fault.File = teamFile
		}
		located.Faults = append(located.Faults, fault)
	}
	slices.SortStableFunc(located.Faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column))
	})
	return &signalbox.Error{Code: signalbox.CodeUsage, Hint: located.Faults[0].Hint, Err: located}
}

func (ps places) position(e *settingError) (pos *token.Position, team bool) {
	pos = e.where
	for at, onKey := e.at, e.onKey; pos == nil; at, onKey = at.outer(), false {
		found := ps[at]
		team = found.team
		switch {
		case onKey && found.key != nil:
			pos = found.key
		case found.value != nil:
			pos = found.value
		case found.key != nil:
			pos = found.key
		case at == "":
			pos = &token.Position{Line: 1, Column: 1}
		}
	}
	return pos, team
}

// oneLine replaces line ends and other control characters, which a name may contain, by spaces.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
