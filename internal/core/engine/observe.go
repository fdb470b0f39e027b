package engine

import "context"

// Observe applies the events that other processes append, until ctx is done or the log cannot be
// followed. Unlike Follow it records nothing, so expired leases stay until another process records
// them.
func (e *Engine) Observe(ctx context.Context) error { return e.watch(ctx) }
