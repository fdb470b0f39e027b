package browser_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"signalbox/internal/rehearsal"
	"signalbox/internal/testkit/must"
)

// stage is a project in which scripted agents have worked, and a server that shows it.
type stage struct {
	dir, project string
	env          []string

	server *exec.Cmd
	ended  chan struct{} // closed when the server has ended
	url    string
	link   string // logs a browser in, once
	// address is where the server listens.
	address string
	// treeRun is the recorded run of a tree, "" if there is none. In paths, {run} stands for it.
	treeRun string
}

// scene is what happens on a stage.
type scene struct {
	// script is the sections of the script before those of the demo, and plan the plan; "" means
	// that of the demo.
	script, plan string
	// settings are added to the configuration of the demo.
	settings string
	// files are added to the project.
	files map[string]string
	// portfolio means that there is the example portfolio.
	portfolio bool
	// play is called after the run has stopped, because everything waits for the human. Nil means
	// that nothing is run at all.
	play func(*stage) error
}

// demoScene is the demo in its middle: T1 and T2 are completed, T3 failed a check and then asks, T5
// waits for approval, and T4 and T6 wait for others.
func demoScene() scene {
	return scene{
		portfolio: true,
		settings:  "approve: merge\nbudget: {run: {cost: 2.50}}\nmodels: {rehearsal: {provider: openai, model: rehearsal, base_url: \"http://127.0.0.1:1/v1\"}}\n",
		script: `on developer T3 attempt 2:
    run sh test.sh
    say The test fails: the product is always 0.
    usage 2100 340 0.009
    signal SEEKING_DIVINE_CLARIFICATION
        Task: {task}
        Question: What is the product of no numbers: 1, or an error?
        Context: mul without arguments is not in the acceptance criteria.
        Options Considered:
        - 1, as in mathematics
        - an error

`,
		play: func(s *stage) error {
			for _, task := range []string{"T1", "T2"} {
				if _, err := s.signalbox("approve", task); err != nil {
					return err
				}
				if err := s.run(); err != nil {
					return err
				}
			}
			return s.runTree("../../examples/trees/turn.lua", "../../examples/trees/turn.replies")
		},
	}
}

// newStage returns a stage of its own for a test.
func newStage(t *testing.T, of scene) *stage {
	t.Helper()
	needChromium(t)
	s, err := setUp(t.TempDir(), of)
	must.Succeed(t, err)
	t.Cleanup(s.stop)
	return s
}

// onSharedStage returns the stage for tests that change nothing.
func onSharedStage(t *testing.T) *stage {
	t.Helper()
	needChromium(t)
	s, err := sharedStage()
	must.Succeed(t, err)
	return s
}

// setUp makes a stage in a folder, and starts its server.
func setUp(dir string, of scene) (*stage, error) {
	dir, err := filepath.EvalSymlinks(mkdir(dir))
	if err != nil {
		return nil, err
	}
	s := &stage{dir: dir, project: filepath.Join(dir, "calc")}
	s.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + mkdir(filepath.Join(dir, "home")), "TMPDIR=" + mkdir(filepath.Join(dir, "tmp")), "USER=ann", "LANG=C.UTF-8",
		"TZ=UTC", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Ann",
		"GIT_AUTHOR_EMAIL=ann@example.org", "GIT_COMMITTER_NAME=Ann",
		"GIT_COMMITTER_EMAIL=ann@example.org"}
	// beside the project, so that agents do not commit it
	s.env = append(s.env, "SIGNALBOX_PORTFOLIO="+s.portfolio())
	if err := s.write(of); err != nil {
		return nil, err
	}
	if of.play != nil {
		if err := s.run(); err != nil {
			return nil, err
		}
		if err := of.play(s); err != nil {
			return nil, err
		}
	}
	return s, s.serve("127.0.0.1:0")
}

// portfolio returns the folder of the portfolio.
func (s *stage) portfolio() string { return filepath.Join(s.dir, "portfolio") }

func mkdir(dir string) string {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		panic(err)
	}
	return dir
}

