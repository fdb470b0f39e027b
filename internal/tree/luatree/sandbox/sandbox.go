// Package sandbox runs Lua code that nobody vouches for. It reaches nothing outside, and is stopped, with file and line,
// when it has used up its instructions, memory or time; nothing it does can catch that. After Freeze, nothing that
// exists can be changed by a call, so that no state hides between calls.
//
// Values of package lua go in and out: a Sandbox's functions must be called from Go functions that Lua code called, or
// between calls, by one goroutine at a time.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	lua "github.com/yuin/gopher-lua"

	"signalbox/internal/tree"
)

// Limits bound what a Lua file may use. Zero fields mean the default.
type Limits struct {
	// Instructions per call, and for loading a file; default 5,000,000.
	Instructions int64
	// Memory is how many bytes a call may allocate; default 64 MiB. What is freed meanwhile counts too.
	Memory int64
	// StringSize is the length of the largest string; default 1 MiB.
	StringSize int
	// Depth is how many calls may be within calls; default 200, at most 1,000.
	Depth int
	// Time per call; default 2 s.
	Time time.Duration
}

// maxDepth keeps what the interpreter puts on the Go stack far below the size at which Go ends the process.
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

// Error is what went wrong in a Lua file. Line 0: no line is to blame.
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

// Sandbox runs Lua code that nobody vouches for. One goroutine at a time may use it.
//
// The interpreter has no hooks. What bounds it instead: a context that counts instructions (meter), a rewriting of
// the source that leads whatever allocates or assigns through functions of ours (guard), and a library of our own.
type Sandbox struct {
	limits Limits
	meter  *meter
	// Root makes functions and tables. It never runs: the states that do are made from it. A context on it would cost a goroutine for each.
	Root *lua.LState
	// state runs calls. A call that a limit ended leaves it in disorder, and it is replaced.
	state *lua.LState
	// outer are the states that wait, in pcall, for the one that runs.
	outer []*lua.LState

	// env stands between Lua code and globals, so that reads of what is missing and all writes can be seen.
	env     *lua.LTable
	Globals *lua.LTable
	strings *lua.LTable
	files   []string

	// sealed: loading has ended. frozen are the tables that existed then.
	sealed bool
	frozen map[*lua.LTable]struct{}
	// hashed are tables whose hash part was counted already in the call that runs.
	hashed  map[*lua.LTable]struct{}
	running bool
}

// New returns a sandbox with the library and nothing else.
func New(limits Limits) *Sandbox {
	lowerArrays()
	limits = limits.withDefaults()
	s := &Sandbox{limits: limits, meter: newMeter(limits), frozen: map[*lua.LTable]struct{}{}, hashed: map[*lua.LTable]struct{}{}}
	s.Root = lua.NewState(lua.Options{
		SkipOpenLibs:  true,
		CallStackSize: limits.Depth,
		RegistrySize:  1024, RegistryMaxSize: 1 << 17, RegistryGrowStep: 4096,
	})
	s.Root.G.MainThread = s.Root
	s.Globals = s.Root.G.Global
	s.env = s.Root.CreateTable(0, 8)
	s.openLibraries()
	s.guardEnvironment()
	s.Root.Env = s.env
	s.state = s.thread(limits.Depth)
	return s
}

// Close frees it. It must not be used afterwards.
func (s *Sandbox) Close() {
	s.state, s.outer = nil, nil
	if !s.Root.IsClosed() {
		s.Root.Close()
	}
}

// thread makes a state that shares all globals and may hold that many calls within calls.
func (s *Sandbox) thread(depth int) *lua.LState {
	s.Root.Options.CallStackSize = depth
	th, _ := s.Root.NewThread()
	th.SetContext(s.meter)
	return th
}

// Load compiles and runs a file's chunk with these extra globals and returns its first result (LNil if none).
func (s *Sandbox) Load(ctx context.Context, file, source string, globals map[string]lua.LValue) (lua.LValue, *Error) {
	if s.sealed {
		return lua.LNil, &Error{File: file, Msg: "loading has ended: make a new sandbox"}
	}
	if s.running {
		return lua.LNil, &Error{File: file, Msg: "load within a call"}
	}
	if !slices.Contains(s.files, file) {
		s.files = append(s.files, file)
	}
	for name, v := range globals {
		s.Globals.RawSetString(name, v)
	}
	proto, err := s.compile(file, source)
	if err != nil {
		s.meter.reset()
		return lua.LNil, err
	}
	fn := s.state.NewFunctionFromProto(proto)
	return s.run(ctx, fn)
}

// Call runs a function. The context may end it early.
func (s *Sandbox) Call(ctx context.Context, fn *lua.LFunction, args ...lua.LValue) (lua.LValue, *Error) {
	if s.running {
		e := s.errorAt(fn)
		e.Msg = "call within a call: the sandbox runs one function at a time"
		return lua.LNil, e
	}
	return s.run(ctx, fn, args...)
}

