package config

import (
	"strings"
	"testing"
)

func TestWorkspace(t *testing.T) {
	for text, want := range map[string]Workspace{
		"slots: 2\n":                                 {},
		"workspace: shared\n":                        {Kind: WorkspaceShared},
		"workspace: {kind: worktree}\n":              {Kind: WorkspaceWorktree},
		"workspace: {remote: 'ssh://h/r.git'}\n":     {Remote: "ssh://h/r.git"},
		"workspace: {remote: /srv/git/shop.git}\n":   {Remote: "/srv/git/shop.git"},
		"workspace: {kind: worktree, remote: hub}\n": {WorkspaceWorktree, "hub"},
	} {
		if got := mustParse(t, text).Workspace; got != want {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	}
	for text, fault := range map[string]string{
		"workspace: {remote: 'ext::sh -c x'}\n":            "is not a remote repository",
		"workspace: {remote: 'ext::x'}\n":                  "is not an address that signalbox pushes to",
		"workspace: {remote: '--upload-pack=x'}\n":         "is not a remote repository",
		"workspace: {remote: 'https://me:pw@h/r.git'}\n":   "has a user or a password",
		"workspace: {kind: shared, remote: 'ssh://h/r'}\n": "has no effect with workspace: shared",
		"workspace: {kind: tree}\n":                        "is not a kind of workspace",
	} {
		if _, _, faults := parse([]byte(text)); len(faults) == 0 ||
			!strings.Contains(faults[0].fault, fault) {
			t.Errorf("%q: %v, want %s", text, faults, fault)
		}
	}
	if mustParse(t, "workspace: {remote: 'ssh://h/r.git'}\n").Harmless() {
		t.Error("a team may send commits elsewhere without being trusted")
	}
}
