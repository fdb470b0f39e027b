package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// ParseModelScript turns the YAML of a model script into the JSON that the scripted model server reads. shape is a value
// of the type that reads it, whose json tags name the fields: what is a text there stays as it was written (3.10, yes),
// and where anything may stand, as in the arguments of a call, YAML's core schema says what it is. Names that are not
// known or stand twice, merge keys and tags are errors; &name and *name are not. JSON is handed on as it is, but for
// names that stand twice. Errors begin with name, line and column.
func ParseModelScript(name string, text []byte, shape any) ([]byte, error) {
	if json.Valid(text) && utf8.Valid(text) {
		if wrong := checkJSONNames(text); wrong != nil {
			return nil, places{}.locate(name, faults{wrong})
		}
		return bytes.Clone(text), nil
	}
	w := newJSONWriter(newReader("the script"), len(text))
	body, wrong := parseDocument(text)
	if wrong == nil && body != nil {
		wrong = w.write(body, reflect.TypeOf(shape), "")
	}
	if wrong != nil {
		return nil, w.places.locate(name, faults{wrong})
	}
	if w.out.Len() == 0 {
		w.out.WriteString("{}")
	}
	return w.out.Bytes(), nil
}

// ModelScriptPlace is where something stands in a script that ParseModelScript took, such as conversations[0].turns[2], or
// where that stands which it would be in. It is 0, 0 where that cannot be told.
func ModelScriptPlace(text []byte, shape any, path string) (line, column int) {
	w := newJSONWriter(newReader("the script"), len(text))
	body, wrong := parseDocument(text)
	if wrong != nil || body == nil || w.write(body, reflect.TypeOf(shape), "") != nil {
		return 0, 0
	}
	var at settingPath
	for name := range strings.SplitSeq(path, ".") {
		name, item, isItem := strings.Cut(strings.TrimSuffix(name, "]"), "[")
		if at = at.field(name); isItem {
			at = at.field(pathItem + item)
		}
	}
	for ; at != ""; at = at.outer() {
		if pos := w.places[at].value; pos != nil {
			return pos.Line, pos.Column
		}
	}
	return 0, 0
}

// checkJSONNames refuses a name that an object of valid JSON has twice: the last would silently win.
func checkJSONNames(text []byte) *settingError {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // what is too large is not for here to say
	type level struct {
		names map[string]bool // nil in a list
		value bool            // a value comes next, not a name
	}
	levels := []level{{}}
	for {
		before := len(text) - len(bytes.TrimLeft(text[d.InputOffset():], ",: \t\r\n"))
		tk, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &settingError{fault: err.Error(), hint: "correct the JSON"}
		}
		inner := &levels[len(levels)-1]
		if name, ok := tk.(string); ok && inner.names != nil && !inner.value {
			if inner.names[name] {
				return &settingError{fault: fmt.Sprintf("%q is set twice", name), hint: "keep one of them", where: positionAfter(string(text[:before]))}
			}
			inner.names[name], inner.value = true, true
			continue
		}
		inner.value = false
		switch tk {
		case json.Delim('{'):
			levels = append(levels, level{names: map[string]bool{}})
		case json.Delim('['):
			levels = append(levels, level{})
		case json.Delim('}'), json.Delim(']'):
			levels = levels[:len(levels)-1]
		}
	}
}
