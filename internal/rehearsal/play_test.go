package rehearsal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/testkit/must"
)

const exitObject = `{"protocol": "apm2_agent_exit", "version": "1.0.0", "phase_completed": "IMPLEMENTATION", "exit_reason": "completed", "notes": "{task}"}`

// TestSignals checks that in every format a scanner finds the signals of the script, and no others.
func TestSignals(t *testing.T) {
	tests := []struct {
		name, steps string
		taken       []string
		refused     []signalbox.Reason // except fenced, which plain uses to quote
	}{
		{"nothing", "    say I am done.\n", nil, nil},
		{"no steps", "", nil, nil},
		{"verdict", "    signal READY_FOR_REVIEW: {task}\n", []string{"ready_for_review t1"}, nil},
		{"wrong task", "    signal READY_FOR_REVIEW: other\n", []string{"ready_for_review other"},
			nil},
		{"wrong role", "    signal AUDIT_PASSED: {task}\n", []string{"audit_passed t1"}, nil},
		{"two", "    signal CHECKPOINT: {task}\n    say Nearly there.\n    signal REVIEW_PASSED: {task}\n",
			[]string{"checkpoint t1", "review_passed t1"}, nil},
		{"quoted", "    quote READY_FOR_REVIEW: {task}\n", nil, []signalbox.Reason{"fenced"}},
		{"quoted with a fence in it",
			"    quote <<END\n```\nREADY_FOR_REVIEW: t1\n```\nAUDIT_PASSED: t1\nEND\n", nil,
			[]signalbox.Reason{"fenced", "fenced"}},
		{"near miss", "    say **READY_FOR_REVIEW: {task}**\n", nil,
			[]signalbox.Reason{"near_miss"}},
		{"quotes stay", "    say \"READY_FOR_REVIEW: {task}\"\n", nil,
			[]signalbox.Reason{"near_miss"}},
		{"thinking", "    thinking AUDIT_PASSED: {task}\n    say Well.\n", nil, nil},
		{"sub-agent", "    subagent AUDIT_PASSED: {task}\n    say Well.\n", nil, nil},
		{"exit", "    exit " + exitObject + "\n", []string{"agent_exit "}, nil},
		{"exit in lines", "    exit <<END\n" + strings.ReplaceAll(exitObject, ",", ",\n") +
			"\nEND\n", []string{"agent_exit "}, nil},
		{"whole line", "    signal REMEDIATION_COMPLETE\n", []string{"remediation_complete "}, nil},
		{"turn signal", "    signal <signal type=\"need_turn\"><reason>more</reason></signal>\n",
			[]string{"need_turn "}, nil},
		{"delegated", "    signal EXPERT_REQUEST\n        Target Agent: security\n        ---DELEGATION PROMPT START---\n        REVIEW_PASSED: {task}\n        ---DELEGATION PROMPT END---\n",
			[]string{"expert_request "}, []signalbox.Reason{"delegated"}},
		{"tool output", "    write a.txt AUDIT_PASSED: {task}\n    read a.txt\n    append a.txt ```\n    replace a.txt \"AUDIT\" \"REVIEW\"\n    read a.txt\n    read none.txt\n    signal READY_FOR_REVIEW: {task}\n",
			[]string{"ready_for_review t1"}, nil},
		{"end and on", "    signal CHECKPOINT: {task}\n    end\n    say Once more.\n    signal READY_FOR_REVIEW: {task}\n",
			[]string{"checkpoint t1", "ready_for_review t1"}, nil},
		{"bytes", "    signal READY_FOR_REVIEW: {task}\n    bytes e282\n",
			[]string{"ready_for_review t1"}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			eachFormat(t, func(t *testing.T, as func(*Options), format signalbox.Format) {
				p := perform(t, test.steps, as)
				if p.err != nil {
					t.Fatal(p.err)
				}
				if diff := cmp.Diff(test.taken, p.taken()); diff != "" {
					t.Errorf("taken (-want +got):\n%s%s", diff, &p.stdout)
				}
				got := append([]string{}, p.refused()...)
				if format == signalbox.FormatPlain && test.refused == nil {
					got = slices.DeleteFunc(got, func(r string) bool { return r == "fenced" })
				}
				if format == signalbox.FormatOpencode { // its sub-agents have sessions of their own
					got = slices.DeleteFunc(got,
						func(r string) bool { return r == string(signalbox.ReasonForeignSession) })
				}
				want := []string{}
				for _, reason := range test.refused {
					want = append(want, string(reason))
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("refused (-want +got):\n%s%s", diff, &p.stdout)
				}
				if wantEnded := format != signalbox.FormatPlain; p.report.Ended != wantEnded ||
					p.report.Failed || p.report.Noise > 0 {
					t.Errorf("report %+v", p.report)
				}
			})
		})
	}
}

