package box

import (
	"math"
	"os"
	"os/exec"

	"golang.org/x/sys/windows"
)

// freeBytes returns how many bytes an ordinary user can still write to the volume of a folder.
func freeBytes(dir string) (free uint64, err error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err == nil {
		err = windows.GetDiskFreeSpaceEx(name, &free, nil, nil)
	}
	return free, os.NewSyscallError("GetDiskFreeSpaceEx", err)
}

// openFileLimit returns the largest number, because Windows has no limit that matters.
func openFileLimit() (uint64, error) { return math.MaxUint64, nil }

// killGroup does nothing: on Windows the children of a cancelled program keep running.
func killGroup(*exec.Cmd) {}
