package cli

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"

	"signalbox"
)

// scissors is the line from which on the text in the editor is ignored, as in git commit.
const scissors = "# ------------------------ >8 ------------------------"

// edit opens an editor and returns what the user wrote above the scissors. The file is kept until
// the command has succeeded.
func edit(p *Program, editor, name, about string) (string, error) {
	file, err := os.CreateTemp("", "signalbox-*.md")
	if err != nil {
		return "", err
	}
	p.draft = file.Name()
	_, err = file.WriteString(editorText(name, about))
	if err := errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	if err := runEditor(p, editor, p.draft); err != nil {
		return "", signalbox.CodeFailed.Errorf("VISUAL or EDITOR names it: "+editor,
			"the editor failed, so nothing was recorded: %w", err)
	}
	data, err := os.ReadFile(p.draft)
	if err != nil {
		return "", err
	}
	text := writtenText(string(data))
	if text == "" {
		removeDraft(p)
		return "", signalbox.CodeFailed.Errorf("write something above the line with the scissors",
			"%s is empty, so nothing was recorded", name)
	}
	return text, nil
}

// editorText returns what the editor shows: an empty line for the text, and comments below the
// scissors.
func editorText(name, about string) string {
	lines := []string{"", scissors, "# Write " + name +
		" above this line. Everything from it on is ignored.",
		"# If you write nothing, nothing is recorded."}
	if about = strings.TrimRight(about, "\n"); about != "" {
		lines = append(lines, "#")
		for line := range strings.SplitSeq(about, "\n") {
			lines = append(lines, strings.TrimRight("# "+Printable(line), " "))
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// writtenText returns what the user wrote. If the scissors are gone, lines that begin with # are
// comments.
func writtenText(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	above, _, found := strings.Cut("\n"+text, "\n"+scissors)
	var lines []string
	for line := range strings.SplitSeq(above, "\n") {
		if found || !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimRight(line, " \t"))
		}
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// runEditor runs the editor on a file. Like git, it leaves the command, which may have arguments,
// to the shell.
func runEditor(p *Program, editor, file string) error {
	p.Out.Flush() // Main reports a write error
	command := exec.Command("sh", "-c", editor+` "$@"`, editor, file)
	if runtime.GOOS == "windows" {
		words := append(strings.Fields(editor), file)
		command = exec.Command(words[0], words[1:]...)
	}
	command.Stdin, command.Stdout, command.Stderr = p.Stdin, p.Stdout, p.Stderr
	// An interrupt in the editor is for the editor.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	return command.Run()
}

// removeDraft removes the file with the text of an editor.
func removeDraft(p *Program) {
	if p.draft != "" {
		os.Remove(p.draft)
		p.draft = ""
	}
}

// keepDraft says where the text of an editor is after a command has failed, so that the user need
// not write it again.
func keepDraft(p *Program) {
	if p.draft == "" {
		return
	}
	if data, err := os.ReadFile(p.draft); err == nil && writtenText(string(data)) == "" {
		removeDraft(p)
		return
	}
	p.Say("note", "your text is still in "+p.draft)
}
