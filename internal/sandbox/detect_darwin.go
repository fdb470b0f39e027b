package sandbox

import "os"

// seatbelt is the program that restricts another one on macOS.
const seatbelt = "/usr/bin/sandbox-exec"

// Detect returns what this system can enforce.
func Detect() Support {
	if _, err := os.Stat(seatbelt); err != nil {
		return unsupported(err.Error())
	}
	return unsupported("")
}
