package config

import (
	"fmt"
	"slices"
)

// Workspace is where agents work. In the text it may be only Kind.
type Workspace struct {
	// Kind is WorkspaceWorktree or WorkspaceShared. Empty means worktrees if there is a git
	// repository.
	Kind string `yaml:"kind"`
	// Remote is the address of a repository that all machines of the box reach, through which they
	// share commits. Empty means that they share them through the ledger.
	Remote string `yaml:"remote"`
}

func (Workspace) mainField() string { return "kind" }

// Shared reports whether all agents work in one folder.
func (w Workspace) Shared() bool { return w.Kind == WorkspaceShared }

func (c *Config) checkWorkspace(f *faults) {
	w, at := c.Workspace, setting("workspace")
	if !slices.Contains([]string{"", WorkspaceWorktree, WorkspaceShared}, w.Kind) {
		f.fail(at, fmt.Sprintf("write %s or %s", WorkspaceWorktree, WorkspaceShared),
			"%q is not a kind of workspace", w.Kind)
	}
	f.add(checkRemote(at.field("remote"), w.Remote))
	if w.Remote != "" && w.Shared() {
		f.fail(at.field("remote"), "remove one of the two",
			"has no effect with workspace: shared, because there are no commits to share")
	}
}
