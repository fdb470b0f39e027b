package about

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/cli/about/completion"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/text"
)

type CompletionCommand struct {
	Shell completion.Shell `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
	Words []string         `arg:"" optional:"" hidden:"" help:"The words typed so far, after --. The script passes them."`
}

func (CompletionCommand) Help() string {
	return `Prints a script that completes commands, flags and their values, tasks and questions when you press Tab. Load it in the start-up file of your shell.

Examples:

    source <(signalbox completion bash)
    source <(signalbox completion zsh)
    signalbox completion fish | source`
}

func (c *CompletionCommand) Run(p *cli.Program, app *kong.Kong) error {
	answer := c.Shell.Script()
	if words := c.Words; len(words) > 0 {
		if len(words) > 1 && words[0] == "help" { // what follows is a command
			words = words[1:]
		}
		answer = c.Shell.Format(completion.Candidates(app.Model.Node, candidates(p, words), words))
	}
	_, err := fmt.Fprint(p.Out, answer)
	return err
}

// candidates returns the values of flags and arguments that depend on the program or on the box.
func candidates(p *cli.Program, words []string) completion.Values {
	return func(command *kong.Node, v *kong.Value, word string) []completion.Candidate {
		switch valueType(v) {
		case reflect.TypeFor[signalbox.Role]():
			return named(signalbox.Roles())
		case reflect.TypeFor[signalbox.Format]():
			return named(signalbox.Formats())
		case reflect.TypeFor[cli.EventType]():
			return named(rules.EventTypes())
		}
		switch {
		case v.Name == "task":
			return peek(p, words,
				func(s *rules.State) []completion.Candidate { return tasks(s, word) })
		case v.Name == "work", v.Name == "id" && command.Name != "open":
			return peek(p, words, works)
		case v.Name == "question":
			return peek(p, words, openQuestions)
		}
		return nil
	}
}

// valueType returns the type of one value of a flag or an argument.
func valueType(v *kong.Value) reflect.Type {
	if !v.Target.IsValid() {
		return nil
	}
	t := v.Target.Type()
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

func named[T ~string](values []T) (all []completion.Candidate) {
	for _, v := range values {
		all = append(all, completion.Candidate{Word: string(v)})
	}
	return all
}

// CompletionLimit is how long a person who pressed Tab waits at most.
const completionLimit = time.Second

// peek returns candidates from the box that the words typed so far select. There are none if it
// cannot be read at once.
func peek(p *cli.Program, words []string,
	from func(*rules.State) []completion.Candidate) (all []completion.Candidate) {
	var f cli.BoxFlag
	for i, word := range words {
		if named, ok := strings.CutPrefix(word, "--box="); ok {
			f.Box = cli.NonEmpty(named)
		} else if i > 0 && words[i-1] == "--box" && word != "=" || i > 1 && words[i-2] == "--box" &&
			words[i-1] == "=" {
			f.Box = cli.NonEmpty(word)
		}
	}
	dir, err := p.FindBox(f)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(),
		cmp.Or(p.CompletionLimit, completionLimit))
	defer cancel()
	o := p.BoxOptions()
	o.Log = nil // a warning would be in the way of what is typed
	if box.Peek(ctx, dir, o, func(s *rules.State) { all = from(s) }) != nil {
		return nil
	}
	return all
}

// candidate returns a word with an explanation that others wrote.
func candidate(word, help string) completion.Candidate {
	return completion.Candidate{Word: word, Help: text.Shorten(text.OneLine(text.Visible(help)),
		60)}
}

// tasks returns how a person names tasks: by their name, or with the plan if several plans have
// that name, or if a plan may be what was typed.
func tasks(s *rules.State, word string) (all []completion.Candidate) {
	plans := len(s.Plans())
	uses := map[string]int{}
	for w := range s.Works() {
		uses[w.Name()]++
		if w.ID != w.Name() {
			uses[w.ID]++
		}
	}
	for w := range s.Works() {
		if w.Task == nil {
			continue
		}
		if uses[w.Name()] == 1 {
			all = append(all, candidate(w.Name(), w.Title))
		}
		if uses[w.Name()] > 1 || plans > 1 && word != "" {
			all = append(all, candidate(w.Task.Plan+"/"+w.Name(), w.Title))
		}
	}
	return all
}

func works(s *rules.State) (all []completion.Candidate) {
	for w := range s.Works() {
		all = append(all, candidate(w.ID, w.Title))
	}
	return all
}

func openQuestions(s *rules.State) (all []completion.Candidate) {
	for _, q := range slices.Backward(s.Questions()) {
		if q.Open() {
			all = append(all, candidate(q.ID, q.Text))
		}
	}
	return all
}
