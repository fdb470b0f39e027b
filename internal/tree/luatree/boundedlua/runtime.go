// Package boundedlua runs Lua code with limits. The code has no access to files, processes, the
// network or the clock. A call that exceeds its limit of instructions, time or memory ends with an
// error that names file and line, and that the code cannot catch. After Freeze, a call cannot
// change anything that existed before it, so nothing is kept between calls.
//
// The methods of a Runtime may be called between calls, or by a Go function that the running Lua
// code called. One goroutine at a time may use a Runtime.
package boundedlua

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"

	"signalbox/internal/text"
	"signalbox/internal/tree"
)

// Limits bounds the resources of each call; loading a file is a call. A zero field means its
// default.
type Limits struct {
	// Instructions is the number of instructions; default 5,000,000.
	Instructions int64
	// Memory is the number of bytes by which the heap of the process may grow; default 64 MiB. It
	// is measured every 128 instructions, so a call may exceed it by some megabytes before it is
	// stopped.
	Memory int64
	// StringSize is the length of the longest string in bytes; default 1 MiB.
	StringSize int
	// Depth is the number of nested function calls; default 200, at most 1,000.
	Depth int
	// Time is the duration; default 2 s.
	Time time.Duration
}

// maxDepth keeps the interpreter's use of the Go stack far below the size at which Go ends the
// process.
const maxDepth = 1000

func (l Limits) withDefaults() Limits {
	if l.Instructions <= 0 {
		l.Instructions = 5_000_000
	}
	if l.Memory <= 0 {
		l.Memory = 64 << 20
	}
	if l.StringSize <= 0 {
		l.StringSize = 1 << 20
	}
	if l.Depth <= 0 {
		l.Depth = 200
	}
	l.Depth = min(l.Depth, maxDepth)
	if l.Time <= 0 {
		l.Time = 2 * time.Second
	}
	return l
}

// Error is an error in a Lua file. A Line of 0 means that the error has no line.
type Error struct {
	File string
	Line int
	Msg  string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Msg
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
}

// Runtime runs Lua code with limits.
//
// The interpreter has no hooks for that. Instead, its context counts instructions and measures the
// heap (meter), the source is rewritten so that concatenations and assignments call Go functions
// (rewriter), and library functions that could run for long or allocate much are our own.
type Runtime struct {
	limits Limits
	meter  *meter
	// Root creates functions, tables and threads. It never runs code itself: its context would cost
	// a goroutine for each thread.
	Root *lua.LState
	// state runs calls. It is replaced after a call that was stopped, because its stack is then
	// inconsistent.
	state *lua.LState
	// outer holds the states that wait in pcall for the running one.
	outer []*lua.LState

	// env is the environment of Lua code. It is empty and has a metatable, which intercepts reads
	// of undefined globals and all assignments to globals.
	env     *lua.LTable
	Globals *lua.LTable
	strings *lua.LTable
	files   []string

	// sealed reports whether loading has ended. frozen holds the tables that existed then.
	sealed  bool
	frozen  map[*lua.LTable]struct{}
	running bool
}

// New returns a runtime that defines the library only.
func New(limits Limits) *Runtime {
	lowerArrays()
	limits = limits.withDefaults()
	s := &Runtime{limits: limits, meter: newMeter(limits), frozen: map[*lua.LTable]struct{}{}}
	s.Root = lua.NewState(lua.Options{
		SkipOpenLibs:  true,
		CallStackSize: limits.Depth,
		RegistrySize:  1024, RegistryMaxSize: 1 << 17, RegistryGrowStep: 4096,
	})
	s.Root.G.MainThread = s.Root
	s.env = s.Root.CreateTable(0, 8)
	s.openLibraries()
	s.openGuards()
	s.Root.Env = s.env
	s.state = s.thread(limits.Depth)
	return s
}

// Close frees the runtime, which must not be used afterwards.
func (s *Runtime) Close() {
	s.state, s.outer = nil, nil
	if !s.Root.IsClosed() {
		s.Root.Close()
	}
}

// thread returns a state that shares all globals and allows the given number of nested calls.
func (s *Runtime) thread(depth int) *lua.LState {
	s.Root.Options.CallStackSize = depth
	th, _ := s.Root.NewThread()
	th.SetContext(s.meter)
	return th
}

// Load compiles and runs a file with additional globals and returns its first result, or LNil if it
// has none.
func (s *Runtime) Load(ctx context.Context, file, source string,
	globals map[string]lua.LValue) (lua.LValue, *Error) {
	if s.sealed {
		return lua.LNil, &Error{File: file, Msg: "the runtime is frozen: create a new one"}
	}
	if s.running {
		return lua.LNil, &Error{File: file, Msg: "a file is loaded during a call"}
	}
	if !slices.Contains(s.files, file) {
		s.files = append(s.files, file)
	}
	for name, v := range globals {
		s.Globals.RawSetString(name, v)
	}
	proto, err := compile(file, source)
	if err != nil {
		return lua.LNil, err
	}
	fn := s.state.NewFunctionFromProto(proto)
	return s.run(ctx, fn)
}

// Call calls a function. It stops early if ctx is done.
func (s *Runtime) Call(ctx context.Context, fn *lua.LFunction,
	args ...lua.LValue) (lua.LValue, *Error) {
	if s.running {
		e := s.errorAt(fn)
		e.Msg = "a function is called during another call"
		return lua.LNil, e
	}
	return s.run(ctx, fn, args...)
}

