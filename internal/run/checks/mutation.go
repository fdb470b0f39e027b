package checks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/checkrun"
	"signalbox/internal/run/mutation"
	"signalbox/internal/run/prompts"
	"signalbox/internal/run/workspace"
	"signalbox/internal/sandbox"
	"signalbox/internal/text"
)

// Change is what a task changes.
type Change struct {
	Base, Commit string
	// Known is what checks found in it earlier.
	Known []rules.TaskFinding
}

const (
	// mutationSeed decides which mutants are tried if there are too many.
	mutationSeed = 1
	// maxChangedFiles is how many files of a change are looked at, and maxChanged how many bytes they
	// have at most, before and after it.
	maxChangedFiles = 1000
	maxChanged      = 32 << 20
	// maxUnread is how many files that were not read are named.
	maxUnread = 20
	// maxDiscarded is how many mutants that cannot be built are discarded for each one to try.
	maxDiscarded = 5
	// One run of the command for a mutant may take runFloor, and runFactor times as long as without
	// one. What takes longer probably never ends, and has noticed the mutant.
	runFloor  = 30 * time.Second
	runFactor = 5
)

// RunMutations runs the mutation checks on what a task changes. The results are those of Run, with
// what the checks found.
//
// What the programs of the task write is never read: the files that are changed come from git, and
// files are only written below a worktree.
func (j *Job) RunMutations(ctx context.Context, change Change) (rows []rules.CheckRow,
	found []rules.CheckFinding, body signalbox.Hash, err error) {
	var failed strings.Builder
	var files []workspace.ChangedFile
	var known map[point]rules.TaskFinding
	for _, check := range j.Site.Config.Checks {
		if !check.IsMutation() {
			continue
		}
		if files == nil {
			files, err = j.Repo.ChangedFiles(ctx, change.Base, change.Commit, readLimits(nil))
			if err == nil {
				known, err = locate(ctx, j.Repo, change)
			}
			if err != nil {
				return nil, nil, body, err
			}
		}
		m := &mutationCheck{Job: j, check: check, change: change, files: files, known: known,
			environment: firstEnvironment(j.Site.Config, check)}
		row, err := m.row(ctx)
		if err != nil {
			return nil, nil, body, err
		}
		if row.Output, err = j.Put([]byte(m.report.String())); err != nil {
			return nil, nil, body, err
		}
		if !row.Passed {
			fmt.Fprintf(&failed, "%s in %s\n\n%s\n\n", row.Check, row.Environment,
				prompts.Indent(m.report.String()))
		}
		for _, f := range m.found {
			f.Row = row.Name()
			found = append(found, f)
		}
		rows = append(rows, row)
	}
	if failed.Len() > 0 {
		body, err = j.Put([]byte(failed.String()))
	}
	return rows, found, body, err
}

// readLimits returns what is read of a change, the same of the same change: code first.
func readLimits(wanted func(name string) bool) workspace.ReadLimits {
	rank, order := func(name string) int {
		if mutation.MayBeCode(name) {
			return 0
		}
		return 1
	}, mutation.Order(mutationSeed)
	return workspace.ReadLimits{Files: maxChangedFiles, File: mutation.MaxFile, All: maxChanged,
		Order:  func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), order(a, b)) },
		Wanted: wanted}
}

// point is what a finding of a check is known by: its place in the commit that is checked, and its
// text.
type point struct{ place, text string }

// changer compares commits.
type changer interface {
	Has(ctx context.Context, commit string) (bool, error)
	ChangedFiles(ctx context.Context, from, to string,
		limits workspace.ReadLimits) ([]workspace.ChangedFile, error)
}

