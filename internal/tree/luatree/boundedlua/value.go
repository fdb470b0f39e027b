package boundedlua

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	lua "github.com/yuin/gopher-lua"
)

const (
	MaxValueNesting = 50
	maxExact        = 1 << 53
)

// ToLua converts a value of the blackboard to Lua. The result is a copy, so Lua code can change it.
func (s *Runtime) ToLua(v any) lua.LValue {
	switch v := v.(type) {
	case nil:
		return lua.LNil
	case bool:
		return lua.LBool(v)
	case int64:
		return lua.LNumber(v)
	case int:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case []any:
		n := len(v)
		for n > 0 && v[n-1] == nil {
			n--
		}
		t := s.Root.CreateTable(n, 0)
		for i, e := range v[:n] {
			t.RawSetInt(i+1, s.ToLua(e))
		}
		return t
	case map[string]any:
		t := s.Root.CreateTable(0, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			t.RawSetString(k, s.ToLua(v[k]))
		}
		return t
	}
	// A blackboard has no other types.
	return lua.LString(fmt.Sprint(v))
}

// FromLua converts a value from Lua. Its error names the part that cannot be converted.
func (s *Runtime) FromLua(v lua.LValue) (any, error) {
	c := &converter{left: s.limits.Memory, above: map[*lua.LTable]bool{}}
	return c.value(v, "")
}

// converter bounds the size of the result: a few tables that contain each other twice make a value
// of any size.
type converter struct {
	left  int64
	above map[*lua.LTable]bool
}

func (c *converter) fail(place, format string, args ...any) error {
	if place == "" {
		return fmt.Errorf(format, args...)
	}
	return fmt.Errorf("at %s: %w", Shorten(place), fmt.Errorf(format, args...))
}

func (c *converter) value(v lua.LValue, place string) (any, error) {
	if c.left -= 32; c.left < 0 {
		return nil, c.fail(place, "value too large")
	}
	switch v := v.(type) {
	case *lua.LNilType:
		return nil, nil
	case lua.LBool:
		return bool(v), nil
	case lua.LNumber:
		f := float64(v)
		if f == math.Trunc(f) && math.Abs(f) <= maxExact {
			return int64(f), nil
		}
		return f, nil
	case lua.LString:
		c.left -= int64(len(v))
		return string(v), nil
	case *lua.LTable:
		return c.table(v, place)
	}
	return nil, c.fail(place, "a %s cannot be kept on the blackboard", v.Type())
}

func (c *converter) table(t *lua.LTable, place string) (any, error) {
	if c.above[t] {
		return nil, c.fail(place, "the table contains itself")
	}
	if len(c.above) >= MaxValueNesting {
		return nil, c.fail(place, "tables nested more than %d deep", MaxValueNesting)
	}
	c.above[t] = true
	defer delete(c.above, t)

	n := t.Len()
	list := make([]any, 0, min(n, 1024))
	for i := 1; i <= n; i++ {
		at := place + "[" + strconv.Itoa(i) + "]"
		e := t.RawGetInt(i)
		if e == lua.LNil {
			return nil, c.fail(at, "the list has a hole")
		}
		v, err := c.value(e, at)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	fields := map[string]any{}
	for k, e := FirstField(t, n); k != lua.LNil; k, e = t.Next(k) {
		name, ok := k.(lua.LString)
		if !ok {
			return nil, c.fail(place+"["+Shorten(k.String())+"]",
				"a key must be a string, or a list's 1, 2, 3 …")
		}
		at := place + "." + Shorten(string(name))
		if n > 0 {
			return nil, c.fail(at, "the table is a list and has named fields too")
		}
		v, err := c.value(e, at)
		if err != nil {
			return nil, err
		}
		c.left -= int64(len(name)) + 64
		fields[string(name)] = v
	}
	if len(fields) > 0 {
		return fields, nil
	}
	return list, nil
}

// FirstField returns the first key and value after the list of a table, which has n entries; t.Next
// returns the others.
func FirstField(t *lua.LTable, n int) (key, value lua.LValue) {
	if n == 0 {
		return t.Next(lua.LNil)
	}
	return t.Next(lua.LNumber(n))
}
