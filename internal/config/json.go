package config

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Bounds of what is written as JSON: aliases that repeat aliases grow without end, and places deep inside are long. What
// is not repeated never comes near maxGrowth.
const (
	maxJSON   = 1 << 20 // bytes, beside
	maxGrowth = 8       // of the text
	maxDepth  = 100
)

// jsonWriter writes what the text says as JSON, in the order of the text.
type jsonWriter struct {
	*reader
	most  int // bytes
	out   bytes.Buffer
	depth int
}

func newJSONWriter(r *reader, text int) *jsonWriter {
	return &jsonWriter{reader: r, most: maxJSON + maxGrowth*text}
}

// write writes a node by the shape of what will read it, so that 3.10 stays as it is where a text is wanted. Without a
// shape the node is what YAML's core schema says. It writes nothing for a null.
func (w *jsonWriter) write(node ast.Node, shape reflect.Type, at settingPath) *settingError {
	return w.resolved(node, at, func(node ast.Node) *settingError {
		if w.depth++; w.depth > maxDepth {
			return &settingError{at: at, fault: fmt.Sprintf("it is in more than %d others", maxDepth), hint: "nest less"}
		}
		defer func() { w.depth-- }()
		if w.out.Len() > w.most {
			return &settingError{at: at, fault: fmt.Sprintf("written out it has more than %d bytes", w.most), hint: "repeat less with *name"}
		}
		return w.plain(node, shapeOf(shape), at)
	})
}

// shapeOf is the shape behind pointers, a string for what reads text, and nil for what reads any JSON.
func shapeOf(shape reflect.Type) reflect.Type {
	if shape == nil {
		return nil
	}
	for shape.Kind() == reflect.Pointer {
		shape = shape.Elem()
	}
	switch pointer := reflect.PointerTo(shape); {
	case shape.Kind() == reflect.Interface, pointer.Implements(reflect.TypeFor[json.Unmarshaler]()):
		return nil
	case pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return reflect.TypeFor[string]()
	}
	return shape
}

func (w *jsonWriter) plain(node ast.Node, shape reflect.Type, at settingPath) *settingError {
	kind := reflect.Invalid
	if shape != nil {
		kind = shape.Kind()
	}
	_, isMap := node.(ast.MapNode)
	_, isList := node.(*ast.SequenceNode)
	switch {
	case kind == reflect.Struct, kind == reflect.Map, shape == nil && isMap:
		return w.object(node, shape, at)
	case kind == reflect.Slice, shape == nil && isList:
		return w.list(node, shape, at)
	}
	return scalar(node, at, func(text string) *settingError {
		if shape != nil {
			return w.scalar(text, shape, at)
		}
		return w.core(text, quotedNode(node), at)
	})
}

func (w *jsonWriter) object(node ast.Node, shape reflect.Type, at settingPath) *settingError {
	pairs, wrong := w.mapping(node, at)
	if wrong != nil {
		return wrong
	}
	inner := func(pair) (reflect.Type, *settingError) { return nil, nil }
	switch {
	case shape != nil && shape.Kind() == reflect.Map:
		inner = func(pair) (reflect.Type, *settingError) { return shape.Elem(), nil }
	case shape != nil:
		inner = func(p pair) (reflect.Type, *settingError) { return jsonField(shape, p.name, at) }
	}
	w.out.WriteByte('{')
	first := true
	for _, pair := range pairs {
		shape, wrong := inner(pair)
		if wrong != nil {
			return wrong
		}
		before := w.out.Len()
		if !first {
			w.out.WriteByte(',')
		}
		w.text(pair.name)
		w.out.WriteByte(':')
		value := w.out.Len()
		if wrong := w.write(pair.value, shape, at.field(pair.name)); wrong != nil {
			return wrong
		}
		switch {
		case w.out.Len() > value:
		case shape == nil:
			w.out.WriteString("null")
		default:
			w.out.Truncate(before) // it is not set
			continue
		}
		first = false
	}
	w.out.WriteByte('}')
	return nil
}

