package config

import (
	"errors"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"signalbox"
)

// TemplateFolder is the folder at the top of a repository with the team's templates: ROLE.md is the
// prompt of a role.
const TemplateFolder = "prompts"

// TeamTemplate is Template for the top of a repository.
var TeamTemplate = `## The configuration that everybody who works on this repository shares. What counts is the last commit of the base branch. Settings
## in .signalbox/signalbox.yaml, which is not committed, count before these. "signalbox trust" decides whether this file may run
## programs on a machine. Every setting is optional: to change one, remove the "# " in front of it. The values are the defaults; a block
## marked "Example:" shows values of your own instead. Reference: docs/reference/configuration.md. Write times as 90s, 15m or 2h.` +
	// without what only a box may set
	Template[strings.Index(Template, "\n\n## The agent for every role"):]

// Team is the configuration that a team shares in its repository. Settings of the box count before
// those of the team.
type Team struct {
	// Name is what errors call the team's FileName, and Text its content.
	Name string
	Text []byte
	// Files are the other files, by their paths in the repository, with slashes: templates, and the
	// files that Text names.
	Files []string
	// Dir is a folder with copies of the files. It need not exist if there are none. Copy is the
	// folder for Config.Team.
	Dir, Copy string
	// Root is the top of the repository. Relative paths of folders that are not in Files begin
	// there.
	Root string
}

// LoadTeam is Load with the team's configuration under that of the box. A nil team is none.
func LoadTeam(dir string, team *Team) (*Config, error) {
	c, _, err := load(dir, team)
	if err == nil && team != nil {
		c.useTeam(team)
	}
	return c, err
}

// load is LoadTeam without what the team's configuration implies, and with the places of the
// settings.
func load(dir string, team *Team) (*Config, places, error) {
	name := filepath.Join(dir, FileName)
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, signalbox.CodeFailed.Errorf("check that it is a file that you may read",
			"cannot read the configuration: %w", err)
	}
	if err != nil && team == nil {
		return Default(), nil, nil
	}
	c, shared, teamName := Default(), places{}, ""
	if team != nil {
		if _, _, err := ParseTeam(team.Name, team.Text); err != nil {
			return nil, nil, withFaultsOf(err, name, text)
		}
		shared, _ = read(team.Text, c)
		teamName = team.Name
	}
	own, faults := read(text, c)
	all := shared.overriddenBy(own)
	c.complete(all, &faults)
	c.findFiles(dir, team, all, &faults)
	if err := all.locate(name, teamName, faults); err != nil {
		return nil, nil, err
	}
	return c, all, nil
}

// withFaultsOf adds what is wrong in the text of a box to an error of the team's configuration. A
// name may be of something that the team defines, so only the faults of reading are certain.
func withFaultsOf(team error, name string, text []byte) error {
	both, ok := errors.AsType[*Error](team)
	if !ok {
		return team
	}
	for i := range both.Faults {
		both.Faults[i].File = both.File
	}
	places, faults := read(text, Default())
	if own, ok := errors.AsType[*Error](places.locate(name, "", faults)); ok {
		for _, fault := range own.Faults {
			fault.File = name
			both.Faults = append(both.Faults, fault)
		}
	}
	return team
}

// overriddenBy returns the places of the settings that count if own is read over a team's settings.
// A list replaces the other list with everything in it.
func (ps places) overriddenBy(own places) places {
	all := places{}
	for at, place := range ps {
		replaced := false
		for end := strings.Index(string(at), pathEnd+pathItem); end >= 0 && !replaced; {
			replaced = own.has(at[:end+1])
			next := strings.Index(string(at[end+1:]), pathEnd+pathItem)
			if next < 0 {
				break
			}
			end += 1 + next
		}
		if !replaced {
			place.team = true
			all[at] = place
		}
	}
	for at, place := range own {
		if place.value != nil || !all.has(at) { // a null sets nothing
			all[at] = place
		}
	}
	return all
}

