package workspace

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// Files that are new or have grown beyond the limit count, also those that a later commit deletes
// again; moved files and those that were large before do not.
func TestLargeFiles(t *testing.T) {
	t.Parallel()
	big := func(mark string) string { return mark + strings.Repeat("x", 2000) }
	k := newKit(t, map[string]string{"grows": "small", "large": big("old"), "moves": big("moves"),
		"stays": big("stays")})
	tree := k.work("T1", map[string]string{"grows": big("grown"), "large": big("new"), "moves": "",
		"moved": big("moves"), "added/one two": big("1"), "removed": big("22"),
		"exact": strings.Repeat("y", 1000), "small": "s"})
	save := func(message string) string {
		t.Helper()
		commit, _, err := tree.Save(t.Context(), message)
		must.Succeed(t, err)
		return commit
	}
	want := func(name, base, commit, want string) {
		t.Helper()
		found, err := k.LargeFiles(t.Context(), base, commit, 1000)
		if got := fmt.Sprint(found); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, want)
		}
	}
	base := k.base()
	want("the first commit", base, save("first"),
		"[{added/one two 2001 false} {grows 2005 false} {removed 2002 false}]")
	write(t, tree.Dir, map[string]string{"removed": ""})
	commit := save("second")
	want("deleted again", base, commit,
		"[{added/one two 2001 false} {grows 2005 false} {removed 2002 true}]")
	want("no change", base, base, "[]")
	// What the base adds is not the task's.
	write(t, k.dir, map[string]string{"of the base": big("base")})
	moved := k.commit("base")
	combined, err := k.Combine(t.Context(), "T1", commit, moved)
	must.Succeed(t, err)
	want("with the base", moved, combined,
		"[{added/one two 2001 false} {grows 2005 false} {removed 2002 true}]")
	squashed, err := k.Squash(t.Context(), combined, moved, "one commit\n")
	must.Succeed(t, err)
	want("squashed", moved, squashed, "[{added/one two 2001 false} {grows 2005 false}]")
	if changed := gitRun(t, k.dir, "diff", "--name-only", combined, squashed); changed != "" {
		t.Errorf("squashing changed %s", changed)
	}
}
