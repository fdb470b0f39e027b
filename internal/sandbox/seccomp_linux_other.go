//go:build linux && !amd64 && !arm64

package sandbox

import "errors"

// canFilter reports whether filterCalls knows the system calls of this processor.
const canFilter = false

func filterCalls(*Policy, Support) error { return errors.New("unknown processor") }