func (s *Runtime) run(ctx context.Context, fn *lua.LFunction,
	args ...lua.LValue) (result lua.LValue, fail *Error) {
	s.running = true
	s.meter.start(ctx)
	L := s.state
	consistent := false
	defer func() {
		if p := recover(); p != nil {
			result, fail = lua.LNil, s.errorAt(fn)
			fail.Msg = Clean(fmt.Sprintf("the interpreter failed: %v", p))
		}
		if !consistent {
			s.outer = nil
			s.state = s.thread(s.limits.Depth)
		}
		s.running = false
		s.meter.stop()
	}()
	L.Push(fn)
	for _, a := range args {
		L.Push(a)
	}
	err := L.PCall(len(args), 1, nil)
	if err != nil {
		var api *lua.ApiError
		consistent = errors.As(err, &api) && api.Type != lua.ApiErrorPanic &&
			s.meter.exceeded == nil
		return lua.LNil, s.Describe(err, fn)
	}
	result = L.Get(-1)
	L.SetTop(0)
	// The last instruction may have exceeded a limit.
	if s.meter.exceeded != nil {
		fail = s.errorAt(fn)
		fail.Msg = s.meter.exceeded.Error()
		return lua.LNil, fail
	}
	consistent = true
	return result, nil
}

// Where returns the position of the Lua code that called the running Go function.
func (s *Runtime) Where(L *lua.LState) tree.Position {
	if p := position(L); p.File != "" {
		return p
	}
	// A Go function that pcall called directly has no caller in its own state.
	for _, th := range slices.Backward(s.outer) {
		if p := position(th); p.File != "" {
			return p
		}
	}
	return tree.Position{}
}

func position(L *lua.LState) tree.Position {
	for level := 0; ; level++ {
		p, ok := positionAt(L, level)
		if !ok || p.File != "" {
			return p
		}
	}
}

// positionAt returns the position of the caller at a level, which is zero for a Go function. It
// returns false if there is no such level.
func positionAt(L *lua.LState, level int) (tree.Position, bool) {
	dbg, ok := L.GetStack(level)
	if !ok {
		return tree.Position{}, false
	}
	if _, err := L.GetInfo("Sl", dbg, lua.LNil); err != nil || dbg.Source == "" {
		return tree.Position{}, true
	}
	return tree.Position{File: dbg.Source, Line: dbg.CurrentLine}, true
}

// Raise raises an error at the position of the Lua code that called the running Go function. It
// does not return.
func (s *Runtime) Raise(L *lua.LState, format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	if p := s.Where(L); p.File != "" {
		msg = p.String() + ": " + msg
	}
	L.Error(lua.LString(msg), 0)
}

// errorAt returns an error at the first line of a function, for failures without a position.
func (s *Runtime) errorAt(fn *lua.LFunction) *Error {
	if fn == nil || fn.Proto == nil {
		return &Error{File: s.lastFile()}
	}
	return &Error{File: fn.Proto.SourceName, Line: max(fn.Proto.LineDefined, 1)}
}

func (s *Runtime) lastFile() string {
	if len(s.files) == 0 {
		return ""
	}
	return s.files[len(s.files)-1]
}

// Describe converts an error of the interpreter to an Error with a message of one line.
func (s *Runtime) Describe(err error, fn *lua.LFunction) *Error {
	var api *lua.ApiError
	if !errors.As(err, &api) {
		e := s.errorAt(fn)
		e.Msg = Clean(err.Error())
		return e
	}
	e := s.errorAt(fn)
	if p, ok := s.innermostPosition(api.StackTrace); ok {
		e.File, e.Line = p.File, p.Line
	}
	text := ""
	switch v := api.Object.(type) {
	case lua.LString:
		text = string(v)
	case lua.LNumber:
		text = NumberString(v)
	default:
		text = "error raised with a " + v.Type().String() + " instead of a message"
	}
	if p, rest, ok := s.splitPosition(text); ok {
		e.File, e.Line, text = p.File, p.Line, rest
	}
	text = strings.TrimPrefix(text, " ")
	switch {
	case s.meter.exceeded != nil:
		text = s.meter.exceeded.Error()
	case api.Type == lua.ApiErrorPanic:
		text = "the interpreter failed: " + text
	case text == "stack overflow":
		text = fmt.Sprintf("stack overflow: more than %d nested calls", s.limits.Depth)
	}
	e.Msg = Clean(text)
	return e
}

// cause returns the message of an error of the interpreter, without its stack trace.
func cause(err error) string {
	if api, ok := err.(*lua.ApiError); ok {
		return Clean(api.Object.String())
	}
	return Clean(err.Error())
}

// splitPosition splits "file:line: message" if the file was loaded.
func (s *Runtime) splitPosition(text string) (tree.Position, string, bool) {
	for _, file := range s.files {
		rest, ok := strings.CutPrefix(text, file+":")
		if !ok {
			continue
		}
		digits, rest, ok := strings.Cut(rest, ":")
		if !ok {
			continue
		}
		if line, err := strconv.Atoi(digits); err == nil {
			return tree.Position{File: file, Line: line}, rest, true
		}
	}
	return tree.Position{}, text, false
}

// innermostPosition returns the innermost position of Lua code in a stack trace.
func (s *Runtime) innermostPosition(trace string) (tree.Position, bool) {
	for line := range strings.Lines(trace) {
		if p, _, ok := s.splitPosition(strings.TrimSpace(line)); ok {
			return p, true
		}
	}
	return tree.Position{}, false
}

const (
	maxMessage = 500
	maxQuoted  = 60
)

// Clean returns a message as one line of at most maxMessage characters, without control characters.
func Clean(msg string) string {
	return text.Shorten(text.Printable(text.Truncate(msg, 4*maxMessage)), maxMessage)
}

// Shorten shortens a piece of a file, so that a message can quote it.
func Shorten(s string) string { return text.Shorten(s, maxQuoted) }
