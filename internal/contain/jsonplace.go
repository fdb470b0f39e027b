package contain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// document is a JSON object, and where its values are in its text, so that one of them can be
// replaced and everything else stays as it is.
type document struct {
	text []byte
	root *place
}

// place is where a value is in a text. Objects have fields, in the order of the text.
type place struct {
	start, end int
	object     bool
	fields     []field
}

type field struct {
	name  string
	value *place
}

// parseDocument parses a JSON object. A name that occurs twice in an object is an error: programs
// differ in which of the two counts.
func parseDocument(text []byte) (document, error) {
	if !json.Valid(text) {
		return document{}, errors.New("not valid JSON")
	}
	p := placer{text, json.NewDecoder(bytes.NewReader(text))}
	p.dec.UseNumber()
	root, err := p.value()
	if err == nil && !root.object {
		err = errors.New("not a JSON object")
	}
	return document{text, root}, err
}

type placer struct {
	text []byte
	dec  *json.Decoder
}

// value reads the next value of a valid text.
func (p placer) value() (*place, error) {
	start := int(p.dec.InputOffset())
	for bytes.IndexByte([]byte(" \t\r\n,:"), p.text[start]) >= 0 {
		start++
	}
	token, err := p.dec.Token()
	if err != nil {
		return nil, err
	}
	v := &place{start: start, object: token == json.Delim('{')}
	if v.object || token == json.Delim('[') {
		if err := p.content(v); err != nil {
			return nil, err
		}
	}
	v.end = int(p.dec.InputOffset())
	return v, nil
}

// content reads what is in an object or a list, and its end.
func (p placer) content(v *place) error {
	names := map[string]bool{}
	for p.dec.More() {
		name := ""
		if v.object {
			token, err := p.dec.Token()
			if err != nil {
				return err
			}
			if name, _ = token.(string); names[name] {
				return fmt.Errorf("it has %s twice", formatPath(name))
			}
			names[name] = true
		}
		inner, err := p.value()
		if err != nil {
			return err
		}
		if v.object {
			v.fields = append(v.fields, field{name, inner})
		}
	}
	_, err := p.dec.Token()
	return err
}

// get returns the value with a name, nil if there is none.
func (v *place) get(name string) *place {
	i := slices.IndexFunc(v.fields, func(f field) bool { return f.name == name })
	if i < 0 {
		return nil
	}
	return v.fields[i].value
}

// at returns the value at a path, nil if there is none.
func (d document) at(path []string) *place {
	v := d.root
	for _, name := range path {
		if v = v.get(name); v == nil {
			return nil
		}
	}
	return v
}

// raw returns the text of the value at a path, nil if there is none.
func (d document) raw(path []string) []byte {
	if v := d.at(path); v != nil {
		return d.text[v.start:v.end]
	}
	return nil
}

// sameJSON reports whether two texts are the same value. nil is a value that does not exist.
func sameJSON(a, b []byte) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return bytes.Equal(a, b) || reflect.DeepEqual(decodeJSON(a), decodeJSON(b))
}

// decodeJSON decodes a valid text. Numbers stay as they are written.
func decodeJSON(text []byte) (value any) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	_ = dec.Decode(&value) // it was parsed before
	return value
}
