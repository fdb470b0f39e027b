//go:build !linux && !darwin

package process

import (
	"errors"
	"runtime"
	"time"

	"signalbox"
	"signalbox/internal/sandbox"
)

// Process is a program that was started. There are none on this system.
type Process struct{}

func unsupported() error {
	return &signalbox.Error{Code: signalbox.CodeFailed,
		Err:  errors.New("running agents and checks needs Linux or macOS, this is " + runtime.GOOS),
		Hint: "use Linux or macOS, or the Windows Subsystem for Linux"}
}

// Start returns an error, because this system has no process groups to end.
func Start(Spec, func(ID) error) (*Process, error) { return nil, unsupported() }

// Support returns what this system can enforce: nothing.
func Support() sandbox.Support { return sandbox.Detect() }

// Try returns an error.
func Try(*sandbox.Policy) error { return unsupported() }

// MissingLimits returns nothing: nothing runs here.
func MissingLimits(sandbox.Limits) []string { return nil }

// ID returns the zero ID.
func (p *Process) ID() ID { return ID{} }

// WriteLine returns an error.
func (p *Process) WriteLine(string) error { return unsupported() }

// CloseInput does nothing.
func (p *Process) CloseInput() {}

// Stop does nothing.
func (p *Process) Stop(time.Duration) {}

// Wait returns an error.
func (p *Process) Wait() Exit { return Exit{Code: -1, Err: unsupported()} }

// Alive returns false.
func (id ID) Alive() bool { return false }

// EndOrphan finds nothing.
func EndOrphan(ID, time.Duration) (found bool, err error) { return false, nil }

// EndSession finds nothing.
func EndSession(string, time.Duration) (ended int, err error) { return 0, nil }