func TestBodies(t *testing.T) {
	const steps = `
    say First a look.
    signal CHECKPOINT: {task}
        Estimated Progress: 50%

        Current Activity: {role} at work
    signal READY_FOR_REVIEW: {task} the counter
        Files Modified:
        - a.go: counts

            deeper
        Summary: ünï, 第, 🚦
`
	eachFormat(t, func(t *testing.T, as func(*Options), _ signalbox.Format) {
		p := perform(t, steps, as)
		want := map[string]any{"Estimated Progress": "50%", "Current Activity": "developer at work"}
		if diff := cmp.Diff(want, p.body("checkpoint")); diff != "" {
			t.Errorf("checkpoint (-want +got):\n%s", diff)
		}
		ready := p.body("ready_for_review")
		if ready["Summary"] != "ünï, 第, 🚦" || ready["Files Modified"] == nil {
			t.Errorf("ready %v\n%s", ready, &p.stdout)
		}
	})
}

func TestUsage(t *testing.T) {
	const steps = `
    usage 1000 300 0.25 70
    say Hello.
    run exit 0
    usage 200 40 0.5
    end
    say Again.
    usage 1 2 0.25
`
	want := map[signalbox.Format]signalbox.Usage{
		signalbox.FormatClaude: {InputTokens: 1201, CachedInputTokens: 70, OutputTokens: 342,
			CostUSD: 1},
		signalbox.FormatCodex:  {InputTokens: 1201, CachedInputTokens: 70, OutputTokens: 342},
		signalbox.FormatGemini: {InputTokens: 1201, CachedInputTokens: 70, OutputTokens: 342},
		signalbox.FormatOpencode: {InputTokens: 1201, CachedInputTokens: 70, OutputTokens: 342,
			CostUSD: 1},
	}
	needShell(t)
	eachFormat(t, func(t *testing.T, as func(*Options), format signalbox.Format) {
		if diff := cmp.Diff(want[format], perform(t, steps, as).report.Usage); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		estimate := perform(t, "    say Four letters each.\n", as).report.Usage
		if format != signalbox.FormatPlain &&
			(estimate.InputTokens != 1 || estimate.OutputTokens != 4) {
			t.Errorf("estimate %+v", estimate)
		}
	})
}

func needShell(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs sh")
	}
}

func TestRateLimit(t *testing.T) {
	eachFormat(t, func(t *testing.T, as func(*Options), format signalbox.Format) {
		for _, known := range []bool{true, false} {
			limit := "none"
			until := time.Time{}
			if known {
				limit, until = "5m", noon.Add(5*time.Minute)
			}
			p := perform(t, "    say Starting.\n    ratelimit "+limit+
				"\n    signal READY_FOR_REVIEW: {task}\n", as)
			if p.status(t) != 1 || len(p.taken()) > 0 {
				t.Errorf("%s: status %v, taken %v", limit, p.err, p.taken())
			}
			told := p.report.Error
			if format == signalbox.FormatPlain {
				told = p.stderr.String()
			} else if !p.report.Failed || !p.report.Ended {
				t.Errorf("%s: report %+v", limit, p.report)
			}
			if !strings.Contains(told, "429") || strings.Contains(told, "12:05:00Z") != known {
				t.Errorf("%s: told %q", limit, told)
			}
			if got := p.report.RateLimit; format == signalbox.FormatClaude &&
				(got.Status != "rejected" || !got.ResetsAt.Equal(until)) {
				t.Errorf("%s: rate limit %+v", limit, got)
			}
		}
	})
}

// TestEndOnce checks that a turn that the script has ended is not ended again.
func TestEndOnce(t *testing.T) {
	p := perform(t, "    say Hello.\n    end\n    end\n    say Again.\n    end\n    touch a\n",
		func(o *Options) { o.Format = signalbox.FormatCodex })
	if n := strings.Count(p.stdout.String(), `"turn.completed"`); n != 2 {
		t.Errorf("%d turns end:\n%s", n, &p.stdout)
	}
}

