package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// terminalWidth returns the number of columns of a terminal, 0 if it is unknown.
func terminalWidth(f *os.File) int {
	var info windows.ConsoleScreenBufferInfo
	if err := windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info); err != nil {
		return 0
	}
	return int(info.Window.Right-info.Window.Left) + 1
}

// isReadable is not implemented on Windows. Only a note depends on it.
func isReadable(*os.File) bool { return false }
