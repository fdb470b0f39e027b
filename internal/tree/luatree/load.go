package luatree

import (
	"context"
	"slices"
	"sync"

	lua "github.com/yuin/gopher-lua"

	"signalbox/internal/tree"
	"signalbox/internal/tree/luatree/sandbox"
)

// Options say what a file may use.
type Options struct {
	// Functions are the actions and conditions that a file may name. Nil: none.
	Functions *tree.Registry
	Limits    Limits
}

// File is a loaded file. Any number of runs may share its tree; its functions are called one at a time.
type File struct {
	Name   string
	Source []byte

	tree *tree.Tree
	// keys are all names of keys that the file declares.
	keys []string
	// mu guards the sandbox and what a call leaves in leaf.
	mu     sync.Mutex
	box    *sandbox.Sandbox
	leaf   *leafObject
	closed bool
}

// Load runs a file and checks the tree that it declares. The name is for messages. The error is an *Error, or a
// *tree.CompileError with all that is wrong with the tree.
func Load(ctx context.Context, name string, source []byte, o *Options) (*File, error) {
	if o == nil {
		o = &Options{}
	}
	f := &File{Name: name, Source: source, box: sandbox.New(o.Limits)}
	t, err := f.load(ctx, o)
	if err != nil {
		f.box.Close()
		return nil, err
	}
	f.tree = t
	return f, nil
}

func (f *File) load(ctx context.Context, o *Options) (*tree.Tree, error) {
	d := &dsl{box: f.box, bind: f.function, keys: builtinKeys()}
	result, fail := f.box.Load(ctx, f.Name, string(f.Source), map[string]lua.LValue{"BT": d.object()})
	if len(d.faults) > 0 {
		return nil, d.refused(fail)
	}
	if fail != nil {
		return nil, fail
	}
	d.loaded = true
	f.keys = slices.Compact(slices.Sorted(slices.Values(d.keys)))
	f.leaf = newLeafObjects(f.box, o.Functions, f.keys).object()
	def, fail := d.definition(f.Name, result)
	if fail != nil {
		return nil, fail
	}
	t, err := tree.Compile(def, o.Functions)
	if err != nil {
		return nil, err
	}
	if fail := f.box.Freeze(d.functions); fail != nil {
		return nil, fail
	}
	return t, nil
}

// Tree is what the file declares.
func (f *File) Tree() *tree.Tree { return f.tree }

// Close frees the sandbox. Leaves that are called later fail. A file that nothing uses any more needs no Close.
func (f *File) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed = true
		f.box.Close()
	}
}

// function makes a leaf's function of a Lua function.
func (f *File) function(kind tree.Kind, fn *lua.LFunction) tree.Func {
	return func(c *tree.Call) tree.Status {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.closed {
			return c.Fail("%s was closed", f.Name)
		}
		f.leaf.begin(c, kind)
		defer f.leaf.end()
		// A tick has no context: the time limit ends the call.
		result, err := f.box.Call(context.Background(), fn, f.leaf.value)
		if err != nil {
			return c.Fail("%s", err)
		}
		return f.leaf.answer(fn, result)
	}
}
