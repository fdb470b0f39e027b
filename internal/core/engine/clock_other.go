//go:build !linux && !darwin

package engine

import "time"

func sinceBoot() time.Duration { return monotonic() }
