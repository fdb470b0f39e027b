// Package treeruns finds the recorded runs of behaviour trees in a box: those of agents, of the
// oracle, and of signalbox tree run.
//
// An agent in a sandbox keeps its journals in its own home folder, where it can also put anything
// else. So files there are opened without following links out of that folder, and folders are read
// only up to a limit. Keep copies the journals before the home folder is removed.
package treeruns

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/contain"
	"signalbox/internal/durable"
	"signalbox/internal/lazy"
	"signalbox/internal/tree/runner"
)

// Folders with recorded runs.
const (
	// OracleFolder is the folder of a box with the conversations of the oracle, and AgentFolder
	// that of agents, in a box or in KeepFolder.
	OracleFolder = "oracle"
	AgentFolder  = "agents"
	// KeepFolder is the folder in the home of a sandboxed agent in which it keeps what it would
	// otherwise keep in the box.
	KeepFolder = ".local/state/signalbox"

	treeFolder = "trees"
	noteSuffix = ".path" // of a file in treeFolder with the place of a journal
)

// Limits on what an agent leaves in its home folder.
const (
	maxFolders = 1000      // that are read
	maxKept    = 64 << 20  // bytes of a journal that is kept
	maxKeptAll = 256 << 20 // bytes of all journals of a task that are kept
)

// Kind is what a tree was run for.
type Kind string

const (
	Agent  Kind = "agent"  // an agent of a run
	Oracle Kind = "oracle" // a question to the oracle
	Tree   Kind = "tree"   // signalbox tree run
)

// Run is a recorded run.
type Run struct {
	ID   string
	Kind Kind
	// Work and Role are those of an agent that ran in a sandbox, and Agent is its name.
	Work, Role, Agent string
	// Changed is when its journal was written last.
	Changed time.Time

	base string // a folder that an agent cannot replace
	file string // in base, with slashes; "" means that base is the file
}

// Open opens the journal of the run.
func (r Run) Open() (*os.File, error) {
	if r.file == "" {
		return durable.OpenRegular(r.base)
	}
	root, err := os.OpenRoot(r.base)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return durable.OpenRegularIn(root, r.file)
}

// Summarize reads the beginning and the end of the run's journal.
func (r Run) Summarize() (*runner.Summary, error) {
	file, err := r.Open()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return runner.Summarize(file)
}

// List returns the recorded runs of a box, the newest first. If two have the same ID, which only an
// agent can cause, the one in the folder of the box counts.
func List(box string) []Run {
	var all []Run
	for _, name := range []string{OracleFolder, AgentFolder} {
		kind := Agent
		if name == OracleFolder {
			kind = Oracle
		}
		all = append(all, sessions(box, name, Run{Kind: kind}, -1)...)
	}
	all = append(all, noted(box)...)
	for _, place := range []struct{ folder, inner string }{{treeFolder + "/" + AgentFolder, ""}, {contain.StateFolder, KeepFolder + "/" + AgentFolder}} {
		homes := homesIn(box, place.folder)
		for _, work := range slices.Sorted(maps.Keys(homes)) {
			for _, home := range homes[work] {
				all = append(all, sessions(filepath.Join(box, place.folder, work, home),
					cmp.Or(place.inner, "."), ofAgent(work, home), maxFolders)...)
			}
		}
	}
	seen := map[string]bool{}
	all = slices.DeleteFunc(all, func(r Run) bool {
		again := seen[r.ID]
		seen[r.ID] = true
		return again
	})
	slices.SortStableFunc(all,
		func(a, b Run) int { return cmp.Or(b.Changed.Compare(a.Changed), cmp.Compare(b.ID, a.ID)) })
	return all
}

// Find returns the run with an ID.
func Find(box, id string) (Run, error) {
	all := List(box)
	if i := slices.IndexFunc(all, func(r Run) bool { return r.ID == id }); i >= 0 {
		return all[i], nil
	}
	return Run{}, signalbox.CodeNotFound.Errorf("",
		"there is no recorded run '%.100s'", id)
}

// ofAgent returns what the home folder of an agent says about its runs.
func ofAgent(work, home string) Run {
	role, agent, _ := contain.AgentOfHome(home)
	return Run{Kind: Agent, Work: work, Role: role, Agent: agent}
}

// homesIn returns the home folders of the agents of each work item.
func homesIn(box, folder string) map[string][]string {
	homes := map[string][]string{}
	works, _ := os.ReadDir(filepath.Join(box, folder)) // an error means that there are none
	for _, work := range works {
		if signalbox.CheckID(work.Name()) != nil {
			continue
		}
		found, _ := os.ReadDir(filepath.Join(box, folder, work.Name()))
		for _, home := range found {
			if home.IsDir() && !strings.HasPrefix(home.Name(), ".") {
				homes[work.Name()] = append(homes[work.Name()], home.Name())
			}
		}
	}
	return homes
}

var journalName = lazy.Regexp(`^([1-9][0-9]{0,5})-([1-9][0-9]{0,5})\.journal$`)

