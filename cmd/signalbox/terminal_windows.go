package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// terminalWidth is how many columns a terminal has, 0 if it does not say.
func terminalWidth(f *os.File) int {
	var info windows.ConsoleScreenBufferInfo
	if err := windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info); err != nil {
		return 0
	}
	return int(info.Window.Right-info.Window.Left) + 1
}

// isReadable would tell whether there is something in a pipe. Nothing but a note depends on it.
func isReadable(*os.File) bool { return false }
