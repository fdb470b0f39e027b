package checks

import (
	"io/fs"
	"slices"

	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/run/checkrun"
	"signalbox/internal/run/project"
)

// Missing is what a configured check or setup command needs and does not find.
type Missing struct {
	Check string
	checkrun.Cause
}

// Diagnose returns what the configured checks of a project need and do not find, without running
// them. dir is the folder of the box, and files are those of the project that a check sees.
func Diagnose(c *config.Config, in project.Project, dir string,
	files fs.FS) (missing []Missing, err error) {
	site, err := in.Site(c, dir)
	if err != nil {
		return nil, err
	}
	dir = in.ExampleFolder(site)
	contained := containCheck(site, project.ExampleWork, dir, nil, contain.Ports{})
	for _, check := range checksOf(c.Checks) {
		for _, e := range environmentsOf(c) {
			if len(check.Environments) > 0 && !slices.Contains(check.Environments, e.Name) {
				continue
			}
			p := contained(check, e, project.ExampleSession)
			for _, cause := range checkrun.Diagnose(files, check, e, p) {
				if cause.File && (len(c.Setup) > 0 || len(c.Copy) > 0) {
					continue // the worktree may have it once it is prepared
				}
				if found := (Missing{check.Name, cause}); !slices.Contains(missing, found) {
					missing = append(missing, found)
				}
			}
		}
	}
	return missing, nil
}

// DiagnoseSetup is Diagnose for the setup commands. files are those of the project that a new
// worktree has. Only the first command is sure to find no other files.
func DiagnoseSetup(c *config.Config, in project.Project, dir string,
	files fs.FS) (missing []Missing, err error) {
	site, err := in.Site(c, dir)
	if err != nil {
		return nil, err
	}
	dir = in.ExampleFolder(site)
	for i, setup := range c.Setup {
		command := checkrun.Check{Name: setup.Name, Command: setup.Command}
		p := site.Setup(contain.Setup{
			Config: setup, Work: project.ExampleWork, Session: project.ExampleSession, Dir: dir})
		for _, cause := range checkrun.Diagnose(files, command, checkrun.Environment{}, p) {
			if cause.File && (i > 0 || len(c.Copy) > 0) {
				continue // the commands before it may create it
			}
			cause.What, cause.Fix = aboutSetup.Replace(cause.What), aboutSetup.Replace(cause.Fix)
			missing = append(missing, Missing{setup.Name, cause})
		}
	}
	return missing, nil
}