// optionalRoles are the roles that only work if they are configured.
var optionalRoles = []signalbox.Role{signalbox.RoleBusinessAnalyst, signalbox.RoleExpertCreator}

// useTeam adds what a team's configuration implies: its templates, and that tasks must not edit it.
func (c *Config) useTeam(team *Team) {
	c.Team = team.Copy
	for _, name := range append([]string{FileName}, team.Files...) {
		c.TeamFiles = append(c.TeamFiles, filepath.Join(team.Root, filepath.FromSlash(name)))
	}
	c.Protected = append(slices.Clone(c.Protected), FileName, TemplateFolder+"/"+anyDepth)
	for _, name := range team.Files {
		if !strings.HasPrefix(name, TemplateFolder+"/") && !strings.ContainsAny(name, `*?[\`) {
			c.Protected = append(c.Protected, name)
		}
	}
	for _, name := range AgentRoles() {
		file := TemplateOf(name)
		_, configured := c.Roles[name]
		if !slices.Contains(team.Files, file) || !configured &&
			slices.Contains(optionalRoles, name) {
			continue
		}
		role := c.RoleOf(name)
		role.Prompt = orDefault(role.Prompt, filepath.Join(team.Dir, filepath.FromSlash(file)))
		c.Roles = maps.Clone(c.Roles)
		if c.Roles == nil {
			c.Roles = map[signalbox.Role]Role{}
		}
		c.Roles[name] = role
	}
}

// TemplateOf returns the path of the team's template for a role, below the top of the repository.
func TemplateOf(role signalbox.Role) string { return path.Join(TemplateFolder, string(role)+".md") }

// TeamPath is a file, or a folder with Markdown files, that a team's configuration names: a path
// below the top of the repository, with slashes.
type TeamPath struct {
	Path   string
	Folder bool
}

// ParseTeam parses a team's configuration by itself, and returns the files of the repository that
// it names. The team's settings must be valid without those of a box. name is what errors call the
// file.
func ParseTeam(name string, text []byte) (*Config, []TeamPath, error) {
	c, places, faults := parse(text)
	var named []TeamPath
	for name, set := range map[string]bool{"journal": places.has(setting("journal")),
		"cluster": c.Cluster.isSet() || c.Cluster.SecretFile != DefaultSecretFile} {
		if len(faults) == 0 && set { // a repository must not decide where the ledger is
			faults.fail(setting(name), "set it in .signalbox/signalbox.yaml on each machine",
				"not valid in a team's configuration")
		}
	}
	if len(faults) == 0 {
		for _, f := range c.fileSettings() {
			switch file := filepath.ToSlash(f.name); {
			case file == "" || f.project:
			case !filepath.IsLocal(f.name) || strings.ContainsAny(file, "\\\x00") ||
				path.Clean(file) == ".":
				faults.fail(f.at, "write the path of a committed file, relative to the top of the repository", "%q is not a path in the repository", f.name)
			default:
				named = append(named, TeamPath{path.Clean(file), f.folder})
			}
		}
	}
	if err := places.locate(name, "", faults); err != nil {
		return nil, nil, err
	}
	return c, named, nil
}

// Harmless reports whether the settings of a team can neither run a program nor allow or cost more
// than the defaults. Every setting that is not listed here counts as dangerous unless it has its
// default.
func (c *Config) Harmless() bool {
	rest, standard := *c, Default()
	if rest.Slots < standard.Slots {
		rest.Slots = standard.Slots
	}
	if rest.Approve != ApproveNever {
		rest.Approve = standard.Approve
	}
	if rest.Deliver.harmless() {
		rest.Deliver = standard.Deliver
	}
	rest.Keyed, rest.Protected, rest.Budget = standard.Keyed, standard.Protected, standard.Budget
	rest.ProtectedExisting = standard.ProtectedExisting
	return reflect.DeepEqual(&rest, standard)
}
