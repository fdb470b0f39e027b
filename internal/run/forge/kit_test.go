package forge

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/internal/process"
	"signalbox/internal/testkit/must"
)

// scriptVariable makes this test binary a scripted gh, glab or command. Its value is the folder
// with the script.
const scriptVariable = "FORGE_TEST_SCRIPT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(scriptVariable); dir != "" {
		os.Exit(act(dir))
	}
	os.Exit(m.Run())
}

// answer is what a scripted program does when it is called with arguments that contain all words of
// When.
type answer struct {
	When           string
	Stdout, Stderr string
	Exit           int
	Hang           bool // until it is ended
	Flood          bool // prints without end
}

// call is a call of a scripted program.
type call struct {
	Args    []string
	Input   string
	Files   int // in its folder
	Dir     string
	Environ []string
}

// act plays the scripted program.
func act(dir string) int {
	var script []answer
	source, err := os.ReadFile(filepath.Join(dir, "script.json"))
	if err == nil {
		err = json.Unmarshal(source, &script)
	}
	c := call{Args: os.Args[1:], Environ: os.Environ()}
	var entries []os.DirEntry
	if err == nil {
		c.Dir, err = os.Getwd()
		entries, _ = os.ReadDir(c.Dir)
	}
	c.Files = len(entries)
	input, inputErr := io.ReadAll(os.Stdin)
	c.Input = string(input)
	line, jsonErr := json.Marshal(c)
	f, openErr := os.OpenFile(filepath.Join(dir, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY,
		0o600)
	if err != nil || inputErr != nil || jsonErr != nil || openErr != nil {
		panic(fmt.Sprint(err, inputErr, jsonErr, openErr))
	}
	f.Write(append(line, '\n'))
	f.Close()
	all := strings.Join(c.Args, " ")
	for _, a := range script {
		if slices.ContainsFunc(strings.Fields(a.When),
			func(word string) bool { return !strings.Contains(all, word) }) {
			continue
		}
		for a.Flood {
			if _, err := os.Stdout.WriteString(strings.Repeat("x", 64<<10)); err != nil {
				return 1
			}
		}
		if a.Hang {
			interrupted := make(chan os.Signal, 1)
			signal.Notify(interrupted, os.Interrupt) // no one sends it
			<-interrupted
		}
		io.WriteString(os.Stdout, a.Stdout)
		io.WriteString(os.Stderr, a.Stderr)
		return a.Exit
	}
	fmt.Fprintln(os.Stderr, "not in the script:", all)
	return 99
}

// stage is a scripted program.
type stage struct {
	t   *testing.T
	dir string
}

// newStage returns a forge of a kind whose program follows a script.
func newStage(t *testing.T, kind string, script ...answer) (Forge, *stage) {
	t.Helper()
	return newStageWith(t, kind, Options{}, script...)
}

func newStageWith(t *testing.T, kind string, o Options, script ...answer) (Forge, *stage) {
	t.Helper()
	s := &stage{t, t.TempDir()}
	source, err := json.Marshal(script)
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(filepath.Join(s.dir, "script.json"), source, 0o600))
	bin := t.TempDir()
	binary, err := os.Executable()
	must.Succeed(t, err)
	for _, name := range []string{"gh", "glab", "mine"} {
		if err := os.Symlink(binary, filepath.Join(bin, name)); err != nil {
			t.Skip(err)
		}
	}
	o.Environ = append(process.Environ(), "PATH="+bin, scriptVariable+"="+s.dir,
		"GH_REPO=other/repo", "GIT_DIR=/other", "GH_TOKEN=secret", "GITLAB_HOST=other.example.com")
	o.Command = []string{"mine", "--now"}
	if o.Timeout == 0 {
		o.Timeout = time.Hour
	}
	f, err := New(kind, o)
	must.Succeed(t, err)
	return f, s
}

// calls returns the calls, and checks what must hold for each.
func (s *stage) calls() (all []call) {
	s.t.Helper()
	source, err := os.ReadFile(filepath.Join(s.dir, "calls"))
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(source)) {
		var c call
		must.Succeed(s.t, json.Unmarshal([]byte(line), &c))
		if _, err := os.Stat(c.Dir); c.Files != 0 || !os.IsNotExist(err) {
			s.t.Errorf("%q ran in %s with %d files; it is left: %v", c.Args, c.Dir, c.Files, err)
		}
		for _, name := range []string{"GH_REPO", "GIT_DIR", "GITLAB_HOST"} {
			if process.Getenv(c.Environ, name) != "" {
				s.t.Errorf("%q got %s", c.Args, name)
			}
		}
		if process.Getenv(c.Environ, "GH_TOKEN") != "secret" ||
			process.Getenv(c.Environ, "GH_PROMPT_DISABLED") != "1" ||
			process.Getenv(c.Environ, "GIT_CEILING_DIRECTORIES") != filepath.Dir(c.Dir) {
			s.t.Errorf("%q got %q", c.Args, c.Environ)
		}
		all = append(all, c)
	}
	return all
}

// arguments returns the arguments of the calls, each on one line.
func (s *stage) arguments() (lines []string) {
	s.t.Helper()
	for _, c := range s.calls() {
		lines = append(lines, strings.Join(c.Args, " "))
	}
	return lines
}

func fixture(t testing.TB, name string) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata", name))
	must.Succeed(t, err)
	return string(source)
}

func look(t *testing.T, f Forge, url string) Status {
	t.Helper()
	s, err := f.Look(context.Background(), url)
	must.Succeed(t, err)
	return s
}

// summaries returns the summaries of findings, and checks what must hold for each.
func summaries(t testing.TB, s Status) (lines []string) {
	t.Helper()
	checkFindings(t, s)
	for _, f := range s.Findings {
		lines = append(lines, f.Summary)
	}
	return lines
}
