package week_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// kind is what a step of the document asks the reader to do or to look at.
type kind int

const (
	kindFile    kind = iota // write the file
	kindSetting             // set the top-level settings in the file
	kindCommand             // run the command in a shell, and compare the output
	kindScreen              // wait until the screen is this
	kindKeys                // type the text
	kindOutput              // wait until the program on the screen ends, and compare what it leaves
)

// step is one thing that the document tells the reader to do, or shows.
type step struct {
	kind kind
	line int    // in the document, from 1
	name string // of the file; the command; the keys
	// text is the content of the file, or what the document shows. For kinds that show something,
	// lines from is its first line and to the line after it, from 0.
	text     string
	from, to int
}

var (
	fence     = regexp.MustCompile("^```(.*)$")
	keyInText = regexp.MustCompile("\\b(?i:(press|type)) (?:[a-z ]+ )??`([^`]+)`")
)

// steps finds the steps in a document. These are its code blocks, and what sentences tell the
// reader to press and type:
//
//	```console           commands that follow "$ ", each with its output
//	```text screen       the whole screen of the last command that has no output in the document; or a part of it, as in text screen lanes
//	```text output       what that command leaves when it ends
//	```sh FILE           a file, in any language
//	```yaml set FILE     settings to put into a file
//	Press `a`, type `yes` and press `enter`.
//
// Other blocks are not steps.
func steps(document string) (found []step, err error) {
	lines := strings.Split(document, "\n")
	for i := 0; i < len(lines); i++ {
		opening := fence.FindStringSubmatch(lines[i])
		if opening == nil {
			for _, key := range keyInText.FindAllStringSubmatch(lines[i], -1) {
				name := key[2]
				if strings.EqualFold(key[1], "press") {
					if name, err = keyCode(key[2]); err != nil {
						return nil, fmt.Errorf("line %d: %w", i+1, err)
					}
				}
				found = append(found, step{kind: kindKeys, line: i + 1, name: name})
			}
			continue
		}
		length := slices.Index(lines[i+1:], "```")
		if length < 0 {
			return nil, fmt.Errorf("line %d: the block has no end", i+1)
		}
		block := step{line: i + 1, from: i + 1, to: i + 1 + length}
		block.text = join(lines[block.from:block.to])
		switch words := strings.Fields(opening[1]); {
		case len(words) == 1 && words[0] == "console":
			commands, err := consoleSteps(lines, block.from, block.to)
			if err != nil {
				return nil, err
			}
			found = append(found, commands...)
		case len(words) >= 2 && words[0] == "text" && words[1] == "screen":
			block.kind, block.name = kindScreen, strings.Join(words[2:], " ")
			if _, known := parts[block.name]; !known {
				return nil, fmt.Errorf("line %d: a screen has no part %q", i+1, block.name)
			}
			found = append(found, block)
		case len(words) == 2 && words[0] == "text" && words[1] == "output":
			block.kind = kindOutput
			found = append(found, block)
		case len(words) == 2:
			block.kind, block.name = kindFile, words[1]
		case len(words) == 3 && words[1] == "set":
			block.kind, block.name = kindSetting, words[2]
		}
		if block.name != "" && block.kind != kindScreen {
			// A reader does not see the name in the first line of the block.
			if before := strings.Join(lines[max(0, i-4):i], "\n"); !strings.Contains(before, "`"+
				block.name+"`") {
				return nil, fmt.Errorf("line %d: the text before the block does not name %s", i+1,
					block.name)
			}
			found = append(found, block)
		}
		i = block.to
	}
	return found, nil
}

// parts returns the part of a screen with a name; the whole has none.
var parts = map[string]func(screen string) string{
	"": func(screen string) string { return screen },
	// The tasks, up to the first empty line.
	"lanes": func(screen string) string {
		before, _, _ := strings.Cut(screen, "\n\n")
		return before
	},
	// What the user is asked, in a frame.
	"box": func(screen string) string {
		_, after, _ := strings.Cut(screen, "\n╭")
		inside, _, found := strings.Cut(after, "╯")
		if !found {
			return ""
		}
		return "╭" + inside + "╯"
	},
}

// consoleSteps returns the commands in a block and their output.
func consoleSteps(lines []string, from, to int) (found []step, err error) {
	for i := from; i < to; i++ {
		name, isCommand := strings.CutPrefix(lines[i], "$ ")
		if !isCommand {
			if len(found) == 0 {
				return nil, fmt.Errorf("line %d: output without a command", i+1)
			}
			continue
		}
		end := i + 1
		for end < to && !strings.HasPrefix(lines[end], "$ ") {
			end++
		}
		found = append(found, step{kind: kindCommand, line: i + 1, name: name,
			text: join(lines[i+1 : end]), from: i + 1, to: end})
	}
	return found, nil
}

func join(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// keyCode returns what a terminal sends for a key.
func keyCode(name string) (string, error) {
	known := map[string]string{"enter": "\r", "esc": "\x1b", "tab": "\t", "space": " ",
		"ctrl-c": "\x03", "ctrl-d": "\x04", "ctrl-s": "\x13",
		"up": "\x1b[A", "down": "\x1b[B", "backspace": "\x7f"}
	if code, ok := known[strings.ToLower(name)]; ok {
		return code, nil
	}
	if len([]rune(name)) == 1 {
		return name, nil
	}
	return "", fmt.Errorf("there is no key %q", name)
}

// rewrite returns the document with the lines that a step shows replaced. Steps must be rewritten
// from the last to the first.
func rewrite(document string, s step, shown string) string {
	lines := strings.Split(document, "\n")
	return strings.Join(slices.Concat(lines[:s.from], strings.Split(strings.TrimSuffix(shown, "\n"),
		"\n"), lines[s.to:]), "\n")
}

var topLevel = regexp.MustCompile(`(?m)^[a-z_]+:`)

// set returns settings with the top-level settings of more added, or replaced.
func set(settings, more string) string {
	for _, added := range sections(more) {
		replaced := false
		all := sections(settings)
		for i := range all {
			if topLevel.FindString(all[i]) == topLevel.FindString(added) {
				all[i], replaced = added, true
			}
		}
		if !replaced {
			all = append(all, added)
		}
		settings = strings.Join(all, "")
	}
	return settings
}

// sections splits settings before each top-level setting.
func sections(settings string) (all []string) {
	starts := topLevel.FindAllStringIndex(settings, -1)
	for i, start := range starts {
		end := len(settings)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		all = append(all, settings[start[0]:end])
	}
	return all
}
