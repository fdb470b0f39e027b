package toolbox

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSecretNames(t *testing.T) {
	for name, want := range map[string]bool{
		".env": true, ".ENV": true, ".env.local": true, ".envrc": true, "server.pem": true, "tls.KEY": true, "id_rsa": true, "id_rsa.old": true, "id_ed25519": true,
		".netrc": true, ".npmrc": true, ".ssh": true, "store.p12": true,
		".env.example": false, "id_rsa.pub": false, "env": false, "environment.go": false, "key": false, "key.go": false, "pem": false, "keys.md": false, "monkey": false,
	} {
		if isSecret(name) != want {
			t.Errorf("%s: %v, want %v", name, !want, want)
		}
	}
}

// Secrets, and what a .gitignore excludes, cannot be reached by any path.
func TestInaccessiblePaths(t *testing.T) {
	dir := folderOf(t, `
-- .gitignore --
*.log
/out/
!kept.log
-- .env --
needle
-- .env.example --
needle
-- a.log --
needle
-- kept.log --
needle
-- deploy/tls.key --
needle
-- deploy/.gitignore --
local.yaml
-- deploy/local.yaml --
needle
-- deploy/all.yaml --
needle
-- out/kept.log --
needle
-- .ssh/config --
needle
`)
	link(t, dir, "plain.txt", ".env")
	link(t, dir, "linked.txt", "deploy/local.yaml")
	search, read := SearchCode(dir), ReadFile(dir)
	for _, path := range []string{".env", "a.log", "deploy/tls.key", "deploy/local.yaml", "out", "out/kept.log", ".ssh", ".ssh/config", "plain.txt", "linked.txt"} {
		fails(t, read, args{"path": path}, "not accessible to tools", "continue without it")
		fails(t, search, args{"query": "needle", "path": path}, "not accessible to tools")
	}
	fails(t, read, args{"path": ".env.local"}, "not accessible to tools") // the error does not reveal whether it exists
	for _, path := range []string{".env.example", "kept.log", "deploy/all.yaml"} {
		has(t, ok(t, read, args{"path": path}), "needle")
	}
	for _, in := range []args{{"query": "needle"}, {"query": "needle", "path": "**/*"}, {"query": "needle", "path": ".e*"}, {"query": "some needle"}} {
		for _, s := range use(t, search, in).Sources {
			if s.Path != ".env.example" && s.Path != "kept.log" && s.Path != "deploy/all.yaml" {
				t.Errorf("%v finds %s", in, s.Path)
			}
		}
	}
	want := ". is a folder with 10 entries:\n.env (7 bytes) (not accessible to tools)\n.env.example (7 bytes)\n.gitignore (22 bytes)\n.ssh/ (not accessible to tools)\na.log (7 bytes) (not accessible to tools)\n" +
		"deploy/\nkept.log (7 bytes)\nlinked.txt (link)\nout/ (not accessible to tools)\nplain.txt (link)\n"
	if diff := cmp.Diff(want, ok(t, read, args{"path": "."})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	has(t, ok(t, read, args{"path": "deploy"}), "all.yaml (7 bytes)\n", "local.yaml (7 bytes) (not accessible to tools)\n", "tls.key (7 bytes) (not accessible to tools)\n")
}

func TestPick(t *testing.T) {
	tools := []Tool{{Name: "read_file", ReadOnly: true}, {Name: "write"}, {Name: "files__get", ReadOnly: true}, {Name: "files__put"}}
	for name, c := range map[string]struct {
		names, kept, unknown []string
	}{
		"none":       {[]string{}, nil, nil},
		"names":      {[]string{"write", "read_file"}, []string{"read_file", "write"}, nil},
		"all of one": {[]string{"files__*"}, []string{"files__get", "files__put"}, nil},
		"read-only":  {[]string{ReadOnlyTools, "write"}, []string{"read_file", "write", "files__get"}, nil},
		"unknown":    {[]string{"wrote", "mail__*", "wrote"}, nil, []string{"wrote", "mail__*"}},
	} {
		kept, unknown := Pick(tools, c.names)
		var names []string
		for _, tool := range kept {
			names = append(names, tool.Name)
		}
		if diff := cmp.Diff([][]string{c.kept, c.unknown}, [][]string{names, unknown}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if _, unknown := Pick(nil, []string{ReadOnlyTools}); unknown != nil {
		t.Errorf("no tool is read-only, and %q is unknown", unknown)
	}
	for name, want := range map[string]string{"wrote": "; did you mean write?", "readfile": "; did you mean read_file?", "sing_a_song": ""} {
		if got := Suggest(name, tools); got != want {
			t.Errorf("suggestion for %s: %q, want %q", name, got, want)
		}
	}
}
