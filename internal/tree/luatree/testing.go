package luatree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"

	"signalbox/internal/tree"
	"signalbox/internal/tree/luatree/boundedlua"
)

// Report contains the results of the tests of a file.
type Report struct {
	// File is the file of the tests, Tree the file of the tree.
	File, Tree string
	Tests      []TestResult
}

// TestResult is the result of a test.
type TestResult struct {
	Name string
	OK   bool
	// File and Line are the position of the failure, or of the test if it passed. Msg is the reason
	// of the failure.
	File string
	Line int
	Msg  string
	// Ticks is the number of ticks.
	Ticks    int
	Duration time.Duration
}

// Failed returns the number of tests that failed.
func (r *Report) Failed() int {
	n := 0
	for i := range r.Tests {
		if !r.Tests[i].OK {
			n++
		}
	}
	return n
}

// testTime is the minimum time limit of a test, which is one call of Lua code.
const testTime = 10 * time.Second

// Test runs the tests of a tree. The path is that of the tree, x.lua, or of its tests, x_test.lua.
// The error means that the tests could not be run; tests that fail are in the report.
func Test(ctx context.Context, path string, o *Options) (*Report, error) {
	if o == nil {
		o = &Options{}
	}
	stem := strings.TrimSuffix(strings.TrimSuffix(path, ".lua"), "_test")
	r := &Report{File: stem + "_test.lua", Tree: stem + ".lua"}
	source, tests, err := r.read()
	if err != nil {
		return nil, err
	}
	f, err := Load(ctx, r.Tree, source, o)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	limits := o.Limits
	limits.Time = max(limits.Time, testTime)
	s := newSuite(f, limits, o.Functions)
	defer s.runtime.Close()
	if err := s.load(ctx, r.File, string(tests)); err != nil {
		return nil, err
	}
	for _, t := range s.tests {
		r.Tests = append(r.Tests, t.result(ctx))
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// missingError means that a file does not exist. It wraps fs.ErrNotExist.
type missingError struct{ msg string }

func (e *missingError) Error() string { return e.msg }
func (e *missingError) Unwrap() error { return fs.ErrNotExist }

// read returns the content of both files.
func (r *Report) read() (source, tests []byte, err error) {
	source, noTree := read(r.Tree)
	tests, noTests := read(r.File)
	switch missing := fs.ErrNotExist; {
	case errors.Is(noTree, missing) && errors.Is(noTests, missing):
		return nil, nil, &missingError{fmt.Sprintf(
			"neither %s nor its tests %s exist: is the name misspelled?", r.Tree, r.File)}
	case errors.Is(noTree, missing):
		return nil, nil, &missingError{fmt.Sprintf(
			"%s does not exist, and %s are its tests: write it, or rename the tests", r.Tree,
			r.File)}
	case errors.Is(noTests, missing):
		return nil, nil, &missingError{fmt.Sprintf("%s has no tests: write them to %s", r.Tree,
			r.File)}
	case noTree != nil:
		return nil, nil, noTree
	case noTests != nil:
		return nil, nil, fmt.Errorf("the tests of %s cannot be read: %w", r.Tree, noTests)
	}
	return source, tests, nil
}

// suite is a file of tests. It is not frozen, so a function that replaces a leaf may count its
// calls.
type suite struct {
	tree    *tree.Tree
	runtime *boundedlua.Runtime
	leaves  *leafObjects
	methods *lua.LTable
	// pcall is the original function, which the file may replace.
	pcall  lua.LValue
	loaded bool
	tests  []*testObject
}

func newSuite(f *File, limits Limits, functions *tree.Registry) *suite {
	s := &suite{tree: f.Tree(), runtime: boundedlua.New(limits)}
	s.leaves = newLeafObjects(s.runtime, functions, f.keys)
	s.methods = methods(s.runtime, s.testMethods())
	s.pcall = s.runtime.Globals.RawGetString("pcall")
	return s
}

func (s *suite) load(ctx context.Context, file, source string) error {
	globals := map[string]lua.LValue{
		"BT": constants(s.runtime, "BT", statuses(),
			"in a test: known: SUCCESS, FAILURE and RUNNING"),
		"test": s.runtime.Root.NewFunction(s.declare),
	}
	if _, err := s.runtime.Load(ctx, file, source, globals); err != nil {
		return err
	}
	s.loaded = true
	if len(s.tests) == 0 {
		return &Error{File: file, Line: 1,
			Msg: `there are no tests: write test("name", function(t) … end)`}
	}
	return nil
}

// declare implements test(name, function).
func (s *suite) declare(L *lua.LState) int {
	name := wantString(s.runtime, L, 1, "the name of a test")
	fn, ok := L.Get(2).(*lua.LFunction)
	switch {
	case s.loaded:
		s.runtime.Raise(L, "a test cannot contain a test")
	case !ok || fn.Proto == nil:
		s.runtime.Raise(L, "test needs a function after the name, not %s", describe(L.Get(2)))
	case name == "":
		s.runtime.Raise(L, "the name of the test is empty")
	}
	for _, other := range s.tests {
		if other.name == name {
			s.runtime.Raise(L, "test '%s' is declared twice, first at %s", boundedlua.Shorten(name),
				other.at)
		}
	}
	s.runtime.Spend(L, len(s.tests))
	s.tests = append(s.tests, newTestObject(s, name, s.runtime.Where(L), fn))
	return 0
}
