package web

import (
	"os"
	"testing"
)

// TestDevicesAreNotTerminals: the log of the kernel is a character device, as a terminal is.
func TestDevicesAreNotTerminals(t *testing.T) {
	device, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	if showsOnTerminal(device) {
		t.Error("a device counts as a terminal")
	}
}
