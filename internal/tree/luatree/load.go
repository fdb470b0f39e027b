package luatree

import (
	"context"
	"slices"
	"sync"

	lua "github.com/yuin/gopher-lua"

	"signalbox/internal/tree"
	"signalbox/internal/tree/luatree/boundedlua"
)

// Options configures loading.
type Options struct {
	// Functions holds the actions and conditions that a file may use; nil means none.
	Functions *tree.Registry
	Limits    Limits
}

// File is a loaded file. Any number of runs may share its tree. Its functions are called one at a
// time.
type File struct {
	Name   string
	Source []byte

	tree *tree.Tree
	// keys holds the names of all keys that the file declares.
	keys []string
	// mu guards runtime, leaf and closed.
	mu      sync.Mutex
	runtime *boundedlua.Runtime
	leaf    *leafObject
	closed  bool
}

// Load runs a file and compiles the tree that it returns. The name is for messages. The error is an
// *Error, or a *tree.CompileError with all mistakes in the tree.
func Load(ctx context.Context, name string, source []byte, o *Options) (*File, error) {
	if o == nil {
		o = &Options{}
	}
	f := &File{Name: name, Source: source, runtime: boundedlua.New(o.Limits)}
	t, err := f.load(ctx, o)
	if err != nil {
		f.runtime.Close()
		return nil, err
	}
	f.tree = t
	return f, nil
}

func (f *File) load(ctx context.Context, o *Options) (*tree.Tree, error) {
	d := &dsl{runtime: f.runtime, bind: f.function, keys: builtinKeys()}
	result, fail := f.runtime.Load(ctx, f.Name, string(f.Source),
		map[string]lua.LValue{"BT": d.object()})
	if len(d.faults) > 0 {
		return nil, d.compileError(fail)
	}
	if fail != nil {
		return nil, fail
	}
	d.loaded = true
	f.keys = slices.Compact(slices.Sorted(slices.Values(d.keys)))
	f.leaf = newLeafObjects(f.runtime, o.Functions, f.keys).object()
	def, fail := d.definition(f.Name, result)
	if fail != nil {
		return nil, fail
	}
	// t:action and t:condition call o.Functions only: a function of the file can call another one
	// directly.
	t, err := tree.Compile(def, d.define(o.Functions))
	if err != nil {
		return nil, err
	}
	if fail := f.runtime.Freeze(d.functions); fail != nil {
		return nil, fail
	}
	return t, nil
}

// Tree returns the tree of the file.
func (f *File) Tree() *tree.Tree { return f.tree }

// Close frees the runtime. Leaves that are called later fail. Calling Close is optional.
func (f *File) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed = true
		f.runtime.Close()
	}
}

// function converts a Lua function to the function of a leaf.
func (f *File) function(kind tree.Kind, fn *lua.LFunction) tree.Func {
	return func(c *tree.Call) tree.Status {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.closed {
			return c.Fail("%s is closed", f.Name)
		}
		f.leaf.begin(c, kind)
		defer f.leaf.end()
		// A tick has no context. The time limit stops the call.
		result, err := f.runtime.Call(context.Background(), fn, f.leaf.value)
		if err != nil {
			return c.Fail("%s", err)
		}
		return f.leaf.answer(fn, result)
	}
}
