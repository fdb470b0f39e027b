package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/alecthomas/kong"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/text"
)

// boxFlag is the flag of every command that uses a box.
type boxFlag struct {
	Box nonEmpty `name:"box" placeholder:"DIR" help:"The box. Default: SIGNALBOX_BOX, or else .signalbox in this folder or the nearest parent."`
}

// nonEmpty is the value of a flag that must not be empty. An empty value, as from an unset shell variable, would otherwise select another box
// or session than the user meant.
type nonEmpty string

// Decode implements kong.MapperValue.
func (g *nonEmpty) Decode(ctx *kong.DecodeContext) error {
	var value string
	if err := ctx.Scan.PopValueInto("value", &value); err != nil {
		return err
	}
	if value == "" {
		return errors.New("the value is empty")
	}
	*g = nonEmpty(value)
	return nil
}

// answerFlag is the flag of commands whose answer is one JSON object.
type answerFlag struct {
	JSON bool `name:"json" help:"Print the answer on one line."`
}

func (f answerFlag) print(p *program, v any) error {
	indent := "  "
	if f.JSON {
		indent = ""
	}
	return p.printJSON(v, indent)
}

// eventType is the type of an event.
type eventType string

// check returns an error if there is no such type.
func (t eventType) check() error {
	if slices.Contains(rules.EventTypes(), string(t)) {
		return nil
	}
	hint := "docs/state-machine.md lists the types"
	if closest := text.Closest(string(t), rules.EventTypes()); closest != "" {
		hint = "did you mean " + closest + "?"
	}
	return &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("there is no event type '%s'", shortened(string(t))), Hint: hint}
}

// pagerFlag is the flag of the commands that show long text.
type pagerFlag struct {
	NoPager bool `help:"Print directly instead of through PAGER."`
}

// rawFlag is the flag of the commands that write the exact bytes of something, which may contain anything.
type rawFlag struct {
	Raw bool `help:"Write the exact bytes even to a terminal. By default control characters are escaped there."`
}