// sessions returns the runs in the sessions of a folder, and in those of their sub-agents. It reads
// at most limit names of each folder; -1 means all.
func sessions(base, folder string, of Run, limit int) (all []Run) {
	root, err := os.OpenRoot(base)
	if err != nil {
		return nil
	}
	defer root.Close()
	for _, session := range names(root, folder, limit) {
		if signalbox.CheckID(session) != nil {
			continue
		}
		dir := path.Join(folder, session)
		all = append(all, journals(root, dir, session, of, base, limit)...)
		for _, sub := range names(root, path.Join(dir, "sub"), limit) {
			if signalbox.CheckID(sub) == nil {
				all = append(all, journals(root, path.Join(dir, "sub", sub), sub, of, base,
					limit)...)
			}
		}
	}
	return all
}

// journals returns the runs of a session.
func journals(root *os.Root, dir, session string, of Run, base string, limit int) (all []Run) {
	for _, name := range names(root, dir, limit) {
		match := journalName().FindStringSubmatch(name)
		if match == nil {
			continue
		}
		r := of
		r.ID, r.base, r.file = session+"."+match[1]+"."+match[2], base, path.Join(dir, name)
		info, err := root.Lstat(r.file)
		if err == nil && info.Mode().IsRegular() {
			r.Changed = info.ModTime()
			all = append(all, r)
		}
	}
	return all
}

// names returns what is in a folder, sorted, at most limit names. A folder that cannot be read has
// nothing.
func names(root *os.Root, folder string, limit int) []string {
	in, err := root.OpenRoot(folder) // does not wait for the other end of a pipe
	if err != nil {
		return nil
	}
	defer in.Close()
	dir, err := in.Open(".")
	if err != nil {
		return nil
	}
	defer dir.Close()
	found, _ := dir.Readdirnames(limit)
	slices.Sort(found)
	return found
}

// Note notes where signalbox tree run records a run.
func Note(box, id, journal string) error {
	if err := signalbox.CheckID(id); err != nil {
		return err
	}
	journal, err := filepath.Abs(journal)
	if err != nil {
		return err
	}
	folder := filepath.Join(box, treeFolder)
	if err := durable.MakeFolder(folder); err != nil {
		return err
	}
	return durable.Replace(filepath.Join(folder, id+noteSuffix), []byte(journal+"\n"), 0o600)
}

// noted returns the runs that were noted and still exist.
func noted(box string) (all []Run) {
	files, _ := os.ReadDir(filepath.Join(box, treeFolder))
	for _, f := range files {
		id, is := strings.CutSuffix(f.Name(), noteSuffix)
		if !is || signalbox.CheckID(id) != nil {
			continue
		}
		text, err := durable.ReadRegular(filepath.Join(box, treeFolder, f.Name()), 64<<10)
		if err != nil {
			continue
		}
		name := strings.TrimSuffix(string(text), "\n")
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			all = append(all, Run{ID: id, Kind: Tree, Changed: info.ModTime(), base: name})
		}
	}
	return all
}

// Keep copies the journals of a task's agents, before their home folders are removed. homes are the
// names of these folders; none means all.
func Keep(box, work string, homes ...string) error {
	var errs []error
	total := int64(0)
	for _, home := range homesIn(box, contain.StateFolder)[work] {
		if len(homes) > 0 && !slices.Contains(homes, home) {
			continue
		}
		from := filepath.Join(box, contain.StateFolder, work, home)
		for _, r := range sessions(from, KeepFolder+"/"+AgentFolder, Run{}, maxFolders) {
			rest := strings.TrimPrefix(r.file, KeepFolder+"/"+AgentFolder+"/")
			n, err := r.copyTo(filepath.Join(box, treeFolder, AgentFolder, work, home,
				filepath.FromSlash(rest)))
			if err != nil {
				errs = append(errs, fmt.Errorf("run %s: %w", r.ID, err))
			}
			if total += n; total > maxKeptAll {
				return errors.Join(append(errs,
					fmt.Errorf("the journals have more than %d MB, and not all are kept",
						maxKeptAll>>20))...)
			}
		}
	}
	return errors.Join(errs...)
}

// copyTo copies the journal of a run, unless it is there already, and returns its size.
func (r Run) copyTo(name string) (size int64, err error) {
	if info, err := os.Lstat(name); err == nil {
		return info.Size(), nil
	}
	file, err := r.Open()
	if err != nil {
		return 0, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxKept+1))
	switch {
	case err != nil:
		return 0, err
	case len(text) > maxKept:
		return 0, fmt.Errorf("its journal has more than %d MB and is not kept", maxKept>>20)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return 0, err
	}
	if err := durable.Replace(name, text, 0o600); err != nil {
		return 0, err
	}
	return int64(len(text)), os.Chtimes(name, time.Time{}, r.Changed)
}

// Same reports whether both are the same run, in the same place.
func (r Run) Same(other Run) bool {
	return r.ID == other.ID && r.base == other.base && r.file == other.file
}
