package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/oracle/chunk"
)

var anything = json.RawMessage(`{"type":"object"}`)

// tool returns a tool that calls do.
func tool(do func(context.Context, Call) (Result, error)) Tool {
	return Tool{Name: "test", Schema: anything, Use: do}
}

func TestRunOutcomes(t *testing.T) {
	source := chunk.Source{Type: "code", Path: "a.go", Line: 3}
	for name, c := range map[string]struct {
		do   func(context.Context, Call) (Result, error)
		want Outcome
	}{
		"a result": {func(context.Context,
			Call) (Result, error) {
			return Result{"found", []chunk.Source{source}}, nil
		},
			Outcome{OK: true, Text: "found", Sources: []chunk.Source{source}}},
		"nothing": {func(context.Context, Call) (Result, error) { return Result{Text: " \n"}, nil },
			Outcome{OK: true, Text: "(no output)"}},
		"no UTF-8": {func(context.Context, Call) (Result, error) {
			return Result{"a\xffb", []chunk.Source{{Type: "code", Path: "\xff.go"}}}, nil
		}, Outcome{OK: true, Text: "a\uFFFDb",
			Sources: []chunk.Source{{Type: "code", Path: "\uFFFD.go"}}}},
		"an error": {func(context.Context,
			Call) (Result, error) {
			return Result{}, errors.New("no network\xff")
		},
			Outcome{Text: "no network\uFFFD"}},
		"an error, no text": {func(context.Context,
			Call) (Result, error) {
			return Result{}, errors.New(" ")
		},
			Outcome{Text: "the tool failed without an error message"}},
		"an error and a hint": {func(context.Context,
			Call) (Result, error) {
			return Result{}, hinted()
		}, Outcome{Text: "wrapped: no key; set one"}},
		"a panic": {func(context.Context, Call) (Result, error) { panic("index out of range") },
			Outcome{Text: "test panicked: index out of range; this is a bug in the tool: continue without it"}},
		"a goroutine that ends": {func(context.Context,
			Call) (Result, error) {
			runtime.Goexit()
			return Result{}, nil
		},
			Outcome{Text: "the tool ended without a result"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Run(t.Context(), tool(c.do), Call{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func hinted() error {
	return fmt.Errorf("wrapped: %w", &signalbox.Error{Err: errors.New("no key"), Hint: "set one"})
}

func TestRunPassesTheCall(t *testing.T) {
	var got Call
	Run(t.Context(), tool(func(_ context.Context,
		c Call) (Result, error) {
		got = c
		return Result{}, nil
	}),
		Call{Key: "s/1", Arguments: json.RawMessage(` {"a":1.50} `)})
	if got.Key != "s/1" || string(got.Arguments) != `{"a":1.50}` {
		t.Errorf("the tool got %s %s", got.Key, got.Arguments)
	}
}

func TestRunBounds(t *testing.T) {
	for _, sign := range []string{"x", "ä", "𝄞", "a\xff"} {
		long := strings.Repeat(sign, MaxResult)
		for _, out := range []Outcome{
			Run(t.Context(), tool(func(context.Context,
				Call) (Result, error) {
				return Result{Text: long}, nil
			}), Call{}),
			Run(t.Context(), tool(func(context.Context,
				Call) (Result, error) {
				return Result{}, errors.New(long)
			}), Call{}),
		} {
			if len(out.Text) > MaxResult || len(out.Text) < MaxResult-10 && len(long) > MaxResult ||
				!utf8.ValidString(out.Text) {
				t.Errorf("%d bytes, valid %v", len(out.Text), utf8.ValidString(out.Text))
			}
			if sign != "x" {
				has(t, out.Text[len(out.Text)-100:], "cut here: the result has ",
					"bytes; ask for less at once)")
			}
		}
	}
	many := make([]chunk.Source, 1000)
	out := Run(t.Context(),
		tool(func(context.Context, Call) (Result, error) { return Result{Sources: many}, nil }),
		Call{})
	if len(out.Sources) != maxSources {
		t.Errorf("%d sources", len(out.Sources))
	}
	some := []chunk.Source{{Path: "b", Line: 3}, {Path: "a", Line: 4}, {Path: "b", Line: 1}, {Path: "a", Line: 4, Title: "later"}}
	out = Run(t.Context(),
		tool(func(context.Context, Call) (Result, error) { return Result{Sources: some}, nil }),
		Call{})
	if diff := cmp.Diff([]chunk.Source{some[1], some[3], some[2], some[0]},
		out.Sources); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
}

// A tool that obeys its context is stopped; one that does not is abandoned.
func TestRunTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		limit time.Duration
		hangs bool
		took  time.Duration
		want  string
	}{
		"ends": {time.Second, false, time.Second,
			"timeout: test took longer than 1s and was stopped; ask for less at once, or continue without it"},
		"ends, the default": {0, false, DefaultTimeout,
			"timeout: test took longer than 1m0s and was stopped; ask for less at once, or continue without it"},
		"hangs": {time.Second, true, time.Second + abandonAfter,
			"timeout: test took longer than 1s and cannot be stopped; continue without it"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				free := make(chan struct{})
				slow := tool(func(ctx context.Context, _ Call) (Result, error) {
					if c.hangs {
						<-free
						return Result{Text: "late"}, nil
					}
					<-ctx.Done()
					return Result{}, fmt.Errorf("walk: %w", ctx.Err())
				})
				slow.Timeout = c.limit
				start := time.Now()
				if diff := cmp.Diff(Outcome{Text: c.want},
					Run(t.Context(), slow, Call{})); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if took := time.Since(start); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				close(free)
			})
		})
	}
}

// A result that arrives with the timeout counts.
func TestRunKeepsResultAtTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := Run(t.Context(), tool(func(ctx context.Context, _ Call) (Result, error) {
			<-ctx.Done()
			return Result{Text: "just in time"}, nil
		}), Call{})
		if !out.OK || out.Text != "just in time" {
			t.Errorf("%+v", out)
		}
	})
}

func TestRunCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		started := false
		waits := tool(func(ctx context.Context, _ Call) (Result, error) {
			started = true
			cancel()
			<-ctx.Done()
			return Result{}, errors.New("something else")
		})
		if out := Run(ctx, waits, Call{}); out.OK ||
			out.Text != "cancelled: test was stopped before it finished" {
			t.Errorf("%+v", out)
		}
		started = false
		if out := Run(ctx, waits, Call{}); out.OK || started ||
			out.Text != "cancelled: test was not started" {
			t.Errorf("%+v, started: %v", out, started)
		}
	})
}

func TestCheck(t *testing.T) {
	does := func(context.Context, Call) (Result, error) { return Result{}, nil }
	good := Tool{Name: "A-z_09", Schema: json.RawMessage(` {"properties":{}, "type":"object"} `), Use: does}
	with := func(change func(*Tool)) []Tool {
		other := good
		other.Name = "other"
		change(&other)
		return []Tool{good, other}
	}
	for name, c := range map[string]struct {
		tools []Tool
		want  string
	}{
		"none": {nil, ""},
		"good": {with(func(*Tool) {}), ""},
		"built in": {[]Tool{SearchCode("."), ReadFile("."), SearchNotes(".", ""),
			CheckExitSignals(nil), SuggestTaxLossHarvest(nil), FromCommand("x", Command{})}, ""},
		"longest": {with(func(t *Tool) { t.Name = strings.Repeat("x", 64) }), ""},
		"too long": {with(func(t *Tool) { t.Name = strings.Repeat("x", 65) }),
			"1 to 64 letters"},
		"no name":    {with(func(t *Tool) { t.Name = "" }), `tool "": a name must have`},
		"a dot":      {with(func(t *Tool) { t.Name = "a.b" }), `tool "a.b": a name must have`},
		"a line end": {with(func(t *Tool) { t.Name = "a\n" }), "a name must have"},
		"twice": {with(func(t *Tool) { t.Name = good.Name }),
			"tool A-z_09 is defined twice: rename"},
		"no Use": {with(func(t *Tool) { t.Use = nil }), "tool other has no Use function"},
		"no schema": {with(func(t *Tool) { t.Schema = nil }),
			"tool other: its parameters are not a JSON schema"},
		"null": {with(func(t *Tool) { t.Schema = json.RawMessage("null") }),
			"not a JSON schema"},
		"a list": {with(func(t *Tool) { t.Schema = json.RawMessage("[]") }),
			"not a JSON schema"},
		"no JSON": {with(func(t *Tool) { t.Schema = json.RawMessage("{") }),
			"not a JSON schema"},
		"no type": {with(func(t *Tool) { t.Schema = json.RawMessage(`{"properties":{}}`) }),
			"must have type: object"},
		"another type": {with(func(t *Tool) { t.Schema = json.RawMessage(`{"type":"string"}`) }),
			"must have type: object"},
		"no properties": {with(
			func(t *Tool) { t.Schema = json.RawMessage(`{"type":"object","properties":[]}`) }),
			"properties in the JSON schema"},
	} {
		err := Check(c.tools)
		if c.want == "" && err != nil || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
