package blackboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Type is the type of the values of a key. Any key may also be absent, which is nil.
type Type uint8

const (
	// Any allows every value.
	Any Type = iota
	Bool
	Int
	Float
	String
	List
	Map
	// Signal is a turn signal: a map that has a string under "type".
	Signal
)

var typeNames = [...]string{"any", "bool", "int", "float", "string", "list", "map", "Signal"}

func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return "unknown"
}

// Types returns all types.
func Types() []Type { return []Type{Any, Bool, Int, Float, String, List, Map, Signal} }

// ParseType parses the result of String.
func ParseType(name string) (Type, bool) {
	i := slices.Index(typeNames[:], name)
	return Type(max(i, 0)), i >= 0
}

// Limits of values.
const (
	// MaxValue is the size of the largest value in bytes, as estimated by Size.
	MaxValue = 1 << 20
	// MaxBoard is the size of all values of a board.
	MaxBoard = 16 << 20
	maxNest  = 50
)

// perElement is the size of an element of a list or map, without its text.
const perElement = 16

// normal returns a copy of a value in normal form, and its size.
func normal(v any, nest int) (any, int, error) {
	if nest > maxNest {
		return nil, 0, fmt.Errorf("it is nested more than %d deep", maxNest)
	}
	switch v := v.(type) {
	case nil:
		return nil, 0, nil
	case bool:
		return v, perElement, nil
	case int:
		return int64(v), perElement, nil
	case int64:
		return v, perElement, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, 0, errors.New("it is not a finite number")
		}
		return v, perElement, nil
	case string:
		v = strings.ToValidUTF8(v, "\uFFFD")
		return v, perElement + len(v), nil
	case []string:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = item
		}
		return normal(list, nest)
	case []any:
		return normalList(v, nest)
	case map[string]any:
		return normalMap(v, nest)
	}
	return nil, 0, fmt.Errorf("a %T cannot be stored on a blackboard", v)
}

func normalList(v []any, nest int) (any, int, error) {
	list, size := make([]any, len(v)), perElement
	for i, item := range v {
		item, n, err := normal(item, nest+1)
		if err != nil {
			return nil, 0, err
		}
		if size += perElement + n; size > MaxValue {
			return nil, 0, errTooLarge
		}
		list[i] = item
	}
	return list, size, nil
}

func normalMap(v map[string]any, nest int) (any, int, error) {
	fields, size := make(map[string]any, len(v)), perElement
	for key, item := range v {
		item, n, err := normal(item, nest+1)
		if err != nil {
			return nil, 0, err
		}
		key = strings.ToValidUTF8(key, "\uFFFD")
		if size += perElement + len(key) + n; size > MaxValue {
			return nil, 0, errTooLarge
		}
		fields[key] = item
	}
	return fields, size, nil
}

// Size returns the size of a value in normal form, which MaxValue and MaxBoard limit.
func Size(v any) int {
	size := perElement
	switch v := v.(type) {
	case nil:
		return 0
	case string:
		size += len(v)
	case []any:
		for _, item := range v {
			size += perElement + Size(item)
		}
	case map[string]any:
		for key, item := range v {
			size += perElement + len(key) + Size(item)
		}
	}
	return size
}

var errTooLarge = fmt.Errorf("it is larger than %d bytes", MaxValue)

// fit converts a value in normal form to the type, and reports whether that is possible.
func (t Type) fit(v any) (any, bool) {
	if v == nil {
		return nil, true
	}
	ok := false
	switch t {
	case Any:
		ok = true
	case Bool:
		_, ok = v.(bool)
	case Int:
		if f, float := v.(float64); float && f == math.Trunc(f) && math.Abs(f) <= 1<<53 {
			return int64(f), true
		}
		_, ok = v.(int64)
	case Float:
		if i, integer := v.(int64); integer {
			return float64(i), true
		}
		_, ok = v.(float64)
	case String:
		_, ok = v.(string)
	case List:
		_, ok = v.([]any)
	case Map:
		if list, empty := v.([]any); empty && len(list) == 0 {
			return map[string]any{}, true // Lua has the same empty table for both
		}
		_, ok = v.(map[string]any)
	case Signal:
		fields, _ := v.(map[string]any)
		_, ok = fields["type"].(string)
	}
	return v, ok
}

// Check returns a copy of a value in normal form, converted to the type. It returns an error if
// that is not possible.
func (t Type) Check(v any) (any, error) {
	kept, _, err := t.check(v)
	return kept, err
}

// check is like Check, and returns the size too.
func (t Type) check(v any) (any, int, error) {
	kept, size, err := normal(v, 0)
	if err != nil {
		return nil, 0, err
	}
	if size > MaxValue {
		return nil, 0, errTooLarge
	}
	fitted, ok := t.fit(kept)
	if !ok {
		return nil, 0, fmt.Errorf("it takes %s, not %s", t.WithArticle(),
			typeOf(kept).WithArticle())
	}
	return fitted, size, nil
}

func typeOf(v any) Type {
	switch v.(type) {
	case bool:
		return Bool
	case int64:
		return Int
	case float64:
		return Float
	case string:
		return String
	case []any:
		return List
	case map[string]any:
		return Map
	}
	return Any
}

// WithArticle returns the name of the type with its article: "a list", "an int".
func (t Type) WithArticle() string {
	switch t {
	case Int, Any:
		return "an " + t.String()
	}
	return "a " + t.String()
}

// Append appends a value in normal form as JSON. Keys are sorted, and a float always has a point or
// an exponent.
func Append(dst []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		return strconv.AppendBool(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case float64:
		from := len(dst)
		dst = strconv.AppendFloat(dst, v, 'g', -1, 64)
		if !strings.ContainsAny(string(dst[from:]), ".e") {
			dst = append(dst, ".0"...)
		}
		return dst
	case string:
		return AppendText(dst, v)
	case []any:
		dst = append(dst, '[')
		for i, item := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = Append(dst, item)
		}
		return append(dst, ']')
	case map[string]any:
		dst = append(dst, '{')
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(AppendText(dst, key), ':')
			dst = Append(dst, v[key])
		}
		return append(dst, '}')
	}
	return append(dst, "null"...)
}

// AppendText appends a string as JSON.
func AppendText(dst []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return append(dst, text...)
}

// Format formats a value as JSON with sorted keys, or as null if it cannot be stored on a board.
func Format(v any) string {
	kept, _, err := normal(v, 0)
	if err != nil {
		return "null"
	}
	return string(Append(nil, kept))
}

// Parse parses the result of Format. A number with a point or an exponent is a float, any other
// number an int.
func Parse(text string) (any, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("there is more than one value")
	}
	return numbered(v)
}

// numbered converts the numbers of a decoded value to int64 or float64.
func numbered(v any) (any, error) {
	switch v := v.(type) {
	case json.Number:
		if !strings.ContainsAny(v.String(), ".eE") {
			if i, err := v.Int64(); err == nil {
				return i, nil
			}
		}
		return v.Float64()
	case []any:
		for i, item := range v {
			item, err := numbered(item)
			if err != nil {
				return nil, err
			}
			v[i] = item
		}
	case map[string]any:
		for key, item := range v {
			item, err := numbered(item)
			if err != nil {
				return nil, err
			}
			v[key] = item
		}
	}
	return v, nil
}
