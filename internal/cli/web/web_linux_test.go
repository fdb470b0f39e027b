package web

import (
	"os"
	"testing"

	"signalbox/internal/testkit/must"
)

// TestDevicesAreNotTerminals: the log of the kernel is a character device, as a terminal is.
func TestDevicesAreNotTerminals(t *testing.T) {
	device, err := os.Open("/dev/zero")
	must.Succeed(t, err)
	defer device.Close()
	if showsOnTerminal(device) {
		t.Error("a device counts as a terminal")
	}
}
