package cli

import (
	"errors"
	"slices"

	"github.com/alecthomas/kong"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/text"
)

// BoxFlag is the flag of every command that uses a box.
type BoxFlag struct {
	Box NonEmpty `name:"box" placeholder:"DIR" help:"The box. Default: SIGNALBOX_BOX, or else .signalbox in this folder or the nearest parent."`
}

// NonEmpty is the value of a flag that must not be empty. An empty value, as from an unset shell
// variable, would otherwise select another box or session than the user meant.
type NonEmpty string

// Decode implements kong.MapperValue.
func (g *NonEmpty) Decode(ctx *kong.DecodeContext) error {
	var value string
	if err := ctx.Scan.PopValueInto("value", &value); err != nil {
		return err
	}
	if value == "" {
		return errors.New("the value is empty")
	}
	*g = NonEmpty(value)
	return nil
}

// AnswerFlag is the flag of commands whose answer is one JSON object.
type AnswerFlag struct {
	JSON bool `name:"json" help:"Print the answer on one line."`
}

// Print prints the answer.
func (f AnswerFlag) Print(p *Program, v any) error {
	indent := "  "
	if f.JSON {
		indent = ""
	}
	return p.PrintJSON(v, indent)
}

// EventType is the type of an event.
type EventType string

// Check returns an error if there is no such type.
func (t EventType) Check() error {
	if slices.Contains(rules.EventTypes(), string(t)) {
		return nil
	}
	hint := "docs/reference/events.md lists the types"
	if closest := text.Closest(string(t), rules.EventTypes()); closest != "" {
		hint = "did you mean " + closest + "?"
	}
	return signalbox.CodeUsage.Errorf(hint, "there is no event type '%s'", Shortened(string(t)))
}

// PagerFlag is the flag of the commands that show long text.
type PagerFlag struct {
	NoPager bool `help:"Print directly instead of through PAGER."`
}

// RawFlag is the flag of the commands that write the exact bytes of something, which may contain
// anything.
type RawFlag struct {
	Raw bool `help:"Write the exact bytes even to a terminal. By default control characters are escaped there."`
}
