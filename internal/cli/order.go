package cli

import (
	"context"

	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
)

// OrderWork executes a command about the work item that the user named, and calls show with the answer.
func OrderWork(p *Program, f BoxFlag, name string, build func(id string) rules.Command, show func(*box.Box, rules.Answer) error) error {
	do := func(ctx context.Context, b *box.Box, id string) (rules.Answer, error) {
		return b.Engine.Do(ctx, build(id))
	}
	return DoWork(p, f, name, do, show)
}

// DoWork is OrderWork for orders that need the box.
func DoWork(p *Program, f BoxFlag, name string, do func(context.Context, *box.Box, string) (rules.Answer, error), show func(*box.Box, rules.Answer) error) error {
	ctx := context.Background()
	return p.WithBox(ctx, f, func(b *box.Box) error {
		id, err := FindWork(b, name)
		if err != nil {
			return err
		}
		answer, err := do(ctx, b, id)
		if err != nil {
			return err
		}
		return show(b, answer)
	})
}

// FindWork returns the id of the work item that the user named, with its plan (PLAN/TASK) or without; "" stays "".
func FindWork(b *box.Box, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	var w *rules.Work
	var err error
	b.Engine.View(func(s *rules.State) { w, err = s.Find(name) })
	if err != nil {
		return "", err
	}
	return w.ID, nil
}
