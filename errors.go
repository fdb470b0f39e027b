package signalbox

// Code classifies an error. Each interface of the program maps it once: to an exit status, an HTTP status, or an MCP error.
type Code int

const (
	CodeFailed      Code = iota + 1 // refused, or failed because of its environment
	CodeUsage                       // the arguments are wrong
	CodeNotFound                    // the named thing does not exist
	CodeConflict                    // lost a race, or the lease is stale
	CodeUnverified                  // verification failed
	CodeInterrupted                 // canceled by the caller
)

// Error is an error to show to people: what went wrong, and what to do about it. Callers find it with errors.As and show
// Hint on a separate line.
type Error struct {
	Code Code
	Err  error
	// Hint is what to do about it; it may be empty.
	Hint string
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }
