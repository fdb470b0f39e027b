package doctor

import (
	"context"

	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/run/crew"
)

// worktrees checks whether worktrees can be made ready: the programs of setup commands must be there.
func worktrees(ctx context.Context, c *config.Config, root, dir string) (found []box.Check) {
	if c.Workspace == config.WorkspaceShared {
		return nil // there are none
	}
	project := locateProject(ctx, c, root)
	if len(c.Setup) > 0 {
		all, err := crew.DiagnoseSetup(c, project, dir, projectFiles(ctx, c, root))
		if err != nil {
			found = append(found, withError(box.Check{Name: "setup", Health: box.Problem}, err))
		}
		for _, missing := range all {
			health := box.Warning
			if missing.Sure {
				health = box.Problem
			}
			found = append(found, box.Check{Name: "setup " + missing.Check, Health: health, Detail: missing.What, Fix: missing.Fix})
		}
	}
	return found
}
