package week_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/built"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/output"
	"signalbox/internal/testkit/terminal"
)

var update = flag.Bool("update", false,
	"write what the program shows into docs/tutorial/week-one.md")

const (
	document = "../../docs/tutorial/week-one.md"
	// The size of the terminal.
	columns, rows = 100, 34
	// patience is how long a screen or the end of a command may take. It is far longer than any
	// does.
	patience = 10 * time.Minute
	// quiet is how long the screen must not change before -update copies it.
	quiet = 6 * time.Second
)

// reader is somebody who follows the document.
type reader struct {
	t    *testing.T
	home string
	dir  string
	env  []string
	// running is the program that has the screen, and began the step that started it; nil if there
	// is none.
	running *terminal.Terminal
	began   step
}

// TestWeekOne follows docs/tutorial/week-one.md.
func TestWeekOne(t *testing.T) {
	text, err := os.ReadFile(document)
	must.Succeed(t, err)
	all, err := steps(string(text))
	if err != nil {
		t.Fatalf("docs/tutorial/week-one.md: %v", err)
	}
	if len(all) < 50 {
		t.Fatalf("found %d steps in docs/tutorial/week-one.md: the search for them is broken",
			len(all))
	}
	r := newReader(t)
	defer r.leave()
	shown := make([]string, len(all))
	for i, s := range all {
		next := step{kind: kindCommand}
		if i+1 < len(all) {
			next = all[i+1]
		}
		shown[i], err = r.follow(s, next.kind == kindScreen)
		if err != nil {
			t.Errorf("docs/tutorial/week-one.md:%d: %s: %v", s.line, s.name, err)
			break
		}
	}
	if r.running != nil && err == nil {
		t.Errorf("docs/tutorial/week-one.md:%d: the document does not show how %s ends",
			r.began.line,
			r.began.name)
	}
	if *update {
		r.update(string(text), all, shown)
	}
}

// newReader returns a reader with a home folder that has nothing but a clone of this repository,
// and the name that git needs.
func newReader(t *testing.T) *reader {
	t.Helper()
	root := t.TempDir()
	r := &reader{t: t, home: filepath.Join(root, "home")}
	bin := filepath.Join(root, "bin")
	r.dir = r.home
	must.Succeed(t, os.CopyFS(filepath.Join(r.home, "signalbox", "examples", "week-one"),
		os.DirFS("../../examples/week-one")))
	must.Succeed(t, os.WriteFile(filepath.Join(r.home, ".gitconfig"),
		[]byte("[user]\n\tname = Ann\n\temail = ann@example.org\n"), 0o600))
	must.Succeed(t, os.Mkdir(bin, 0o755))
	_, err := built.Program(bin)
	must.Succeed(t, err)
	r.env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + r.home, "TMPDIR=" + root,
		"USER=ann", "LANG=C.UTF-8", "TERM=xterm-256color", "TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1", "PAGER=cat"}
	return r
}

func (r *reader) leave() {
	if r.running != nil {
		r.running.Close()
	}
}

// follow does what the document says in a step. If the document shows something, it compares it, or
// with -update returns what there really is.
func (r *reader) follow(s step, interactive bool) (shown string, err error) {
	ctx, cancel := context.WithTimeoutCause(r.t.Context(), patience,
		errors.New("it takes too long"))
	defer cancel()
	switch s.kind {
	case kindFile, kindSetting:
		return "", r.write(s)
	case kindCommand:
		if folder, ok := strings.CutPrefix(s.name, "cd "); ok {
			r.dir = filepath.Join(r.home, strings.TrimPrefix(folder, "~/"))
			return "", nil
		}
		started, err := r.start(s.name)
		if err != nil {
			return "", err
		}
		if interactive && r.running == nil { // otherwise it is typed in another terminal
			r.running, r.began = started, s
			return "", nil
		}
		defer started.Close()
		return r.end(ctx, started, s)
	}
	if r.running == nil {
		return "", errors.New("no program has the screen")
	}
	switch s.kind {
	case kindKeys:
		return "", r.running.Type(s.name)
	case kindScreen:
		return r.look(ctx, s)
	default:
		defer func() { r.running.Close(); r.running = nil }()
		return r.end(ctx, r.running, s)
	}
}

