package notify

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"strings"

	"signalbox/internal/run/outbound"
	"signalbox/internal/text"
)

// desktop shows messages with the program that the system has for that.
type desktop struct{ environ []string }

// maxDesktop is how many characters of the text are shown.
const maxDesktop = 300

func (d desktop) send(ctx context.Context, m *Message) error {
	argv, err := desktopCommand(runtime.GOOS, m)
	if err != nil {
		return err
	}
	if _, err := exec.LookPath(argv[0]); errors.Is(err, exec.ErrNotFound) {
		return outbound.Permanentf(
			"the program %s was not found in PATH: install it, or remove notify.desktop", argv[0])
	}
	return run(ctx, argv, d.environ, nil)
}

// desktopCommand returns the program that shows a message, with its arguments. The text of agents
// is only ever an argument: it is never part of a script, and cannot be taken for a flag.
func desktopCommand(system string, m *Message) ([]string, error) {
	title, body := m.heading(), m.body(maxDesktop)
	switch system {
	case "linux", "freebsd", "openbsd", "netbsd":
		// The body may have markup, which agents must not use.
		body = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(body)
		return []string{"notify-send", "--app-name=signalbox", "--", title, body}, nil
	case "darwin":
		// The first argument begins with "signalbox", so osascript reads no flags in it or after
		// it.
		return []string{"osascript", "-e", "on run argv", "-e",
			"display notification (item 2 of argv) with title (item 1 of argv)", "-e", "end run",
			title, text.Shorten(body, maxDesktop)}, nil
	}
	return nil, outbound.Permanentf("there are no desktop notifications on %s", system)
}