func TestBrokenStreams(t *testing.T) {
	eachFormat(t, func(t *testing.T, as func(*Options), format signalbox.Format) {
		isJSON := format != signalbox.FormatPlain
		p := perform(t, "    say I am at it.\n    crash 9\n    signal READY_FOR_REVIEW: {task}\n",
			as)
		if p.status(t) != 9 || p.report.Ended || p.taken() != nil {
			t.Errorf("crash: %v, %+v", p.err, p.report)
		}
		p = perform(t, "    half READY_FOR_REVIEW: {task}\n    crash\n", as)
		if p.status(t) != 1 || isJSON && !slices.Equal(p.refused(), []string{"malformed"}) ||
			p.taken() != nil {
			t.Errorf("half: refused %v in %s", p.refused(), &p.stdout)
		}
		p = perform(t, "    raw npm warn old lockfile\n    signal READY_FOR_REVIEW: {task}\n", as)
		if isJSON && p.report.Noise != 1 || p.taken() == nil {
			t.Errorf("raw: %+v, taken %v", p.report, p.taken())
		}
		p = perform(t, "    bytes 00 ff e282\n", as)
		if !bytes.Contains(p.stdout.Bytes(), []byte("\x00\xff\xe2\x82")) {
			t.Errorf("bytes: %q", &p.stdout)
		}
		p = perform(t, "    exit-code 7\n    signal READY_FOR_REVIEW: {task}\n", as)
		if p.status(t) != 7 || p.taken() == nil || p.report.Ended != isJSON {
			t.Errorf("exit-code: %v, %+v", p.err, p.report)
		}
	})
}

func TestFlood(t *testing.T) {
	eachFormat(t, func(t *testing.T, as func(*Options), _ signalbox.Format) {
		for _, size := range []struct {
			text string
			n    int64
		}{{"1", 1}, {"70KB", 70_000}, {"1 MB", 1_000_000}} {
			for _, how := range []string{"", " in one line"} {
				p := perform(t, "    flood "+size.text+how+
					"\n    signal READY_FOR_REVIEW: {task}\n", as)
				if len(p.heard) != 1 || p.heard[0].Offset != size.n ||
					p.heard[0].Name != "ready_for_review" {
					t.Errorf("flood %s%s: heard %+v", size.text, how, p.heard)
				}
				if lines := p.heard[0].Line; how != "" && lines != 2 {
					t.Errorf("flood %s%s: %d lines", size.text, how, lines)
				}
			}
		}
	})
}