// write writes the project, its box and its configuration.
func (s *stage) write(of scene) error {
	if err := rehearsal.Demo(s.dir); err != nil {
		return err
	}
	script := filepath.Join(s.dir, "agents.script")
	demo, err := os.ReadFile(script)
	if err != nil {
		return err
	}
	files := map[string]string{script: of.script + string(demo)}
	if of.plan != "" {
		files[filepath.Join(s.dir, "plan.md")] = of.plan
	}
	for name, text := range of.files {
		files[filepath.Join(s.project, name)] = text
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"git", "init", "-q", "-b", "main"}, {"git", "add", "-A"},
		{"git", "commit", "-q", "-m", "a calculator"}, {program, "init"}} {
		if _, err := s.command(args[0], args[1:]...); err != nil {
			return err
		}
	}
	if of.portfolio {
		if _, err := s.signalbox("portfolio", "init", s.portfolio()); err != nil {
			return err
		}
	}
	settings := rehearsal.DemoConfig(s.dir, program, 0) + of.settings
	return os.WriteFile(filepath.Join(s.project, ".signalbox", "signalbox.yaml"), []byte(settings),
		0o600)
}

// command runs a program in the project, and returns what it prints on standard output.
func (s *stage) command(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = s.project, s.env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(name), strings.Join(args, " "), err,
			stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

func (s *stage) signalbox(args ...string) (string, error) { return s.command(program, args...) }

// must runs signalbox, and returns what it prints.
func (s *stage) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.signalbox(args...)
	must.Succeed(t, err)
	return out
}

// run runs the plan until everything waits for the human, or it is complete.
func (s *stage) run() error {
	_, err := s.signalbox("run", filepath.Join(s.dir, "plan.md"), "--plain", "--no-wait")
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return nil
	}
	return err
}

// runTree runs a tree with replies of a model, and records it.
func (s *stage) runTree(tree, replies string) error {
	var err error
	for _, name := range []*string{&tree, &replies} {
		if *name, err = filepath.Abs(*name); err != nil {
			return err
		}
	}
	if _, err := s.signalbox("tree", "run", tree, "--replies", replies, "--journal",
		filepath.Join(s.dir, "tree.journal")); err != nil {
		return err
	}
	return s.findTree()
}

// findTree finds the only run of a tree that the box has noted.
func (s *stage) findTree() error {
	found, err := filepath.Glob(filepath.Join(s.project, ".signalbox", "trees", "*.path"))
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%d runs of trees are noted", len(found))
	}
	if err == nil {
		s.treeRun = strings.TrimSuffix(filepath.Base(found[0]), ".path")
	}
	return err
}

// servers are those that run. A shared stage has no test that stops its server.
var servers sync.Map

func stopServers() {
	servers.Range(func(s, _ any) bool { s.(*stage).stop(); return true })
}

var served = regexp.MustCompile(`serving the dashboard at ([^\s,]+)`)

// serve starts the server.
func (s *stage) serve(listen string) error {
	cmd := exec.Command(program, "serve", "--listen", listen)
	cmd.Dir, cmd.Env = s.project, s.env
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	notes := ""
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		notes += lines.Text() + "\n"
		if match := served.FindStringSubmatch(notes); match != nil {
			s.address = strings.TrimPrefix(match[1], "http://")
			s.server, s.ended = cmd, make(chan struct{})
			servers.Store(s, nil)
			go func() {
				io.Copy(os.Stderr, stderr)
				cmd.Wait()
				close(s.ended)
			}()
			link, err := s.signalbox("token", "link")
			s.link = strings.TrimSpace(link)
			s.url, _, _ = strings.Cut(s.link, "/login") // the name under which a browser logs in
			return err
		}
	}
	return fmt.Errorf("serve ended: %w: %s", cmd.Wait(), notes)
}

// stop stops the server.
func (s *stage) stop() {
	if _, runs := servers.LoadAndDelete(s); runs {
		s.server.Process.Signal(os.Interrupt)
		<-s.ended
	}
}
