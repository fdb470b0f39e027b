package survey

import (
	"fmt"
	"slices"
	"strings"

	"signalbox/internal/config"
)

// Box returns the configuration of a new box. The agent is set, since an agent program starts only
// in a run that the user starts. The other commands are comments: they were not tried, they run
// without being asked for before every merge, and a check that fails on the base stops every task.
// If nothing was found, it is [config.Template].
func (f Found) Box() string {
	text := config.Template
	if len(f.Agents) > 0 {
		var lines strings.Builder
		fmt.Fprintf(&lines, "## signalbox init found: %s.\n", strings.Join(f.agents(), "; "))
		fmt.Fprintf(&lines, "agent: %s\n", f.Agents[0].Name)
		text = strings.Replace(text, "# agent: claude\n", lines.String(), 1)
	}
	return f.withCommands(text)
}

// Team returns the configuration of a team, with the commands of [Found.Box]. It names no agent:
// each member has other ones.
func (f Found) Team() string { return f.withCommands(config.TeamTemplate) }

// agents says of each agent program whether it is logged in.
func (f Found) agents() (list []string) {
	for _, a := range f.Agents {
		if a.NoLogin != "" {
			list = append(list, a.Name+", without a login: "+a.NoLogin)
			continue
		}
		list = append(list, a.Name+", with no login missing as far as can be seen")
	}
	return list
}

// withCommands puts the commands in the place of the examples.
func (f Found) withCommands(text string) string {
	if len(f.Checks) > 0 {
		var b strings.Builder
		b.WriteString("## signalbox init found these, and has not tried them: keep what you need, and " +
			"remove the \"# \" in front of it.\n## A check can also have a timeout, environments, " +
			"env_pass and a sandbox.\n# checks:\n")
		for _, c := range f.Checks {
			fmt.Fprintf(&b, "#   - name: %s\n#     command: %s # %s\n", c.Name, c.Command, c.source())
		}
		text = replaceExample(text, "## Checks.", b.String())
	}
	if len(f.Setup) > 0 {
		var b strings.Builder
		b.WriteString("## signalbox init found this, and has not tried it: remove the \"# \" if " +
			"agents or checks need what it installs.\n## A command can also have a name, a timeout, " +
			"env_pass and a sandbox.\n# setup:\n")
		for _, c := range f.Setup {
			fmt.Fprintf(&b, "#   - command: %s # %s\n#     files: [%s]\n", c.Command, c.source(),
				strings.Join(c.Files, ", "))
		}
		text = replaceExample(text, "## How each worktree is prepared", b.String())
	}
	return text
}

// replaceExample replaces the example under a heading of the template.
func replaceExample(text, heading, block string) string {
	const mark = " Example:\n"
	start := strings.Index(text, heading)
	start += strings.Index(text[start:], mark)
	end := start + len(mark)
	for strings.HasPrefix(text[end:], "# ") {
		end += strings.IndexByte(text[end:], '\n') + 1
	}
	return text[:start] + "\n" + block + text[end:]
}

// Notes tell the user what was found, and what became of it in the configuration in a file.
func (f Found) Notes(file string) (notes []string) {
	for i, about := range f.agents() {
		if i == 0 {
			about += "; " + file + " names it"
		}
		notes = append(notes, "found "+about)
	}
	return append(notes, f.CommandNotes(file)...)
}

// CommandNotes are the part of Notes about commands.
func (f Found) CommandNotes(file string) []string {
	if len(f.Checks) == 0 {
		return nil
	}
	var names, files []string
	for _, c := range f.Checks {
		names = append(names, c.Name)
		if !slices.Contains(files, c.File) {
			files = append(files, c.File)
		}
	}
	return []string{fmt.Sprintf("found probable checks in %s: %s; they are comments in %s until you "+
		"remove the \"# \" in front of them", strings.Join(files, ", "), strings.Join(names, ", "),
		file)}
}
