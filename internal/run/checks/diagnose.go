package checks

import (
	"io/fs"
	"slices"

	"signalbox/internal/run/contain"
	"signalbox/internal/run/workspace"
)

// exampleSession is the session of a program that is only explained, and exampleWork its task.
const (
	exampleSession = "SESSION"
	exampleWork    = "T1"
)

// Missing is what a configured check or setup command needs and does not find.
type Missing struct {
	Check string
	workspace.Cause
}

// Diagnose returns what the configured checks need and do not find, without running them. dir is a
// folder that a check would run in, and files are those of the project that it sees.
func Diagnose(site contain.Site, dir string, files fs.FS) (missing []Missing) {
	c := site.Config
	contained := containCheck(site, exampleWork, dir, nil, contain.Ports{})
	for _, check := range checksOf(c) {
		for _, e := range environmentsOf(c) {
			if len(check.Environments) > 0 && !slices.Contains(check.Environments, e.Name) {
				continue
			}
			p := contained(check, e, exampleSession)
			for _, cause := range workspace.Diagnose(files, check, e, p) {
				if cause.File && (len(c.Setup) > 0 || len(c.Copy) > 0) {
					continue // the worktree may have it once it is prepared
				}
				if found := (Missing{check.Name, cause}); !slices.Contains(missing, found) {
					missing = append(missing, found)
				}
			}
		}
	}
	return missing
}

// DiagnoseSetup returns what the setup commands need and do not find, without running them. dir is
// a folder that they would run in, and files are those of the project that a new worktree has. Only
// the first command is sure to find no other files.
func DiagnoseSetup(site contain.Site, dir string, files fs.FS) (missing []Missing) {
	c := site.Config
	for i, setup := range c.Setup {
		command := workspace.Check{Name: setup.Name, Command: setup.Command}
		p := site.Setup(contain.Setup{
			Config: setup, Work: exampleWork, Session: exampleSession, Dir: dir})
		for _, cause := range workspace.Diagnose(files, command, workspace.Environment{}, p) {
			if cause.File && (i > 0 || len(c.Copy) > 0) {
				continue // the commands before it may create it
			}
			cause.What, cause.Fix = aboutSetup.Replace(cause.What), aboutSetup.Replace(cause.Fix)
			missing = append(missing, Missing{setup.Name, cause})
		}
	}
	return missing
}