// locate returns what checks found earlier, by where it is now. It follows each line from the commit
// in which it was found: an equal line elsewhere in the file is another finding. A line that cannot
// be followed counts as not moved.
func locate(ctx context.Context, repo changer, change Change) (map[point]rules.TaskFinding, error) {
	known := map[point]rules.TaskFinding{}
	since := map[string][]workspace.ChangedFile{} // what has changed since a commit
	for _, f := range change.Known {
		changed, read := since[f.Commit]
		if !read && f.Commit != "" && f.Commit != change.Commit {
			here, err := repo.Has(ctx, f.Commit)
			if err == nil && here {
				changed, err = repo.ChangedFiles(ctx, f.Commit, change.Commit, readLimits(change.names))
			}
			if err != nil {
				return nil, err
			}
			since[f.Commit] = changed
		}
		at := point{f.Place, f.Text}
		name := f.Place[:max(0, strings.LastIndexByte(f.Place, ':'))]
		line, err := strconv.Atoi(strings.TrimPrefix(f.Place, name+":"))
		if i := slices.IndexFunc(changed, func(c workspace.ChangedFile) bool {
			return c.Path == name
		}); err == nil && i >= 0 {
			if line = mutation.Moved(changed[i].Old, changed[i].New, line); line == 0 {
				continue // it is gone, and with it what was found there
			}
			at.place = fmt.Sprintf("%s:%d", name, line)
		}
		if known[at].State != rules.FindingWaived {
			known[at] = f
		}
	}
	return known, nil
}

// names reports whether an earlier finding is in a file.
func (c Change) names(file string) bool {
	return slices.ContainsFunc(c.Known, func(f rules.TaskFinding) bool {
		return strings.HasPrefix(f.Place, file+":")
	})
}

// firstEnvironment returns the environment in which a mutation check runs.
func firstEnvironment(c *config.Config, check config.Check) checkrun.Environment {
	for _, e := range environmentsOf(c) {
		if len(check.Environments) == 0 || slices.Contains(check.Environments, e.Name) {
			return e
		}
	}
	return checkrun.Environment{}
}

// mutationCheck is a run of a mutation check.
type mutationCheck struct {
	*Job
	check       config.Check
	environment checkrun.Environment
	change      Change
	files       []workspace.ChangedFile
	known       map[point]rules.TaskFinding // what checks found earlier
	onBase      bool                        // the tests of the task fail on the base

	mu      sync.Mutex
	sandbox *sandbox.Policy // of its programs; mu guards it
	report  strings.Builder
	found   []rules.CheckFinding
}

// faultError is why the check fails, other than because of survivors.
type faultError struct{ why string }

func (e *faultError) Error() string { return e.why }

func faultf(format string, args ...any) error { return &faultError{fmt.Sprintf(format, args...)} }

// row runs the check.
func (m *mutationCheck) row(ctx context.Context) (rules.CheckRow, error) {
	began := time.Now()
	defer m.Show("")
	passed, err := m.run(ctx, began.Add(m.check.Timeout))
	fault := (*faultError)(nil)
	left := (*process.LeftError)(nil)
	switch {
	case errors.As(err, &left):
		return rules.CheckRow{}, err
	case ctx.Err() != nil:
		return rules.CheckRow{}, context.Cause(ctx)
	case errors.As(err, &fault):
		fmt.Fprintln(&m.report, fault.why)
	case err != nil:
		return rules.CheckRow{}, err
	}
	row := rules.CheckRow{Check: m.check.Name, Environment: m.environment.Name,
		Passed: passed && fault == nil, Millis: time.Since(began).Milliseconds()}
	if !row.Passed {
		row.Exit = 1
	}
	row.Sandbox, err = m.Recorded(m.sandbox)
	return row, err
}

