package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"signalbox/internal/testkit/must"
)

// TestEveryCommandHasHelp checks that the help of every command has an example of it.
func TestEveryCommandHasHelp(t *testing.T) {
	parser, err := kong.New(&commands{}, kong.Vars{"formats": "", "roles": "", "briefFormats": "",
		"briefOutputs": "inline"})
	must.Succeed(t, err)
	var paths []string
	err = kong.Visit(parser.Model.Node, func(node kong.Visitable, next kong.Next) error {
		if command, ok := node.(*kong.Command); ok {
			paths = append(paths, command.Path())
		}
		return next(nil)
	})
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d commands, %v", len(paths), err)
	}
	for _, path := range paths {
		p, stdout, stderr := start(append(strings.Fields(path), "--help")...)
		if status := execute(p); status != 0 || stderr.Len() > 0 {
			t.Errorf("%s --help: status %d, stderr %s", path, status, stderr)
		}
		_, examples, _ := strings.Cut(stdout.String(), "\nExamples:\n")
		if !strings.HasPrefix(stdout.String(), "Usage: signalbox "+path) ||
			!strings.Contains(examples, "signalbox "+path) {
			t.Errorf("%s --help:\n%s", path, stdout)
		}
	}
}

// TestGrammar checks that a command behaves the same when only its part of the grammar is built.
func TestGrammar(t *testing.T) {
	for field := range reflect.TypeFor[commands]().Fields() {
		name := strings.ToLower(field.Name)
		if field.Name == "ShowVersion" {
			name = "--version"
		}
		part, all := reflect.TypeOf(grammar([]string{name})).Elem(), reflect.TypeFor[commands]()
		if needsAll := slices.Contains(needAll, name); needsAll != (part == all) || !needsAll &&
			part.NumField() > 2 {
			t.Errorf("%s: %v", name, part)
		}
	}
	for _, args := range [][]string{nil, {"--help"}, {"rnu"}, {"Run"}, {"--box", "x", "status"},
		{"showversion"}, {"--version", "run"}} {
		if g, ok := grammar(args).(*commands); !ok {
			t.Errorf("%q: %T", args, g)
		}
	}
}