// jsonField is the shape of the field of that name.
func jsonField(group reflect.Type, name string, at settingPath) (reflect.Type, *settingError) {
	var known []string
	for i := range group.NumField() {
		field, _, _ := strings.Cut(group.Field(i).Tag.Get("json"), ",")
		if field == name {
			return group.Field(i).Type, nil
		}
		known = append(known, field)
	}
	return nil, &settingError{at: at.field(name), onKey: true, bare: true, fault: fmt.Sprintf("unknown field %q", name),
		hint: suggest(name, known, "the fields here are")}
}

func (w *jsonWriter) list(node ast.Node, shape reflect.Type, at settingPath) *settingError {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		return &settingError{at: at, fault: "it is not a list", hint: "write [one, two], or each item on its own line after a -"}
	}
	var inner reflect.Type
	if shape != nil {
		inner = shape.Elem()
	}
	w.out.WriteByte('[')
	for i, item := range list.Values {
		if i > 0 {
			w.out.WriteByte(',')
		}
		before := w.out.Len()
		if wrong := w.write(item, inner, at.item(i)); wrong != nil {
			return wrong
		}
		switch {
		case w.out.Len() > before:
		case shape == nil:
			w.out.WriteString("null")
		default:
			return &settingError{at: at, fault: "an item of the list is empty", hint: "write it after the -, or remove it", where: itemPosition(item)}
		}
	}
	w.out.WriteByte(']')
	return nil
}

// scalar writes one value of a known kind. What setScalar reads is what the configuration reads.
func (w *jsonWriter) scalar(text string, shape reflect.Type, at settingPath) *settingError {
	switch value := reflect.New(shape).Elem(); shape.Kind() {
	case reflect.String:
		w.text(text)
	case reflect.Bool, reflect.Int, reflect.Int64:
		if wrong := setScalar(value, text, at); wrong != nil {
			return wrong
		}
		fmt.Fprint(&w.out, value.Interface())
	default:
		return w.core(text, false, at)
	}
	return nil
}

func (w *jsonWriter) text(text string) {
	e := json.NewEncoder(&w.out)
	e.SetEscapeHTML(false) // as somebody would write it: it may be cut at a byte
	if err := e.Encode(text); err != nil {
		panic("config: a text does not encode: " + err.Error()) // the text was checked to be UTF-8
	}
	w.out.Truncate(w.out.Len() - 1) // without the line end
}

// Numbers of YAML's core schema, but for those in other bases.
var (
	coreInt   = regexp.MustCompile(`^[-+]?[0-9]+$`)
	coreFloat = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
)

// core writes a scalar as what YAML's core schema takes it for.
func (w *jsonWriter) core(text string, quoted bool, at settingPath) *settingError {
	switch {
	case quoted:
		w.text(text)
		return nil
	case text == "true", text == "True", text == "TRUE", text == "false", text == "False", text == "FALSE":
		w.out.WriteString(strings.ToLower(text))
		return nil
	case coreInt.MatchString(text), coreFloat.MatchString(text):
		w.out.WriteString(jsonNumber(text))
		return nil
	case strings.HasPrefix(text, "0x"), strings.HasPrefix(text, "0o"):
		if n, err := strconv.ParseUint(text, 0, 64); err == nil && !strings.Contains(text, "_") {
			w.out.WriteString(strconv.FormatUint(n, 10))
			return nil
		}
	}
	switch strings.ToLower(strings.TrimLeft(text, "+-")) {
	case ".inf", ".nan":
		return &settingError{at: at, fault: text + " is a number that JSON does not have", hint: "quote it if it is a text"}
	}
	w.text(text)
	return nil
}

// jsonNumber is the number, with all its digits, as JSON writes numbers: 3.10 stays 3.10, +.5 becomes 0.5.
func jsonNumber(text string) string {
	sign := ""
	if text[0] == '-' {
		sign = "-"
	}
	mantissa, exponent := strings.TrimLeft(text, "+-"), ""
	if i := strings.IndexAny(mantissa, "eE"); i >= 0 {
		mantissa, exponent = mantissa[:i], mantissa[i:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if fraction != "" {
		fraction = "." + fraction
	}
	return sign + whole + fraction + exponent
}

// quotedNode reports whether the text of a node stands in quotes, or in a block that begins with | or >.
func quotedNode(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.LiteralNode:
		return true
	case *ast.StringNode:
		return n.Token.Type != token.StringType
	}
	return false
}
