package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// inEditor runs the program with all streams on a terminal, and returns what the terminal got and
// the exit status.
func (w *terminalWorld) inEditor(env []string, args ...string) (string, int) {
	w.t.Helper()
	cmd := w.command("", append([]string{"signalbox"}, args...)...)
	cmd.Env = append(append(cmd.Env, "VISUAL=", "EDITOR=", "TMPDIR="+w.dir, "TERM=dumb",
		"NO_COLOR=1"), env...)
	cmd.Stdin = nil
	c := openTerminal(w.t, 0, 0)
	defer c.Close()
	must.Succeed(w.t, c.SetVerbatim())
	c.starts(cmd)
	status := c.ends()
	return c.Written(), status
}

func (w *terminalWorld) drafts() []string {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(w.dir, "signalbox-*.md"))
	must.Succeed(w.t, err)
	return found
}

func TestEditor(t *testing.T) {
	w := newTerminalWorld(t)
	w.piped("", "run", "plan.md", "--no-wait")
	w.piped("", "work", "open", "t1", "--phase", "REVIEW")
	// The editor keeps what it was given, and writes its second argument above it. Its command has
	// arguments, and a name with a space.
	editor := filepath.Join(w.dir, "my editor")
	writeFile(t, editor, `#!/bin/sh
test -t 0 && test -t 1 || exit 9
cp "$3" `+filepath.Join(w.dir, "seen")+`
test "$1" = fail && { printf 'half of it\n' > "$3"; exit 7; }
{ printf "$2"; cat "$3"; } > "$3.new" && mv "$3.new" "$3"
`, 0o700)
	edit := func(how, text string) string { return "'" + editor + "' " + how + " '" + text + "'" }
	seen := func() string {
		data, err := os.ReadFile(filepath.Join(w.dir, "seen"))
		must.Succeed(t, err)
		return string(data)
	}
	recorded := func() string { return w.piped("", "ledger", "tail", "-n", "0", "--json") }

	// The question is shown as comments, and what is above the scissors is the answer. Headings in
	// it are not comments.
	before := recorded()
	for name, tt := range map[string]struct {
		env  []string
		args []string
		want string
		code int
	}{
		"nothing written": {[]string{"EDITOR=" + edit("write", `\n \n`)},
			[]string{"answer", "Q-1"}, "the answer is empty, so nothing was recorded", 1},
		"the editor fails": {[]string{"EDITOR=" + edit("fail", "")}, []string{"answer", "Q-1"},
			"the editor failed, so nothing was recorded: exit status 7", 1},
		"no such editor": {[]string{"EDITOR=no-such-editor"}, []string{"answer", "Q-1"},
			"the editor failed, so nothing was recorded: exit status 127", 1},
		"no editor": {nil, []string{"answer", "Q-1"},
			"set EDITOR to write it in an editor", 2},
		"no such question": {[]string{"EDITOR=" + edit("write", "x")}, []string{"answer", "Q-9"},
			"there is no question 'Q-9'", 3},
		"not to be rejected": {[]string{"EDITOR=" + edit("write", "x")}, []string{"reject", "A"},
			"does not wait for approval", 1},
		"no such task": {[]string{"EDITOR=" + edit("write", "x")}, []string{"rework", "Z"},
			"there is no work 'Z'", 3},
		"not planned": {[]string{"EDITOR=" + edit("write", "x")}, []string{"tell", "t1"},
			"does not belong to a plan", 1},
	} {
		t.Run(name, func(t *testing.T) {
			os.Remove(filepath.Join(w.dir, "seen"))
			out, code := w.inEditor(tt.env, tt.args...)
			if code != tt.code || !strings.Contains(out, tt.want) {
				t.Errorf("status %d: %s", code, out)
			}
			if recorded() != before {
				t.Error("something was recorded")
			}
			if _, err := os.Stat(filepath.Join(w.dir, "seen")); err == nil &&
				(strings.HasPrefix(name, "no such") || strings.HasPrefix(name, "not ")) {
				t.Error("the editor was opened in vain")
			}
			kept := w.drafts()
			if fails := name == "the editor fails"; fails != (len(kept) == 1) || fails &&
				!strings.Contains(out, "note: your text is still in "+kept[0]) {
				t.Errorf("kept %v: %s", kept, out)
			}
			for _, file := range kept {
				os.Remove(file)
			}
		})
	}

	out, code := w.inEditor([]string{"VISUAL=" + edit("write", `# Two\n\nof them \n\n`),
		"EDITOR=false"}, "answer", "Q-1")
	if code != 0 || !strings.Contains(out, "answered Q-1\n") {
		t.Fatalf("status %d: %s", code, out)
	}
	if got := seen(); !strings.HasPrefix(got, "\n"+
		"# ------------------------ >8 ------------------------"+
		"\n# Write the answer above this line.") ||
		!strings.Contains(got, "\n# Q-1 about A (clarification):\n#\n# pwned") {
		t.Errorf("the editor showed:\n%s", got)
	}
	for line := range strings.Lines(strings.TrimPrefix(seen(), "\n")) {
		if !strings.HasPrefix(line, "#") || unsafeCharacter(line) != "" {
			t.Errorf("the editor showed %q", line)
		}
	}
	if got := recorded(); !strings.Contains(got, `"answer":"# Two\n\nof them"`) {
		t.Errorf("recorded:\n%s", got)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"rework", "A"}, `"cause":"human","count":1,"summary":"by editor"`},
		{[]string{"tell", "A"}, `"type":"MessageSent","work":"A"`},
	} {
		if out, code := w.inEditor([]string{"EDITOR=" + edit("write", `by editor\n`)},
			tt.args...); code != 0 || !strings.Contains(recorded(), tt.want) {
			t.Errorf("%q: status %d: %s", tt.args, code, out)
		}
	}
	if got := seen(); !strings.Contains(got, "# A: First (IMPLEMENTATION)\n") ||
		!strings.Contains(got, "# sent back by ann:\n# by editor\n") {
		t.Errorf("the editor showed:\n%s", got)
	}
	exit := `{"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"REVIEW","exit_reason":"blocked","notes":"x"}`
	w.piped("", "work", "claim", "t1", "--role", "critic", "--session", "s1")
	w.piped(exit, "work", "exit", "--session", "s1", "-")
	if out, code := w.inEditor([]string{"EDITOR=" + edit("write", `by editor\n`)}, "work",
		"unblock", "t1"); code != 0 || !strings.Contains(recorded(), `{"note":"by editor"}`) {
		t.Errorf("unblock: status %d: %s", code, out)
	}
	digest := w.digests()[0]
	if out, code := w.inEditor([]string{"EDITOR=" + edit("write", `by editor\n`)}, "blob", "redact",
		digest); code != 0 || !strings.Contains(recorded(), `"reason":"by editor"}`) {
		t.Errorf("redact: status %d: %s", code, out)
	}
	// A dash reads the terminal, not the editor; a text is a text.
	if out, code := w.inEditor([]string{"EDITOR=false"}, "tell", "A",
		"as an argument"); code != 0 || !strings.Contains(recorded(), `"text":"as an argument"`) {
		t.Errorf("status %d: %s", code, out)
	}
	if left := w.drafts(); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// A text that cannot be recorded is not lost.
func TestEditorKeepsRefusedText(t *testing.T) {
	w := newTerminalWorld(t)
	w.piped("", "run", "plan.md", "--no-wait")
	// While the user writes, someone else answers.
	out, code := w.inEditor(
		[]string{"EDITOR=signalbox answer Q-1 first >/dev/null; printf 'second\\n' >"}, "answer",
		"Q-1")
	if left := w.drafts(); code != 4 || len(left) != 1 ||
		!strings.Contains(out, "note: your text is still in "+left[0]) {
		t.Fatalf("status %d, kept %v: %s", code, left, out)
	}
	if data, err := os.ReadFile(w.drafts()[0]); err != nil || string(data) != "second\n" {
		t.Errorf("kept %q, %v", data, err)
	}
}
