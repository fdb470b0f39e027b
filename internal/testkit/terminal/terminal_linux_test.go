package terminal_test

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/terminal"
)

// open opens a terminal and starts a shell script on it.
func open(t *testing.T, script string) *terminal.Terminal {
	t.Helper()
	opened, err := terminal.Open(20, 5)
	if errors.Is(err, terminal.ErrNoTerminals) {
		t.Skip(err)
	}
	must.Succeed(t, err)
	t.Cleanup(opened.Close)
	must.Succeed(t, opened.Start(exec.Command("sh", "-c", script)))
	return opened
}

// patient returns a context for something that is sure to happen.
func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func has(text string) func(string) bool {
	return func(all string) bool { return strings.Contains(all, text) }
}

func TestScreen(t *testing.T) {
	c := open(t, `printf 'one\ntwo\033[Hthree'; read -r line; test "$line" = typed || exit 1; printf '\033[?1049h\033[2Jfull'; read -r line
		printf '\033[?1049lleft\n'; exit 3`)
	for _, err := range []error{
		c.WaitFor(patient(t), func(screen string) bool { return screen == "three\ntwo" }),
		c.Type("typed\n"),
		c.WaitFor(patient(t), has("full")),
	} {
		must.Succeed(t, err)
	}
	if !c.IsAlternate() {
		t.Error("it does not show the alternate screen")
	}
	must.Succeed(t, c.Type("\n"))
	if exited := (*exec.ExitError)(nil); !errors.As(c.Wait(patient(t)), &exited) ||
		exited.ExitCode() != 3 {
		t.Errorf("it ended with %v", exited)
	}
	if got := c.Printed(); got != "left\n" {
		t.Errorf("printed %q", got)
	}
	if got := c.Written(); !strings.HasPrefix(got, "one\r\ntwo\x1b[Hthree") {
		t.Errorf("written %q", got)
	}
	if err := c.WaitFor(patient(t), has("more")); err == nil ||
		!strings.Contains(err.Error(), "the program ended (exit status 3)") {
		t.Errorf("waiting for what never comes: %v", err)
	}
}

func TestResize(t *testing.T) {
	c := open(t, `trap 'stty size; echo longer than twenty columns' WINCH; stty size; echo ready; while :; do read -r line; done`)
	must.Succeed(t, c.WaitFor(patient(t), has("5 20\nready")))
	must.Succeed(t, c.Resize(40, 10))
	must.Succeed(t, c.WaitFor(patient(t), has("10 40\nlonger than twenty columns")))
}

// Only programs that ask for brackets around what is pasted get them.
func TestPaste(t *testing.T) {
	c := open(t, `read -r line; printf '\033[?2004hready\n'; read -r line`)
	for _, err := range []error{c.Paste("plain\n"), c.WaitFor(patient(t), has("ready")),
		c.Paste("text\n"), c.Wait(patient(t))} {
		must.Succeed(t, err)
	}
	if got := c.Written(); !strings.HasPrefix(got, "plain\r\n") ||
		!strings.Contains(got, "^[[200~text\r\n") {
		t.Errorf("echoed %q", got)
	}
}

func TestCheckRestored(t *testing.T) {
	for script, want := range map[string]string{
		`stty -echo; stty echo; printf '\033[?1049h\033[?1049l\033[?25l\033[?25h\033[?2004h\033[?2004l'`: "",
		`stty -echo`:           "the settings of the terminal are",
		`stty raw`:             "the settings of the terminal are",
		`printf '\033[?1049h'`: "the terminal shows the alternate screen",
		`printf '\033[?25l'`:   "the cursor is hidden",
		`printf '\033[?2004h'`: "what is pasted gets brackets",
	} {
		c := open(t, script)
		if err := c.Wait(patient(t)); err != nil {
			t.Errorf("%s: %v", script, err)
		}
		if err := c.CheckRestored(); (err == nil) != (want == "") || err != nil &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", script, err, want)
		}
	}
}

// Streams that the caller has set stay as they are, and the others are on the terminal, which
// controls the program in any case.
func TestStreams(t *testing.T) {
	c, err := terminal.Open(0, 0)
	if errors.Is(err, terminal.ErrNoTerminals) {
		t.Skip(err)
	}
	must.Succeed(t, err)
	defer c.Close()
	must.Succeed(t, c.SetVerbatim())
	cmd := exec.Command("sh", "-c", "cat; test -t 1 && echo error >&2; : </dev/tty")
	cmd.Stdin = strings.NewReader("input\n")
	must.Succeed(t, c.Start(cmd))
	if err := c.Wait(patient(t)); err != nil {
		t.Error(err)
	}
	if got := c.Written(); got != "input\nerror\n" {
		t.Errorf("the terminal got %q", got)
	}
}

func TestCloseEndsTheProgram(t *testing.T) {
	c := open(t, `trap '' HUP INT TERM; echo ready; read -r line`)
	must.Succeed(t, c.WaitFor(patient(t), has("ready")))
	c.Close()
	if err := c.Wait(patient(t)); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("it ended with %v", err)
	}
}
