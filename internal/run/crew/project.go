package crew

import (
	"context"

	"signalbox/internal/config"
	"signalbox/internal/run/contain"
	"signalbox/internal/run/project"
	"signalbox/internal/run/workspace"
)

// These are the names of package project in the files that transport commits and run checks.
type Project = project.Project

const TreesFolder = workspace.TreesFolder

func FindProject(ctx context.Context, c *config.Config, root, dir string) (Project, error) {
	return project.Find(ctx, c, root, dir)
}

func LocateProject(ctx context.Context, c *config.Config, root string) (Project, error) {
	return project.Locate(ctx, c, root)
}

func SiteOf(c *config.Config, in Project, dir string) (contain.Site, error) {
	return in.Site(c, dir)
}

const exampleSession, exampleWork = project.ExampleSession, project.ExampleWork

func exampleFolder(site contain.Site, in Project) string { return in.ExampleFolder(site) }
