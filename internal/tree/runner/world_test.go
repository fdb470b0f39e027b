package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
	"signalbox/internal/tree/turnsignal"
)

// world is the environment of a run, which outlives its process. Work that was started under a key
// is done at a fixed time, however often it is requested, so a run that is killed and resumed at
// once has the same course as one that is not.
type world struct {
	mu      sync.Mutex
	due     map[string]time.Time
	started []tree.Request
	// cleared holds the keys of halted jobs that were started with a context that was already done.
	cleared []string
	emits   []tree.Emit
	// cancelled, if set, is called by each cancelled job.
	cancelled func()
}

func newWorld() *world { return &world{due: map[string]time.Time{}} }

// attempt returns the last element of a key, the number of the start in the run.
func attempt(key string) int64 {
	n, err := strconv.ParseInt(key[strings.LastIndexByte(key, '/')+1:], 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// work takes args.takes milliseconds, fails the first args.fails times, and writes args.writes.
func (w *world) work(ctx context.Context, r tree.Request) tree.Result {
	args, _ := r.Payload.(map[string]any)
	takes, _ := args["takes"].(int64)
	fails, _ := args["fails"].(int64)
	writes, _ := args["writes"].(map[string]any)
	if err := w.wait(ctx, r, time.Duration(takes)*time.Millisecond); err != nil {
		return tree.Result{Status: tree.Failure, Err: err.Error()}
	}
	if attempt(r.Key) <= fails {
		return tree.Result{Status: tree.Failure, Err: "not yet"}
	}
	return tree.Result{Status: tree.Success, Writes: writes}
}

// wait waits until the work of a key is done.
func (w *world) wait(ctx context.Context, r tree.Request, takes time.Duration) error {
	w.mu.Lock()
	if ctx.Err() != nil { // halted: there is nothing to clean up in this world
		w.cleared = append(w.cleared, r.Key)
		w.mu.Unlock()
		return ctx.Err()
	}
	w.started = append(w.started, r)
	due, begun := w.due[r.Key]
	if !begun {
		due = time.Now().Add(takes)
		w.due[r.Key] = due
	}
	w.mu.Unlock()
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		if w.cancelled != nil {
			w.cancelled()
		}
		return ctx.Err()
	}
}

func (w *world) emitted(_ context.Context, _ *tree.Run, e tree.Emit) error {
	w.emits = append(w.emits, e)
	return nil
}

// chance has a duration and a result that depend on its key and args.seed. No two jobs are likely
// to end together.
func (w *world) chance(ctx context.Context, r tree.Request) tree.Result {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s", r.Key, tree.FormatValue(r.Payload))
	dice := h.Sum64()
	if err := w.wait(ctx, r, time.Duration(dice%uint64(time.Second))); err != nil {
		return tree.Result{Status: tree.Failure, Err: err.Error()}
	}
	if dice>>40%3 == 0 {
		return tree.Result{Status: tree.Failure, Err: "bad luck"}
	}
	return tree.Result{Status: tree.Success, Writes: args{"a": int64(dice >> 50 % 4)}}
}

// functions returns the functions of the trees in the tests.
func (w *world) functions() *tree.Registry {
	r := &tree.Registry{}
	turnsignal.Register(r)
	r.Add(tree.Action, "work", tree.Leaf{Job: w.work})
	r.Add(tree.Action, "chance", tree.Leaf{Job: w.chance})
	r.Add(tree.Action, "collect",
		tree.Leaf{Job: w.work, Finish: func(c *tree.Call, result tree.Result) tree.Status {
			if result.Status != tree.Success {
				return c.Fail("%s", result.Err)
			}
			return collect(c)
		}})
	r.Add(tree.Action, "note", tree.Leaf{Do: collect})
	r.Add(tree.Action, "count", tree.Leaf{Do: func(c *tree.Call) tree.Status {
		n, _ := c.Get("n")
		was, _ := n.(int64)
		if err := errors.Join(c.Set("n", was+1), c.Emit("count", was+1)); err != nil {
			return c.Fail("%v", err)
		}
		return tree.Success
	}})
	r.Add(tree.Condition, "is", tree.Leaf{Do: func(c *tree.Call) tree.Status {
		v, _ := c.Get(c.Arg("key").(string))
		if tree.FormatValue(v) == tree.FormatValue(c.Arg("value")) {
			return tree.Success
		}
		return tree.Failure
	}})
	return r
}

// collect adds args.item to the list "done", and publishes it.
func collect(c *tree.Call) tree.Status {
	before, _ := c.Get("done")
	list, _ := before.([]any)
	item := c.Args()["item"]
	if err := errors.Join(c.Set("done", append(slices.Clip(list), item)),
		c.Emit("done", item)); err != nil {
		return c.Fail("%v", err)
	}
	return tree.Success
}

// Nodes of the tests' trees.

type args = map[string]any

func inner(kind tree.Kind, children ...*tree.Node) *tree.Node {
	return &tree.Node{Kind: kind, Children: children}
}

func sequence(children ...*tree.Node) *tree.Node { return inner(tree.Sequence, children...) }

func action(name, fn string, a args) *tree.Node {
	return &tree.Node{Kind: tree.Action, Name: name, Fn: fn, Args: a}
}

func work(name string, takes int) *tree.Node {
	return action(name, "work", args{"takes": int64(takes), "writes": args{name: takes}})
}

func do(name string, f tree.Func) *tree.Node {
	return &tree.Node{Kind: tree.Action, Name: name, Do: f}
}

func is(key string, value any) *tree.Node {
	return &tree.Node{Kind: tree.Condition, Fn: "is", Args: args{"key": key, "value": value}}
}

func after(kind tree.Kind, d time.Duration, children ...*tree.Node) *tree.Node {
	return &tree.Node{Kind: kind, After: d, Children: children}
}

func keys(names ...string) []tree.Key {
	var all []tree.Key
	for _, name := range names {
		all = append(all, tree.Key{Name: name})
	}
	return all
}

func compile(t testing.TB, def *tree.Definition, functions *tree.Registry) *tree.Tree {
	t.Helper()
	compiled, err := tree.Compile(def, functions)
	must.Succeed(t, err)
	return compiled
}

// single compiles a tree with a root.
func single(t testing.TB, w *world, root *tree.Node, names ...string) *tree.Tree {
	t.Helper()
	return compile(t, &tree.Definition{Name: "test", Keys: keys(names...), Root: root},
		w.functions())
}

// inBubble runs f in virtual time. It fails if a goroutine of f is still running at the end.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func journalName(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "run.journal")
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	must.Succeed(t, err)
	return text
}

func writeFile(t testing.TB, name string, text []byte) {
	t.Helper()
	must.Succeed(t, os.WriteFile(name, text, 0o600))
}

func lines(text []byte) [][]byte {
	return slices.Collect(bytes.Lines(text))
}

// wantError fails unless err wraps want and contains the texts.
func wantError(t testing.TB, err, want error, texts ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not name %q", err, text)
		}
	}
}

// wantDone fails unless a run succeeded.
func wantDone(t testing.TB, run *tree.Run, err error) {
	t.Helper()
	must.Succeed(t, err)
	if run.Status() != tree.Success {
		t.Fatalf("the run ended as %s: %s", run.Status(), complaints(run))
	}
}

func complaints(run *tree.Run) string {
	var texts []string
	for i, view := range run.Views() {
		if view.Err != "" {
			texts = append(texts, fmt.Sprintf("%s: %s", run.Tree().Info(i).Path, view.Err))
		}
	}
	return strings.Join(texts, "; ")
}

// ending returns the ending of a journal.
func ending(t testing.TB, name string) string {
	t.Helper()
	j, err := ReadJournal(name, nil, nil)
	must.Succeed(t, err)
	if j.Ending == nil {
		return ""
	}
	return j.Ending.End
}