// run reports whether the check passes. It tries nothing after the deadline.
func (m *mutationCheck) run(ctx context.Context, deadline time.Time) (passed bool, err error) {
	var changed []mutation.File
	sources := map[string][]byte{}
	code := false
	var unread []string
	for _, f := range m.files {
		if f.Unread && (mutation.MayBeCode(f.Path) || m.isTest(f.Path)) {
			unread = append(unread, f.Path)
		}
		if f.New == nil || m.isTest(f.Path) || !mutation.IsCode(f.Path, f.New) {
			continue
		}
		sources[f.Path] = f.New
		changed = append(changed, mutation.File{Path: f.Path, Old: f.Old, New: f.New})
		// A comment needs no test, but a note about it does no harm.
		code = code || m.check.FailsOnBase == config.FailsOnBaseNote
	}
	if n := len(unread); n > 0 {
		fmt.Fprintf(&m.report, "%s not read, too large or in too large a change: %s\n",
			text.Count(n, "file"), strings.Join(unread[:min(n, maxUnread)], ", "))
	}
	mutants := mutation.FindAll(changed, mutationSeed)
	code = code || len(mutants) > 0
	mutants = slices.DeleteFunc(mutants, func(mutant mutation.Mutant) bool {
		return m.earlier(m.finding(mutant)).State == rules.FindingWaived
	})
	passed = true
	if code && m.check.FailsOnBase != config.FailsOnBaseOff {
		if passed, err = m.failsOnBase(ctx, deadline); err != nil {
			return false, err
		}
	}
	if m.check.Mutants == 0 || len(mutants) == 0 {
		if m.check.Mutants > 0 {
			fmt.Fprintln(&m.report, "no line of the change is left to break")
		}
		if m.onBase {
			err = m.passesUnchanged(ctx, deadline)
		}
		return passed && err == nil, err
	}
	few, err := m.try(ctx, deadline, mutants, sources)
	return passed && few, err
}

func (m *mutationCheck) isTest(name string) bool {
	return mutation.IsTest(name) || m.check.IsTest(name)
}

// earlier returns the earlier finding that a finding is, the zero value if it is new.
func (m *mutationCheck) earlier(f rules.CheckFinding) rules.TaskFinding {
	place, words := f.AsRecorded()
	return m.known[point{place, words}]
}

// finding returns the finding for a mutant that survives.
func (m *mutationCheck) finding(mutant mutation.Mutant) rules.CheckFinding {
	becomes := "is left out"
	if mutant.After != "" {
		becomes = "becomes `" + shortened(mutant.After) + "`"
	}
	return rules.CheckFinding{Place: fmt.Sprintf("%s:%d", mutant.File, mutant.Line),
		Text: fmt.Sprintf("the check %s passes if `%s` %s", m.check.Name,
			shortened(mutant.Before), becomes)}
}

// maxShownLine is how many bytes of a line a finding shows.
const maxShownLine = 200

func shortened(line string) string {
	if len(line) > maxShownLine {
		return strings.ToValidUTF8(line[:maxShownLine], "") + "…"
	}
	return line
}

// failsOnBase finds out whether a test of the task fails without the rest of the change, and reports
// whether the check may still pass.
func (m *mutationCheck) failsOnBase(ctx context.Context, deadline time.Time) (bool, error) {
	var tests []workspace.ChangedFile
	for _, f := range m.files {
		if m.isTest(f.Path) {
			tests = append(tests, f)
		}
	}
	words := "the task changes code and no test, so no test fails without the change"
	if len(tests) > 0 {
		passes, unknown, err := m.passesOnBase(ctx, tests, deadline)
		switch {
		case err != nil:
			return false, err
		case unknown != "":
			fmt.Fprintln(&m.report, "not known whether the tests of the task fail on the base: "+
				unknown)
			return true, nil
		case !passes:
			m.onBase = true
			fmt.Fprintln(&m.report, "the tests of the task fail on the base, as they should")
			return true, nil
		}
		words = "the tests that the task adds or changes pass on the base, without the change"
	}
	f := rules.CheckFinding{Text: fmt.Sprintf("the check %s: %s", m.check.Name, words)}
	earlier := m.earlier(f)
	if earlier.State == rules.FindingWaived {
		fmt.Fprintln(&m.report, f.Text+", which was waived")
		return true, nil
	}
	blocks := m.check.FailsOnBase == config.FailsOnBaseBlock
	f.Known, f.Note = earlier.ID, !blocks
	m.found = append(m.found, f)
	fmt.Fprintln(&m.report, f.Text)
	return !blocks, nil
}

