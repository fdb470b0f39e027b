package crew

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/internal/run/turnprompt"

	"signalbox"
)

// maxConflictingFiles is how many files one signal can name.
const maxConflictingFiles = 50

// conflictingFiles returns the files that a FILE CONFLICT names, each once: on its line and on the
// lines below it. dir is the agent's workspace.
func conflictingFiles(sig signalbox.Signal, dir string) (files []string) {
	add := func(names []string) {
		for _, name := range names {
			if inside, err := filepath.Rel(dir, name); err == nil && filepath.IsLocal(inside) {
				name = filepath.ToSlash(inside) // the workspaces of other tasks are elsewhere
			}
			if !slices.Contains(files, name) && len(files) < maxConflictingFiles {
				files = append(files, name)
			}
		}
	}
	_, line, _ := strings.Cut(sig.Raw, ":")
	line, _, _ = strings.Cut(line, " key:"+turnprompt.KeyPlaceholder)
	names, _ := fileNames(strings.TrimSpace(line), dir)
	add(names)
	for line := range strings.Lines(body(sig.Body).text("text")) {
		line = strings.TrimSpace(line)
		item := strings.TrimLeft(line, "-*+ ")
		names, exact := fileNames(item, dir)
		if !exact && (item == line || !isFileItem(item, names, dir)) { // a sentence
			break
		}
		add(names)
	}
	return files
}

// isFileItem reports whether an item of a list begins with a file: it is one word, or its first
// word exists or looks like a path.
func isFileItem(item string, names []string, dir string) bool {
	return !strings.Contains(item, " ") || len(names) > 0 &&
		(fileExists(names[0], dir) || strings.ContainsAny(names[0], "./"))
}

// fileNames returns the names of files in a text: quoted ones, existing ones, and between commas
// those that look like a path. If the text begins with none of these, its first word is a name.
// exact reports that there is nothing else in the text.
func fileNames(text, dir string) (names []string, exact bool) {
	if fileExists(text, dir) {
		return []string{text}, true
	}
	exact = text != ""
	for text != "" {
		quoted := strings.IndexByte("\"'`", text[0]) >= 0
		if i := strings.IndexByte(text[1:], text[0]); quoted && i > 0 {
			names = append(names, text[1:1+i])
			if text = strings.TrimSpace(text[i+2:]); text != "" && text[0] != ',' {
				return names, false
			}
			text = strings.TrimLeft(text, ", ")
			continue
		}
		part, rest, _ := strings.Cut(text, ",")
		part, text = strings.TrimSpace(part), strings.TrimLeft(rest, ", ")
		word, _, explained := strings.Cut(part, " ") // as in "a.go held by T7"
		word = strings.Trim(word, "\"'`")
		if cut := strings.TrimRight(word, ".;:!"); cut != "" && !fileExists(word, dir) {
			word = cut
		}
		switch {
		case fileExists(part, dir):
			names = append(names, part)
		case fileExists(word, dir), len(names) == 0, !explained && strings.ContainsAny(word, "./"):
			exact = exact && len(names) > 0 && !explained
			names = append(names, word)
		default:
			return names, false
		}
	}
	return names, exact
}

// fileExists reports whether a workspace has a file of that name, which may be absolute.
func fileExists(name, dir string) bool {
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, filepath.FromSlash(name))
	}
	inside, err := filepath.Rel(dir, name)
	if err != nil || inside == "." || !filepath.IsLocal(inside) {
		return false
	}
	_, err = os.Lstat(name)
	return err == nil
}