func (s *Sandbox) run(ctx context.Context, fn *lua.LFunction, args ...lua.LValue) (result lua.LValue, fail *Error) {
	s.running = true
	s.meter.begin(ctx)
	L := s.state
	whole := false
	defer func() {
		if p := recover(); p != nil {
			result, fail = lua.LNil, s.errorAt(fn)
			fail.Msg = Clean(fmt.Sprintf("the interpreter failed: %v", p))
		}
		if !whole {
			s.outer = nil
			s.state = s.thread(s.limits.Depth)
		}
		s.running = false
		s.hashed = map[*lua.LTable]struct{}{}
		s.meter.reset()
	}()
	L.Push(fn)
	for _, a := range args {
		L.Push(a)
	}
	err := L.PCall(len(args), 1, nil)
	if err != nil {
		var api *lua.ApiError
		whole = errors.As(err, &api) && api.Type != lua.ApiErrorPanic && s.meter.over == nil
		return lua.LNil, s.Describe(err, fn)
	}
	result = L.Get(-1)
	L.SetTop(0)
	// A limit may have been hit in the very last instruction.
	if over := s.meter.over; over != nil {
		fail = s.errorAt(fn)
		fail.Msg = over.Error()
		return lua.LNil, fail
	}
	whole = true
	return result, nil
}

// Where returns file and line of the Lua code that called the running Go function.
func (s *Sandbox) Where(L *lua.LState) tree.Position {
	if p := position(L); p.File != "" {
		return p
	}
	// A Go function that pcall called directly has nobody above it in its own state.
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

// positionAt returns where the code that many calls up stands: nowhere if it is a Go function.
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

// Raise stops the Lua code with a message at the position of the caller.
func (s *Sandbox) Raise(L *lua.LState, format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	if p := s.Where(L); p.File != "" {
		msg = p.String() + ": " + msg
	}
	L.Error(lua.LString(msg), 0)
}

// errorAt blames the line on which a function begins, for errors that come without a position.
func (s *Sandbox) errorAt(fn *lua.LFunction) *Error {
	if fn == nil || fn.Proto == nil {
		return &Error{File: s.lastFile()}
	}
	return &Error{File: fn.Proto.SourceName, Line: max(fn.Proto.LineDefined, 1)}
}

func (s *Sandbox) lastFile() string {
	if len(s.files) == 0 {
		return ""
	}
	return s.files[len(s.files)-1]
}

// Describe makes one clean line of what the interpreter reports.
func (s *Sandbox) Describe(err error, fn *lua.LFunction) *Error {
	var api *lua.ApiError
	if !errors.As(err, &api) {
		e := s.errorAt(fn)
		e.Msg = Clean(err.Error())
		return e
	}
	e := s.errorAt(fn)
	if p, ok := s.traced(api.StackTrace); ok {
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
	if p, rest, ok := s.positioned(text); ok {
		e.File, e.Line, text = p.File, p.Line, rest
	}
	text = strings.TrimPrefix(text, " ")
	switch {
	case s.meter.over != nil:
		text = s.meter.over.Error()
	case api.Type == lua.ApiErrorPanic:
		text = "the interpreter failed: " + text
	case text == "stack overflow":
		text = fmt.Sprintf("stack overflow: calls within calls are limited to %d", s.limits.Depth)
	}
	e.Msg = Clean(text)
	return e
}

// cause is what failed in the interpreter, without its stack trace.
func cause(err error) string {
	if api, ok := err.(*lua.ApiError); ok {
		return Clean(api.Object.String())
	}
	return Clean(err.Error())
}

// positioned splits "file:line: message" if the file is one of ours.
func (s *Sandbox) positioned(text string) (tree.Position, string, bool) {
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

// traced finds the innermost Lua code in a stack trace.
func (s *Sandbox) traced(trace string) (tree.Position, bool) {
	for line := range strings.Lines(trace) {
		if p, _, ok := s.positioned(strings.TrimSpace(line)); ok {
			return p, true
		}
	}
	return tree.Position{}, false
}

const maxMessage = 500

// Clean returns one line of at most maxMessage characters without control characters.
func Clean(msg string) string {
	var b strings.Builder
	n := 0
	for i := 0; i < len(msg); {
		r, size := utf8.DecodeRuneInString(msg[i:])
		piece := msg[i : i+size]
		if r == utf8.RuneError && size == 1 {
			piece = fmt.Sprintf(`\x%02x`, msg[i])
		} else if !strconv.IsPrint(r) {
			piece = strings.Trim(strconv.QuoteRune(r), "'")
		}
		if n += utf8.RuneCountInString(piece); n >= maxMessage {
			b.WriteString("…")
			break
		}
		b.WriteString(piece)
		i += size
	}
	return b.String()
}
