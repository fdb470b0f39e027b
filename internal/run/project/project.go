// Package project finds what agents work on: a git repository with a worktree for each task, or one
// shared folder. It also explains what the agents, checks and setup commands of a box may do there.
package project

import (
	"context"
	"path/filepath"

	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/run/workspace"
)

// Project is what the agents work on.
type Project struct {
	// Root is the project's folder.
	Root string
	// Repo has a worktree for each task; nil means that all agents work in Root.
	Repo *workspace.Repo
}

// Find returns the project in a folder, as the configuration says: a git repository with a worktree
// for each task, or one shared folder. dir is the box's folder.
func Find(ctx context.Context, c *config.Config, root, dir string, except ...string) (Project,
	error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return Project{}, err
	}
	if c.Workspace.Shared() {
		return Project{Root: root}, nil
	}
	repo, err := workspace.Find(ctx, root, filepath.Join(dir, workspace.TreesFolder),
		except...)
	if err == nil && c.Deliver.Target != "" {
		err = repo.UseBase(ctx, c.Deliver.Target)
	}
	if err != nil {
		return Project{}, err
	}
	return Project{Root: root, Repo: repo}, nil
}

// Locate returns the project in a folder, only to tell what its programs may do. Unlike Find it
// changes nothing.
func Locate(ctx context.Context, c *config.Config, root string) (Project, error) {
	root, err := filepath.Abs(root)
	if err != nil || c.Workspace.Shared() {
		return Project{Root: root}, err
	}
	repo, err := workspace.Locate(ctx, root)
	if err != nil {
		return Project{}, err
	}
	return Project{Root: root, Repo: repo}, nil
}

// Site returns where the programs of a box run. dir is the box's folder.
func (p Project) Site(c *config.Config, dir string) (contain.Site, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return contain.Site{}, err
	}
	site := contain.Site{Host: contain.ThisHost(), Config: c, Box: dir, Project: p.Root,
		Cache: contain.OpenCache(dir, c)}
	if p.Repo != nil {
		site.Git = p.Repo.GitFolders()
	}
	return site, nil
}
