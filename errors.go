package signalbox

// Code classes an error once for every edge of the program: process exit status, HTTP status, MCP error.
type Code int

const (
	CodeFailed      Code = iota + 1 // refused, or failed for a reason of the outside world
	CodeUsage                       // the call itself is wrong
	CodeNotFound                    // what was named does not exist
	CodeConflict                    // lost a race, or a stale lease
	CodeUnverified                  // a verification did not succeed
	CodeInterrupted                 // ended by whoever started it
)

// Error is an error made for people: what went wrong, and what to do about it. Callers find it with
// errors.As and show Hint on a line of its own.
type Error struct {
	Code Code
	Err  error
	// Hint says what to do; it may be empty.
	Hint string
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }
