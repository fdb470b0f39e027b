package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/token"

	"signalbox"
)

// settingPath names a setting: its names from the outside in, and the places in lists, with ends between them that no
// name has. As text it is as in "checks.command", since the line says which.
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

// outer is the path of what the setting is in.
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

// settingError is what is wrong with a setting.
type settingError struct {
	at    settingPath
	onKey bool // it is the name that is wrong, not the value
	bare  bool // the fault says itself what it is about
	fault string
	hint  string
	where *token.Position // if it is not the place of the setting
}

func (e *settingError) Error() string {
	if e.bare || e.at == "" {
		return e.fault
	}
	return e.at.String() + ": " + e.fault
}

// place is where a setting stands. The value is nil if it is null.
type place struct{ key, value *token.Position }

// places are the settings that the text has.
type places map[settingPath]place

// has reports whether the setting has a value in the text.
func (ps places) has(at settingPath) bool { return ps[at].value != nil }

// locate puts line and column before the error: of the setting, or of what it is missing in.
func (ps places) locate(e *settingError) *signalbox.Error {
	pos := e.where
	for at, onKey := e.at, e.onKey; pos == nil; at, onKey = at.outer(), false {
		switch found := ps[at]; {
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
	return &signalbox.Error{Code: signalbox.CodeUsage, Hint: e.hint,
		Err: fmt.Errorf("line %d, column %d: %s", pos.Line, pos.Column, oneLine(e.Error()))}
}

// oneLine is the text with its line ends and what else cannot be seen, as a name may have it, made spaces.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}