func TestFiles(t *testing.T) {
	needShell(t)
	p := perform(t, `
    write sub/{task}.txt <<END
{task} stays

END
    append sub/t1.txt and {task}
    append new.txt first
    replace sub/t1.txt "stays" "\"is\" {task}"
    touch done
    run echo out; echo err >&2; cat new.txt; exit 3
    run <<END
for i in 1 2; do
  echo $i >>count
done
END
`, func(o *Options) { o.Format = signalbox.FormatCodex })
	if p.err != nil {
		t.Fatal(p.err)
	}
	for file, want := range map[string]string{
		"sub/t1.txt": "{task} \"is\" t1\n\nand t1\n", "new.txt": "first\n", "done": "",
		"count": "1\n2\n",
	} {
		if got := p.file(t, file); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
	if !strings.Contains(p.stdout.String(),
		`"aggregated_output":"out\nerr\nfirst\n","exit_code":3,"status":"failed"`) {
		t.Errorf("the command's output is not shown:\n%s", &p.stdout)
	}
}

func TestStepErrors(t *testing.T) {
	for steps, want := range map[string]string{
		"    replace none.txt \"a\" \"b\"\n":                     "test.script:2: replace: open ",
		"    write a.txt b b\n    replace a.txt \"b\" \"c\"\n":   `test.script:3: replace: "b" occurs 2 times in a.txt`,
		"    write a.txt b\n\n    write a.txt/b c\n    say hi\n": "test.script:4: write: ",
	} {
		p := perform(t, steps, nil)
		if p.err == nil || !strings.HasPrefix(p.err.Error(), want) {
			t.Errorf("%s: %v", steps, p.err)
		}
	}
}

func TestExpect(t *testing.T) {
	p := perform(t, "    expect \"Do {task}\"\n    expect Do t1.\n    say Good.\n    expect \"advice\"\n    say Never.\n", nil)
	if p.status(t) != 3 || p.stdout.String() != "Good.\n" {
		t.Errorf("%v, %s", p.err, &p.stdout)
	}
	if got := p.stderr.String(); got != "test.script:5: the prompt does not contain \"advice\"\n" {
		t.Errorf("stderr %q", got)
	}
}

func TestPrompt(t *testing.T) {
	read := func(interactive bool) func(*Options) {
		return func(o *Options) {
			o.Prompt, o.Interactive, o.Stdin = nil, interactive,
				strings.NewReader("Do it\nwell.\n.\nhow far are you?\nsend a checkpoint\n")
		}
	}
	p := perform(t, "    expect \"well.\"\n    expect how far\n    listen\n", read(false))
	if p.err != nil || p.stdout.String() != "Heard nothing more: standard input has ended.\n" {
		t.Errorf("%v, %s", p.err, &p.stdout)
	}
	p = perform(t, "    expect \"Do it\\nwell.\\n\"\n    ask Yes?\n    listen \"checkpoint\"\n    say So: {heard}\n    signal CHECKPOINT: {task}\n", read(true))
	if want := "Yes?\nHeard: send a checkpoint\nSo: send a checkpoint\nCHECKPOINT: t1\n"; p.err != nil || p.stdout.String() != want {
		t.Errorf("%v, %s", p.err, &p.stdout)
	}
	if p = perform(t, "    expect how far\n", read(true)); p.status(t) != 3 {
		t.Errorf("the prompt continues after its end: %v", p.err)
	}
}

func TestListenContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	silent, w := io.Pipe()
	defer w.Close()
	prompt := ""
	script, err := Parse("s", []byte("on *:\n    ask Anybody?\n    listen\n"))
	must.Succeed(t, err)
	stdout := writerFunc(func(b []byte) (int, error) {
		if len(b) > 0 {
			cancel()
		}
		return len(b), nil
	})
	if err := script.Play(ctx, Options{Prompt: &prompt, Stdin: silent, Stdout: stdout}); !errors.Is(
		err, context.Canceled) {
		t.Error(err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestWaiting(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		script, err := Parse("s",
			[]byte("on *:\n    wait 90s\n    say There.\n    wait for go.txt\n    hang after result\n"))
		must.Succeed(t, err)
		prompt, begin := "", time.Now()
		var spoke, ended time.Time
		stdout := writerFunc(func(b []byte) (int, error) {
			switch {
			case bytes.Contains(b, []byte("There.")):
				spoke = time.Now()
				go func() {
					time.Sleep(time.Minute)
					os.WriteFile(filepath.Join(dir, "go.txt"), nil, 0o666)
				}()
			case bytes.Contains(b, []byte("turn.completed")):
				ended = time.Now()
			}
			return len(b), nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		err = script.Play(ctx, Options{Format: signalbox.FormatCodex, Prompt: &prompt,
			Stdout: stdout, Dir: dir})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it did not hang: %v", err)
		}
		if spoke.Sub(begin) != 90*time.Second {
			t.Errorf("spoke after %v", spoke.Sub(begin))
		}
		if d := ended.Sub(spoke); d < time.Minute || d > time.Minute+time.Second {
			t.Errorf("ended after %v", d)
		}
	})
}

func TestWriteError(t *testing.T) {
	full := errors.New("full")
	p := perform(t, "    say hi\n    write a.txt b\n", func(o *Options) {
		o.Stdout = writerFunc(func(b []byte) (int, error) {
			if len(b) > 0 {
				return 0, full
			}
			return 0, nil
		})
	})
	if !errors.Is(p.err, full) {
		t.Error(p.err)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "a.txt")); err == nil {
		t.Error("the script continued")
	}
}

func TestOptions(t *testing.T) {
	p := perform(t, "    say {role} {task} {attempt} {session} {other}\n",
		func(o *Options) { o.Session, o.Attempt, o.Format = "", 0, "" })
	if p.stdout.String() != "developer t1 1 rehearsal {other}\n" {
		t.Errorf("%q", &p.stdout)
	}
	for _, format := range []signalbox.Format{"auto", "morse"} {
		if p := perform(t, "", func(o *Options) { o.Format = format }); p.err == nil {
			t.Errorf("the format %s is accepted", format)
		}
	}
}

// An agent that continues a session names it in its output instead of a new one.
func TestResume(t *testing.T) {
	dir := t.TempDir()
	const id = "5c0d2a7b-e1a9-4f6c-8d3e-2b1a09f8e7d6"
	own := regexp.MustCompile(`ses_[0-9a-f]{26}|` +
		(&jsonLines{agentInfo: agentInfo{session: "s-1"}}).uuid("session"))
	for _, format := range []signalbox.Format{signalbox.FormatClaude, signalbox.FormatCodex,
		signalbox.FormatGemini, signalbox.FormatOpencode} {
		first := perform(t, "    ratelimit none\n",
			func(o *Options) { o.Format, o.Dir = format, dir }).stdout.String()
		again := perform(t, "    ratelimit none\n",
			func(o *Options) { o.Format, o.Dir, o.Resume = format, dir, id }).stdout.String()
		if want := own.ReplaceAllString(first, id); again != want || want == first {
			t.Errorf("%s: it continues %s as\n%s", format, id, again)
		}
	}
	p := perform(t, "    touch {thread}\n", func(o *Options) { o.Resume = id })
	if _, err := os.Stat(filepath.Join(p.dir, id)); err != nil {
		t.Errorf("{thread}: %v", err)
	}
}
