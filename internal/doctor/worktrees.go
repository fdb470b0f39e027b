package doctor

import (
	"context"
	"fmt"
	"slices"

	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/run/checks"
	"signalbox/internal/run/deliver"
	"signalbox/internal/run/ports"
	"signalbox/internal/run/workspace"
)

// worktrees checks whether worktrees can be made ready: the programs of setup commands must be
// there, patterns must match files, and ports must be free. It also checks whether finished work
// can be delivered.
func worktrees(ctx context.Context, c *config.Config, root, dir string) (found []box.Check) {
	if c.Ports > 0 {
		register, err := ports.Register()
		switch {
		case err != nil:
			found = append(found, withError(box.Check{Name: "ports", Health: box.Problem}, err))
		case !ports.Free(register, c.Ports):
			found = append(found, box.Check{Name: "ports", Health: box.Problem,
				Detail: fmt.Sprintf("there are no %d free TCP ports in a row", c.Ports),
				Fix:    "write a smaller number, or end programs that listen on many ports"})
		}
	}
	if c.Workspace.Shared() {
		return found // there are none
	}
	if err := deliver.Check(ctx, c, root); err != nil {
		found = append(found, withError(box.Check{Name: "delivery", Health: box.Problem}, err))
	}
	all, err := checks.DiagnoseSetup(c, locateProject(ctx, c, root), dir,
		projectFiles(ctx, c, root))
	if err != nil {
		found = append(found, withError(box.Check{Name: "setup", Health: box.Problem}, err))
	}
	for _, missing := range all {
		health := box.Warning
		if missing.Sure {
			health = box.Problem
		}
		found = append(found, box.Check{Name: "setup " + missing.Check, Health: health,
			Detail: missing.What, Fix: missing.Fix})
	}
	return append(found, copies(ctx, c, root)...)
}

// copies checks whether each pattern of files to copy matches an ignored file.
func copies(ctx context.Context, c *config.Config, root string) (found []box.Check) {
	if len(c.Copy) == 0 {
		return nil
	}
	ignored, err := workspace.IgnoredFiles(ctx, root)
	if err != nil {
		return nil // box.Doctor reports what is wrong with the repository
	}
	for _, pattern := range c.Copy {
		one := &config.Config{Copy: []string{pattern}}
		if !slices.ContainsFunc(ignored, one.Copies) {
			found = append(found, box.Check{Name: "copy", Health: box.Warning,
				Detail: fmt.Sprintf("%s matches no file that git ignores in %s", pattern, root),
				Fix:    "correct the pattern, or create the file; files that git does not ignore are committed and not copied"})
		}
	}
	return found
}
