package cli

import (
	"os"

	"github.com/charmbracelet/x/term"
	"golang.org/x/sys/windows"
)

// hideInput changes the state of a terminal so that it does not show what is typed.
func hideInput(s *term.State) { s.Mode &^= windows.ENABLE_ECHO_INPUT }

// terminalSize returns the size of a terminal, 0 if it is unknown.
func terminalSize(f *os.File) (columns, rows int) {
	var info windows.ConsoleScreenBufferInfo
	if err := windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info); err != nil {
		return 0, 0
	}
	return int(info.Window.Right-info.Window.Left) + 1, int(info.Window.Bottom-info.Window.Top) + 1
}

// isReadable is not implemented on Windows. Only a note depends on it.
func isReadable(*os.File) bool { return false }
