package git

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// trusted are the settings that git gets from the configuration of the user and the system, which
// agents in a container cannot write. They change how files are converted, ignored and written.
// None names a command.
var trusted = []string{"core.autocrlf", "core.eol", "core.excludesfile", "core.attributesfile",
	"core.fsync", "core.fsyncmethod"}

// harmless are the settings that git gets from the repository's configuration too. An agent that
// sets them changes only how its own commits look, and which changes git sees.
var harmless = []string{"user.name", "user.email", "core.filemode"}

// sparse are the settings of a sparse checkout. They are used in worktrees of people.
var sparse = []string{"core.sparsecheckout", "core.sparsecheckoutcone"}

// readSettings reads the configuration of the system, the user and the repository, and selects the
// settings to use.
func (r *Repository) readSettings(ctx context.Context, dir string) error {
	out, stderr, err := r.inspect(ctx, dir, "config", "--list", "--show-scope", "-z")
	if err != nil {
		return fmt.Errorf("git config: %w: %s", err, strings.TrimSpace(stderr))
	}
	found := map[string]bool{}
	for fields := strings.Split(out, "\x00"); len(fields) > 1; fields = fields[2:] {
		scope := fields[0]
		name, value, hasValue := strings.Cut(fields[1], "\n")
		setting := name
		if hasValue { // a name without a value means true
			setting += "=" + value
		}
		ofUser := scope == "system" || scope == "global"
		inRepository := scope == "local" || scope == "worktree"
		r.ownSSH = r.ownSSH || ofUser && name == "core.sshcommand"
		switch {
		case ofUser && slices.Contains(trusted, name), (ofUser || inRepository) &&
			slices.Contains(harmless, name):
			r.Settings = append(r.Settings, setting)
			found[name] = true
		case (ofUser || inRepository) && slices.Contains(sparse, name):
			r.sparse = append(r.sparse, setting)
		case inRepository && name == "extensions.refstorage":
			r.refFormat, _, _ = strings.Cut(value, ":") // an optional address follows
		}
		if remote, push, ok := remoteName(name); ok && (ofUser || inRepository) &&
			(push || r.Remotes[remote] == "") {
			if r.Remotes == nil {
				r.Remotes = map[string]string{}
			}
			r.Remotes[remote] = value
		}
		if filter, ok := filterName(name); ok && !slices.Contains(r.Filters, filter) &&
			(ofUser || inRepository) {
			r.Filters = append(r.Filters, filter)
		}
	}
	r.Identity = found["user.name"] && found["user.email"]
	return nil
}

// remoteName returns the X of remote.X.url and of remote.X.pushurl, which counts before it.
func remoteName(name string) (remote string, push, ok bool) {
	rest, found := strings.CutPrefix(name, "remote.")
	dot := strings.LastIndex(rest, ".")
	if !found || dot < 1 {
		return "", false, false
	}
	push = rest[dot+1:] == "pushurl"
	return rest[:dot], push, push || rest[dot+1:] == "url"
}

// filterName returns the X of filter.X.clean and the like.
func filterName(name string) (string, bool) {
	rest, found := strings.CutPrefix(name, "filter.")
	dot := strings.LastIndex(rest, ".")
	if !found || dot < 0 || !slices.Contains([]string{"clean", "smudge", "process"}, rest[dot+1:]) {
		return "", false
	}
	return rest[:dot], true
}
