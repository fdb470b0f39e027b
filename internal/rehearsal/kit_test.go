package rehearsal

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/transcript"
)

var (
	noon    = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	formats = slices.DeleteFunc(signalbox.Formats(),
		func(f signalbox.Format) bool { return f == signalbox.FormatAuto || f == signalbox.FormatOracle })
)

// performance is the result of playing a script once.
type performance struct {
	stdout, stderr bytes.Buffer
	dir            string
	err            error
	heard          []signalbox.Signal
	report         signalbox.StreamReport
}

// perform plays steps as developer t1 in a temporary folder, and scans the output.
func perform(t *testing.T, steps string, change func(*Options)) *performance {
	t.Helper()
	script, err := Parse("test.script", []byte("on developer t1:\n"+steps))
	must.Succeed(t, err)
	prompt := "Do t1."
	p := &performance{dir: t.TempDir()}
	opts := Options{Role: "developer", Task: "t1", Session: "s-1", Dir: p.dir, Prompt: &prompt,
		Stdout: &p.stdout,
		Stderr: &p.stderr, Now: func() time.Time { return noon }}
	if change != nil {
		change(&opts)
	}
	p.dir = opts.Dir
	p.err = script.Play(t.Context(), opts)
	p.listen(opts.Format)
	return p
}

func (p *performance) listen(format signalbox.Format) {
	scanner := transcript.NewScanner(&transcript.Options{Format: format})
	p.heard = slices.Concat(slices.Clone(scanner.Push(p.stdout.Bytes())), scanner.Close())
	p.report = scanner.Report()
}

func (p *performance) taken() (names []string) {
	for _, s := range p.heard {
		if s.Taken() {
			names = append(names, s.Name+" "+s.TaskID)
		}
	}
	return names
}

func (p *performance) refused() (reasons []string) {
	for _, s := range p.heard {
		if !s.Taken() {
			reasons = append(reasons, string(s.Refused))
		}
	}
	return reasons
}

func (p *performance) body(name string) map[string]any {
	for _, s := range p.heard {
		if s.Name == name && s.Taken() {
			return s.Body
		}
	}
	return nil
}

// status returns the exit status that the script requests.
func (p *performance) status(t *testing.T) int {
	t.Helper()
	exit := (*Exit)(nil)
	if p.err != nil && !errors.As(p.err, &exit) {
		t.Fatal(p.err)
	}
	if exit != nil {
		return exit.Code
	}
	return 0
}

func (p *performance) file(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(p.dir, name))
	must.Succeed(t, err)
	return string(content)
}

// eachFormat runs a test in every format.
func eachFormat(t *testing.T, test func(t *testing.T, as func(*Options), format signalbox.Format)) {
	for _, format := range formats {
		t.Run(string(format), func(t *testing.T) {
			test(t, func(o *Options) { o.Format = format }, format)
		})
	}
}

// TestMain lets the test binary act as the agent, because misbehaviour needs a separate process.
func TestMain(m *testing.M) {
	steps, ok := os.LookupEnv("REHEARSAL_STEPS")
	if !ok {
		os.Exit(m.Run())
	}
	script, err := Parse("steps", []byte("on *:\n"+steps))
	if err != nil {
		panic(err)
	}
	err = script.Play(context.Background(),
		Options{Format: signalbox.Format(os.Getenv("REHEARSAL_FORMAT")), Task: "t1",
			Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
	if exit := (*Exit)(nil); errors.As(err, &exit) {
		os.Exit(exit.Code)
	}
	if err != nil {
		panic(err)
	}
}
