package treeruns

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/contain"
	"signalbox/internal/testkit/must"
)

// write writes a file that was changed some minutes after another.
func write(t *testing.T, name, text string, minute int) {
	t.Helper()
	must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o700))
	must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
	at := time.Date(2026, 5, 4, 12, minute, 0, 0, time.UTC)
	must.Succeed(t, os.Chtimes(name, at, at))
}

// home returns a path in the home folder of a sandboxed agent.
func home(box, work, name string, rest ...string) string {
	return filepath.Join(append([]string{box, contain.StateFolder, work, name,
		filepath.FromSlash(KeepFolder), AgentFolder}, rest...)...)
}

// lines describes runs, with what their journals contain.
func lines(t *testing.T, all []Run) (described []string) {
	t.Helper()
	for _, r := range all {
		file, err := r.Open()
		if err != nil {
			t.Fatalf("%s: %v", r.ID, err)
		}
		text := make([]byte, 100)
		n, _ := file.Read(text)
		file.Close()
		described = append(described,
			strings.Join([]string{r.ID, string(r.Kind), r.Work, r.Role, r.Agent, string(text[:n])},
				"|"))
	}
	return described
}

func TestList(t *testing.T) {
	box := t.TempDir()
	write(t, filepath.Join(box, "oracle/O-1/1-1.journal"), "one", 1)
	write(t, filepath.Join(box, "oracle/O-1/2-1.journal"), "two", 2)
	write(t, filepath.Join(box, "oracle/O-1/record.jsonl"), "no journal", 2)
	write(t, filepath.Join(box, "oracle/history"), "no session", 2)
	write(t, filepath.Join(box, "oracle/O-1/sub/O-1-ab/1-1.journal"), "sub", 3)
	write(t, filepath.Join(box, "agents/A-1/1-1.journal"), "by hand", 4)
	write(t, home(box, "T3", contain.AgentHome("design-critic", "a b/c"), "A-2", "1-2.journal"),
		"in a sandbox", 5)
	elsewhere := filepath.Join(t.TempDir(), "mine.journal")
	write(t, elsewhere, "tree run", 6)
	must.Succeed(t, Note(box, "T-1", elsewhere))
	must.Succeed(t, Note(box, "T-2", filepath.Join(t.TempDir(), "removed")))
	if err := Note(box, "../T-3", elsewhere); err == nil {
		t.Error("noted a run outside the folder")
	}
	want := []string{"T-1|tree||||tree run", "A-2.1.2|agent|T3|design-critic|a b/c|in a sandbox", "A-1.1.1|agent||||by hand", "O-1-ab.1.1|oracle||||sub", "O-1.2.1|oracle||||two", "O-1.1.1|oracle||||one"}
	if diff := cmp.Diff(want, lines(t, List(box))); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if r, err := Find(box, "O-1.2.1"); err != nil || !r.Same(List(box)[4]) {
		t.Errorf("found %+v, %v", r, err)
	}
	for _, id := range []string{"", "O-1", "O-1.3.1", "../T-3", "T-2"} {
		if r, err := Find(box, id); signalbox.CodeOf(err) != signalbox.CodeNotFound {
			t.Errorf("%q: found %+v, %v", id, r, err)
		}
	}
	if all := List(t.TempDir()); len(all) > 0 {
		t.Errorf("an empty box has %+v", all)
	}
}

// TestHostileHome: links that lead out of the home folder of an agent, and things that are not
// files, are not runs.
func TestHostileHome(t *testing.T) {
	box, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "1-1.journal"), "secret", 1)
	write(t, home(box, "T1", "developer-a", "A-1", "1-1.journal"), "honest", 2)
	// It pretends to be the run of another.
	write(t, filepath.Join(box, "agents/A-2/1-1.journal"), "the real one", 3)
	write(t, home(box, "T1", "developer-a", "A-2", "1-1.journal"), "forged", 4)
	links := map[string]string{
		home(box, "T1", "developer-a", "A-3"): outside,
		home(box, "T1", "developer-a", "A-4", "1-1.journal"): filepath.Join(outside,
			"1-1.journal"),
		home(box, "T1", "developer-a", "A-5", "1-1.journal"): filepath.Join("..", "..", "..",
			"..", "..", "..", "..", "..", "agents", "A-2", "1-1.journal"),
		home(box, "T1", "developer-a", "A-6", "sub"):              outside,
		filepath.Join(box, contain.StateFolder, "T1", "critic-b"): outside,
	}
	for name, to := range links {
		must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o700))
		if err := os.Symlink(to, name); err != nil {
			t.Skip(err)
		}
	}
	must.Succeed(t, os.MkdirAll(home(box, "T1", "developer-a", "A-7", "1-1.journal"), 0o700))
	want := []string{"A-2.1.1|agent||||the real one", "A-1.1.1|agent|T1|developer|a|honest"}
	if diff := cmp.Diff(want, lines(t, List(box))); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	// A link that appears later is not followed either.
	r, err := Find(box, "A-1.1.1")
	must.Succeed(t, err)
	name := home(box, "T1", "developer-a", "A-1", "1-1.journal")
	must.Succeed(t, os.Remove(name))
	must.Succeed(t, os.Symlink(filepath.Join(outside, "1-1.journal"), name))
	if file, err := r.Open(); err == nil {
		file.Close()
		t.Error("a link out of the folder was followed")
	}
}

// TestKeep: the runs of a task stay when the home folders of its agents are removed.
func TestKeep(t *testing.T) {
	box := t.TempDir()
	write(t, home(box, "T1", "developer-a", "A-1", "1-1.journal"), "first", 1)
	write(t, home(box, "T1", "developer-a", "A-1", "sub", "A-1-x", "1-1.journal"), "sub", 2)
	write(t, home(box, "T1", "critic-b", "A-2", "1-1.journal"), "second", 3)
	write(t, home(box, "T2", "critic-b", "A-3", "1-1.journal"), "of another task", 4)
	write(t, home(box, "T1", "critic-b", "A-2", "record.jsonl"), "no journal", 4)
	want := lines(t, List(box))
	for range 2 { // a crew may have been killed in between
		must.Succeed(t, Keep(box, "T1"))
		if diff := cmp.Diff(want, lines(t, List(box))); diff != "" {
			t.Errorf("kept (-want +got):\n%s", diff)
		}
	}
	must.Succeed(t, contain.RemoveState(box, "T1"))
	if diff := cmp.Diff(want, lines(t, List(box))); diff != "" {
		t.Errorf("after the home folders were removed (-want +got):\n%s", diff)
	}
	must.Succeed(t, contain.RemoveState(box, "T2"))
	if all := List(box); slices.ContainsFunc(all, func(r Run) bool { return r.Work == "T2" }) ||
		len(all) != 3 {
		t.Errorf("kept %+v", all)
	}
}