func (r *reader) write(s step) error {
	name, text := filepath.Join(r.dir, s.name), s.text
	if s.kind == kindSetting {
		before, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text = set(string(before), s.text)
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

func (r *reader) start(line string) (*terminal.Terminal, error) {
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Env = r.dir, r.env
	opened, err := terminal.Open(columns, rows)
	if errors.Is(err, terminal.ErrNoTerminals) {
		skipOrFail(r.t, "%v", err)
	}
	if err != nil {
		return nil, err
	}
	if err := opened.Start(cmd); err != nil {
		opened.Close()
		return nil, err
	}
	return opened, nil
}

// end waits until a program ends, and compares what it printed. A program must succeed unless the
// document shows that it does not.
func (r *reader) end(ctx context.Context, started *terminal.Terminal, s step) (string, error) {
	failed := started.Wait(ctx)
	if exited := (*exec.ExitError)(nil); failed != nil && !errors.As(failed, &exited) {
		return "", failed
	}
	real := r.printed(started.Printed())
	if fails := strings.Contains("\n"+s.text, "\nsignalbox: "); !*update &&
		fails != (failed != nil) {
		return "", errors.New("its exit status is not what the document shows: " + real)
	}
	if s.kind == kindCommand && s.text == "" {
		return "", nil // the document does not show what it prints
	}
	return real, r.compare(s.text, real)
}

// look waits until the screen is what the document shows.
func (r *reader) look(ctx context.Context, s step) (string, error) {
	part := parts[s.name]
	if *update {
		r.settle(ctx)
		return r.printed(part(r.running.Screen())) + "\n", nil
	}
	if err := r.running.WaitFor(ctx,
		func(real string) bool { return normal(s.text) == normal(r.printed(part(real))) }); err != nil {
		return "", errors.Join(err, r.compare(s.text, r.printed(part(r.running.Screen()))))
	}
	return "", nil
}

// settle waits until the screen no longer changes, except for what varies.
func (r *reader) settle(ctx context.Context) {
	for before := ""; ctx.Err() == nil; {
		changes, cancel := context.WithTimeout(ctx, quiet)
		unchanged := r.running.WaitFor(changes,
			func(real string) bool { return normal(real) != before })
		cancel()
		if unchanged != nil && before != "" {
			return
		}
		before = normal(r.running.Screen())
	}
}

// printed returns output as the document shows it: the home folder is /home/ann.
func (r *reader) printed(
	text string) string {
	return strings.ReplaceAll(text, r.home, "/home/ann")
}

func (r *reader) compare(shown, real string) error {
	if diff := cmp.Diff(strings.Split(normal(shown), "\n"),
		strings.Split(normal(real), "\n")); diff != "" && !*update {
		return errors.New("(-docs/tutorial/week-one.md +real):\n" + diff)
	}
	return nil
}

var (
	spaces  = regexp.MustCompile(` {2,}`)
	clock   = regexp.MustCompile(`\b\d\d:\d\d(:\d\d)?\b`)
	period  = regexp.MustCompile(`\b\d+m\d\ds\b`)
	commit  = regexp.MustCompile(`\b[0-9a-f]{7,12}\b`)
	sizes   = regexp.MustCompile(`\b\d+ (events|blobs)\b`)
	spinner = regexp.MustCompile(`[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]`)
)

// normal returns what a program shows without the parts that vary between runs.
func normal(text string) string {
	text = period.ReplaceAllString(text, "0s")
	text = output.Steady(text)
	text = clock.ReplaceAllString(text, "CLOCK")
	text = commit.ReplaceAllString(text, "COMMIT")
	text = sizes.ReplaceAllString(text, "N $1")
	text = spinner.ReplaceAllString(text, "*")
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(spaces.ReplaceAllString(line, " "))
	}
	return compact(strings.Join(lines, "\n"))
}

var blankLines = regexp.MustCompile(`\n{3,}`)

// compact returns text with single blank lines, and none at the end.
func compact(text string) string {
	return strings.TrimRight(blankLines.ReplaceAllString(text, "\n\n"), "\n")
}

// update writes what the program showed into the document, unless it is what the document shows. It
// replaces everything, so that times and ids stay consistent.
func (r *reader) update(text string, all []step, shown []string) {
	same := true
	for i, s := range all {
		same = same && (shown[i] == "" || normal(shown[i]) == normal(s.text))
	}
	if same {
		return
	}
	for i, s := range slices.Backward(all) {
		if shown[i] != "" {
			text = rewrite(text, s, compact(shown[i]))
		}
	}
	must.Succeed(r.t, os.WriteFile(document, []byte(text), 0o644))
}

// skipOrFail ends a test that this machine cannot run. It skips the test, but in CI, where a
// skipped test would go unnoticed, it fails the test.
func skipOrFail(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("this test must run in CI: "+format, args...)
	}
	t.Skipf(format, args...)
}