// passesOnBase reports whether the command passes on the base with the tests of the task, or why
// that is not known. It takes at most a third of the time, so that mutants are tried too.
func (m *mutationCheck) passesOnBase(ctx context.Context, tests []workspace.ChangedFile,
	deadline time.Time) (passes bool, unknown string, err error) {
	for _, f := range tests {
		if f.Unread {
			return false, fmt.Sprintf("%q is too large, or the change is", f.Path), nil
		}
	}
	m.Show(m.check.Name + ": tests of the task on the base")
	limit := time.Until(deadline) / 3
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	const late = "that takes too long"
	b, err := m.open(limited, "base", m.change.Base)
	if err != nil {
		left := (*process.LeftError)(nil)
		if limited.Err() != nil && ctx.Err() == nil && !errors.As(err, &left) {
			return false, late, nil
		}
		return false, "", err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	for _, f := range tests {
		if err := b.write(f.Path, f.New); err != nil {
			return false, "", err
		}
	}
	result, err := b.exec(ctx, m.check.Command, limit)
	if result.TimedOut {
		unknown = late
	}
	return result.Passed, unknown, err
}

// passesUnchanged returns an error if the command fails on the work itself: then it says nothing
// that it fails on the base.
func (m *mutationCheck) passesUnchanged(ctx context.Context, deadline time.Time) (err error) {
	b, err := m.open(ctx, "1", m.change.Commit)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	result, err := b.exec(ctx, m.check.Command, time.Until(deadline))
	if err == nil && !result.Passed {
		err = unchangedFault(m.check.Command, "fails without a mutant", result)
	}
	return err
}

// bench is a worktree in which the command runs.
type bench struct {
	*mutationCheck
	*workspace.Scratch
	homes   *contain.Homes
	clean   *workspace.Observation
	options checkrun.Options
}

// open makes a worktree ready on a commit. The homes of programs there have the same name.
func (m *mutationCheck) open(ctx context.Context, name, commit string) (b *bench, err error) {
	name = "mutants" + name
	b = &bench{mutationCheck: m}
	if b.Scratch, err = m.openScratch(ctx, name, commit); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if b.homes, err = m.Site.OpenHomes(m.Work, name, false); err != nil {
		return b, err
	}
	err = m.Prepare(ctx, Folder{Dir: b.Dir, Homes: b.homes})
	if fault := (*SetupFault)(nil); errors.As(err, &fault) {
		return b, faultf("%s", fault)
	}
	if err == nil {
		err = b.homes.EndSetup()
	}
	if err == nil {
		b.clean, err = m.Repo.Observe(ctx, b.Dir)
	}
	contained := containCheck(m.Site, m.Work, b.Dir, b.homes, m.Ports(b.Dir))
	b.options = m.Job.options(contained)
	b.options.Environments = []checkrun.Environment{m.environment}
	// Python would take a mutant of the same second and size for the file that it has compiled.
	b.options.Env = append(b.options.Env, "PYTHONDONTWRITEBYTECODE=1")
	return b, err
}

func (b *bench) Close() error {
	var err error
	if b.homes != nil {
		err = b.homes.Close()
	}
	return errors.Join(err, b.Scratch.Close())
}

// exec runs a command.
func (b *bench) exec(ctx context.Context, command string, timeout time.Duration) (
	checkrun.Result, error) {
	results, err := checkrun.Run(ctx, b.Dir, []checkrun.Check{{Name: b.check.Name,
		Command: command, Timeout: max(timeout, 1)}}, b.options)
	if err != nil {
		return checkrun.Result{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sandbox = results[0].Sandbox
	return results[0], nil
}

// write replaces a file of the worktree; nil deletes it. What is there is not opened, and a link on
// the way does not lead out: the command may have put anything there.
func (b *bench) write(name string, content []byte) error {
	root, err := os.OpenRoot(b.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	name = path.Clean(name)
	if err := root.RemoveAll(name); err != nil {
		return faultf("cannot replace %q: %v", name, err)
	}
	if content == nil {
		return nil
	}
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return faultf("cannot replace %q: %v", name, err)
	}
	mode := os.FileMode(0o777) // programs may be run
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return faultf("cannot replace %q: %v", name, err)
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

// restore puts back the tracked files, and removes what the command left and git does not ignore.
func (b *bench) restore(ctx context.Context) error {
	_, left, err := b.Repo.Undo(ctx, b.clean)
	for _, name := range left {
		if err == nil {
			err = b.write(name, nil)
		}
	}
	if errors.Is(err, workspace.ErrCommitted) {
		return faultf("the command made a commit or switched to another one, which it must not do")
	}
	return err
}

// fate is what became of a mutant.
type fate int

const (
	untried fate = iota
	noticed
	survived
	discarded
)

// trial tries mutants in several worktrees.
type trial struct {
	*mutationCheck
	mutants []mutation.Mutant
	sources map[string][]byte

	mu      sync.Mutex // guards what follows
	next    int        // the mutant that is tried next
	running int
	fates   []fate
	counts  [discarded + 1]int
	tooLong int // how many were noticed because the command took too long
	late    bool
	builds  map[string]bool // whether go build builds a folder without a mutant
}

// try tries mutants, and reports whether few enough survive.
func (m *mutationCheck) try(ctx context.Context, deadline time.Time, mutants []mutation.Mutant,
	sources map[string][]byte) (bool, error) {
	t := &trial{mutationCheck: m, mutants: mutants, sources: sources,
		fates: make([]fate, len(mutants)), builds: map[string]bool{}}
	parallel := m.check.Parallel
	if parallel == 0 {
		parallel = max(1, min(4, runtime.NumCPU()/2))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limited, stop := context.WithDeadline(ctx, deadline)
	defer stop()
	var working sync.WaitGroup
	parallel = min(parallel, m.check.Mutants, len(mutants))
	for i := range parallel { // setup commands may not expect that another one runs
		m.Show(fmt.Sprintf("%s: worktree %d of %d", m.check.Name, i+1, parallel))
		b, err := m.open(limited, fmt.Sprint(i+1), m.change.Commit)
		if err != nil {
			left := (*process.LeftError)(nil)
			if limited.Err() == nil || ctx.Err() != nil || errors.As(err, &left) {
				cancel(err)
			}
			break
		}
		working.Go(func() {
			if err := errors.Join(t.work(ctx, limited, b), b.Close()); err != nil {
				cancel(err)
			}
		})
	}
	working.Wait()
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	t.late = limited.Err() != nil
	return t.conclude()
}

// work tries mutants in a worktree until limited is done. A command that fails without a mutant,
// before the first or after the last, says nothing about mutants.
func (t *trial) work(ctx, limited context.Context, b *bench) error {
	limit := runFloor
	for _, command := range []string{t.check.Build, t.check.Command} {
		if command == "" {
			continue
		}
		result, err := b.exec(limited, command, t.check.Timeout)
		left := (*process.LeftError)(nil)
		if limited.Err() != nil && !errors.As(err, &left) {
			return ctx.Err()
		}
		if err == nil && !result.Passed {
			err = unchangedFault(command, "fails on the unchanged files", result)
		}
		if err != nil {
			return err
		}
		limit += runFactor * result.Duration
	}
	noticedSome := false
	for {
		i := t.take(limited)
		if i < 0 {
			break
		}
		became, err := t.tryOne(limited, b, t.mutants[i], limit)
		left := (*process.LeftError)(nil)
		if limited.Err() != nil && !errors.As(err, &left) {
			became, err = untried, ctx.Err()
		}
		if err == nil {
			err = b.restore(ctx)
		}
		if err != nil {
			return err
		}
		t.settle(i, became)
		noticedSome = noticedSome || became == noticed
	}
	if !noticedSome {
		return nil
	}
	result, err := b.exec(limited, t.check.Command, limit)
	if left := (*process.LeftError)(nil); limited.Err() != nil && !errors.As(err, &left) {
		return ctx.Err()
	}
	if err == nil && !result.Passed {
		err = unchangedFault(t.check.Command,
			"fails on the unchanged files after it was run for mutants there", result)
	}
	return err
}

func unchangedFault(command, how string, r checkrun.Result) error {
	return faultf("%s\n\nthe command %s (exit status %d: %s), so that its failures say nothing about mutants",
		quoteOutput(r.Output), how, r.Exit, text.OneLine(command))
}

// take returns the mutant to try next, -1 if there is none. Only a mutant after those that were
// discarded takes their place, so that the same ones are tried in any number of worktrees.
func (t *trial) take(limited context.Context) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if limited.Err() != nil || t.tried()+t.running >= t.check.Mutants ||
		t.next >= min(len(t.mutants), t.check.Mutants*(1+maxDiscarded)) {
		return -1
	}
	t.next++
	t.running++
	return t.next - 1
}

// tried is how many mutants the command was run for. The caller holds mu.
func (t *trial) tried() int { return t.counts[noticed] + t.counts[survived] }

func (t *trial) settle(i int, became fate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	t.fates[i] = became
	t.counts[became]++
	t.Show(fmt.Sprintf("%s: %d of %d mutants tried, %d survive", t.check.Name, t.tried(),
		min(t.check.Mutants, len(t.mutants)), t.counts[survived]))
}

// tryOne runs the command for a mutant.
func (t *trial) tryOne(ctx context.Context, b *bench, m mutation.Mutant,
	limit time.Duration) (fate, error) {
	build := t.check.Build
	if build == "" && path.Ext(m.File) == ".go" {
		var err error
		if build, err = t.goBuild(ctx, b, path.Dir(m.File)); err != nil {
			return untried, err
		}
	}
	if err := b.write(m.File, m.Apply(t.sources[m.File])); err != nil {
		return untried, err
	}
	if build != "" {
		if result, err := b.exec(ctx, build, limit); err != nil || !result.Passed {
			return discarded, err
		}
	}
	result, err := b.exec(ctx, t.check.Command, limit)
	switch {
	case err != nil:
		return untried, err
	case result.Passed:
		return survived, nil
	case result.TimedOut:
		t.mu.Lock()
		defer t.mu.Unlock()
		t.tooLong++
	}
	return noticed, nil
}

// goBuild returns the command that builds a folder, "" if that fails without a mutant.
func (t *trial) goBuild(ctx context.Context, b *bench, folder string) (string, error) {
	command := "cd './" + strings.ReplaceAll(folder, "'", `'\''`) + "' && go build -o /dev/null ."
	t.mu.Lock()
	builds, known := t.builds[folder]
	t.mu.Unlock()
	if !known {
		result, err := b.exec(ctx, command, t.check.Timeout)
		if err != nil {
			return "", err
		}
		builds = result.Passed
		t.mu.Lock()
		t.builds[folder] = builds
		t.mu.Unlock()
	}
	if !builds {
		return "", nil
	}
	return command, nil
}

// conclude writes the report. Its last line is the summary.
func (t *trial) conclude() (passed bool, err error) {
	tried, survivors := t.tried(), t.counts[survived]
	passed = survivors <= t.check.MaxSurvivors
	for i, m := range t.mutants {
		if t.fates[i] != survived {
			continue
		}
		f := t.finding(m)
		f.Known, f.Note = t.earlier(f).ID, passed
		t.found = append(t.found, f)
		fmt.Fprintf(&t.report, "%s: %s\n", f.Place, f.Text)
	}
	summary := fmt.Sprintf("survivors: %d of %s (max_survivors: %d)", survivors,
		text.Count(tried, "mutant"), t.check.MaxSurvivors)
	if n := t.tooLong; n > 0 {
		summary += fmt.Sprintf("; for %d the command took too long", n)
	}
	if n := t.counts[discarded]; n > 0 {
		summary += fmt.Sprintf("; %d more cannot be built", n)
	}
	if wanted := min(t.check.Mutants, len(t.mutants)-t.counts[discarded]); t.late && tried < wanted {
		summary += fmt.Sprintf("; %d were not tried, because the time was over (timeout: %s)",
			wanted-tried, text.Duration(t.check.Timeout))
		passed = passed && tried > 0
	}
	if rest := len(t.mutants) - t.next; rest > 0 {
		summary += fmt.Sprintf("; the change has %d in all", len(t.mutants))
	}
	fmt.Fprintln(&t.report, summary)
	return passed, nil
}
