package sandbox

import "os"

// Detect returns what this system can enforce.
func Detect() Support {
	s := Support{System: "darwin"}
	if _, err := os.Stat(seatbelt); err != nil {
		s.Why = err.Error()
	}
	return s
}
