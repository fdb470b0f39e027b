package box

import (
	"context"

	"signalbox/internal/core/engine"
	"signalbox/internal/core/rules"
)

// Peek calls look with the state of a box. It changes no file, reads no configuration, and waits
// for no other process longer than ctx allows, so it can be used while the user types. look must
// neither retain nor change the state.
func Peek(ctx context.Context, dir string, opts *Options, look func(*rules.State)) error {
	l, err := openLedger(ctx, dir, opts, readOnly)
	if err != nil {
		return err
	}
	defer l.Close()
	e, err := engine.Open(ctx, l.Journal, nil)
	if err != nil {
		return err
	}
	defer e.Close()
	e.View(look)
	return nil
}
