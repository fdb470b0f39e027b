package signalbox

import (
	"errors"
	"fmt"
)

// Code classifies an error. Each interface of the program maps it once: to an exit status, an HTTP
// status, or an MCP error.
type Code int

const (
	CodeFailed      Code = iota + 1 // refused, or failed because of its environment
	CodeUsage                       // the arguments are wrong
	CodeNotFound                    // the named thing does not exist
	CodeConflict                    // lost a race, or the lease is stale
	CodeUnverified                  // verification failed
	CodeInterrupted                 // canceled by the caller
)

// Error is an error to show to people: what went wrong, and what to do about it. Show Hint on a
// separate line; CodeOf and HintOf find both in a wrapped error.
type Error struct {
	Code Code
	Err  error
	// Hint is what to do about it; it may be empty.
	Hint string
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an error of this code with a hint, which may be empty. The other arguments are
// those of [fmt.Errorf].
func (c Code) Errorf(hint, format string, args ...any) *Error {
	return &Error{Code: c, Err: fmt.Errorf(format, args...), Hint: hint}
}

// CodeOf returns the code of the first *Error in the chain of err, or 0 if there is none.
func CodeOf(err error) Code {
	if classified, ok := errors.AsType[*Error](err); ok {
		return classified.Code
	}
	return 0
}

// HintOf returns the hint of the first *Error in the chain of err, or "" if there is none.
func HintOf(err error) string {
	if classified, ok := errors.AsType[*Error](err); ok {
		return classified.Hint
	}
	return ""
}
