package luatree

import (
	lua "github.com/yuin/gopher-lua"

	"signalbox/internal/tree"
)

// composite parses ([name,] {children…, name=, description=}).
func (f *form) composite(kind tree.Kind) any {
	f.name()
	o := f.table("a table of children")
	o.common()
	o.children()
	o.end()
	return f.finish(kind)
}

func (f *form) parallel() any {
	f.name()
	o := f.table("a table of children", "require", "max_concurrent")
	o.common()
	switch v := o.take("require"); v {
	case lua.LNil, lua.LString("all"):
	case lua.LString("one"):
		f.node.Require = 1
	default:
		if _, ok := v.(lua.LNumber); !ok {
			f.fail("require of parallel is \"all\", \"one\" or a number, not %s", describe(v))
		}
		f.node.Require = f.whole(v, "require")
	}
	f.node.MaxConcurrent = o.number("max_concurrent")
	o.children()
	o.end()
	return f.finish(tree.Parallel)
}

// forEach parses ([name,] {items=, as=, index=, keep_going=, child}), or with the child after the
// table.
func (f *form) forEach() any {
	f.name()
	o := f.table("a table with items", "items", "as", "index", "keep_going")
	o.common()
	f.node.Items, f.node.As, f.node.Index = o.text("items"), o.text("as"), o.text("index")
	f.node.KeepGoing = o.flag("keep_going")
	if f.node.Items == "" {
		f.fail("for_each needs items, the key of a list")
	}
	if f.node.As == "" {
		f.node.As = "item"
	}
	f.keys = append(f.keys, f.node.As, f.node.Index)
	if len(o.items) > 0 {
		o.children()
	} else {
		f.child(f.next(), "the child")
	}
	o.end()
	return f.finish(tree.ForEach)
}

// decorator parses the child of a decorator and trailing options.
func (f *form) decorator(kind tree.Kind) any {
	f.child(f.next(), "the child")
	return f.finish(kind)
}

// leading parses a name or options before the child.
func (f *form) leading() {
	f.name()
	if f.atTable() && len(f.args) > 1 {
		o := f.table("")
		o.common()
		o.end()
	}
}

func (f *form) plain(kind tree.Kind) any {
	f.leading()
	return f.decorator(kind)
}

func (f *form) guard() any {
	f.leading()
	f.child(f.next(), "the condition")
	return f.decorator(tree.Guard)
}

// timed parses ([name,] seconds, child) or ([name,] {seconds=}, child).
func (f *form) timed(kind tree.Kind) any {
	f.name()
	f.duration()
	return f.decorator(kind)
}

// duration parses the seconds of a timeout, cooldown or wait, which are a number or in a table.
func (f *form) duration() {
	if !f.atTable() {
		f.seconds(f.next(), "seconds")
		return
	}
	o := f.table("", "seconds")
	o.common()
	f.seconds(o.take("seconds"), "seconds")
	o.end()
}

// retry parses ([name,] attempts, child) or ([name,] {attempts=, backoff=}, child).
func (f *form) retry() any {
	f.name()
	if !f.atTable() {
		f.node.Times = f.whole(f.next(), "attempts")
		return f.decorator(tree.Retry)
	}
	o := f.table("", "attempts", "backoff")
	o.common()
	f.node.Times = f.whole(o.take("attempts"), "attempts")
	if v := o.take("backoff"); v != lua.LNil {
		f.seconds(v, "backoff")
	}
	o.end()
	return f.decorator(tree.Retry)
}

// repeatTimes parses ([name,] times, child) or ([name,] {times=}, child).
func (f *form) repeatTimes() any {
	f.name()
	if !f.atTable() {
		f.node.Times = f.whole(f.next(), "the number")
		return f.decorator(tree.Repeat)
	}
	o := f.table("", "times")
	o.common()
	f.node.Times = f.whole(o.take("times"), "times")
	o.end()
	return f.decorator(tree.Repeat)
}

// repeatUntil parses ([name,] what, child) or ([name,] {what=, max=}, child). A leading string is a
// name only if another string or a table follows it.
func (f *form) repeatUntil() any {
	if len(f.args) > 1 {
		_, isText := f.args[1].(lua.LString)
		_, isTable := f.args[1].(*lua.LTable)
		if isText || isTable {
			f.name()
		}
	}
	if !f.atTable() {
		f.until(f.next(), "what")
		return f.decorator(tree.Repeat)
	}
	o := f.table("", "what", "max")
	o.common()
	f.until(o.take("what"), "what")
	f.node.Times = o.number("max")
	o.end()
	return f.decorator(tree.Repeat)
}

// repeat parses ([name,] {times=} or {what=, max=}, child). The option what may be written
// ["until"], which is a keyword of Lua.
func (f *form) repeat() any {
	f.name()
	o := f.table("a table with times, or what and max", "times", "what", "max", "until")
	o.common()
	times, what, limit := o.number("times"), o.take("what"), o.number("max")
	if v := o.take("until"); what == lua.LNil {
		what = v
	} else if v != lua.LNil {
		f.fail("repeat has both what and until, which mean the same")
	}
	switch {
	case times > 0 && (what != lua.LNil || limit > 0):
		f.fail("repeat has times, so it cannot have what or max")
	case times > 0:
		f.node.Times = times
	case what == lua.LNil:
		f.fail("repeat needs times, or what (\"success\" or \"failure\")")
	default:
		f.until(what, "what")
		f.node.Times = limit
	}
	o.end()
	return f.decorator(tree.Repeat)
}

func (f *form) until(v lua.LValue, name string) {
	switch v {
	case lua.LString("success"):
		f.node.Until = tree.UntilSuccess
	case lua.LString("failure"):
		f.node.Until = tree.UntilFailure
	default:
		f.fail("%s of %s is \"success\" or \"failure\", not %s", name, f.what, describe(v))
	}
}
