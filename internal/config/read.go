package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"signalbox/internal/sandbox"
)

// read decodes text over the values that into points to, and returns where each setting is and
// everything that is wrong.
//
// The library's own strict decoder stops at the first error, describes it in terms of Go types, and
// does not keep the positions that validation needs later. So this package walks the library's
// syntax tree itself.
func read(text []byte, into any) (places, faults) {
	r := newReader("the configuration")
	body, fault := parseDocument(text)
	r.faults.add(fault)
	if fault == nil && body != nil {
		r.value(reflect.ValueOf(into).Elem(), body, "")
	}
	return r.places, r.faults
}

// parseDocument parses a text that has at most one document. It returns nil if there is none.
func parseDocument(text []byte) (ast.Node, *settingError) {
	if wrong := checkUTF8(text); wrong != nil {
		return nil, wrong
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // some editors write a byte order mark
	if wrong := checkSize(text); wrong != nil {
		return nil, wrong
	}

	// mapping reports duplicate keys, with a better message.
	file, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxError(err)
	}
	return onlyDocument(file)
}

// Limits of a configuration. The time of the YAML parser grows with the square of the number of
// lines, and its memory with the square of the depth.
const (
	maxBytes  = 256 << 10
	maxLines  = 5000
	maxDepth  = 200
	maxValues = 10_000 // with aliases written out
)

// checkSize refuses a text that is too large to be a configuration, before it is parsed.
func checkSize(text []byte) *settingError {
	if len(text) > maxBytes {
		return &settingError{fault: fmt.Sprintf("the file has %d bytes, limit %d", len(text),
			maxBytes), hint: "check that this is the right file"}
	}
	line, depth := 0, 0
	for content := range bytes.Lines(text) {
		line++
		marks, start := 0, content
		// such as "- - - x", which is a list in lists
		for len(start) > 1 && bytes.IndexByte([]byte("-?: \t"), start[0]) >= 0 {
			if start[0] != ' ' && start[0] != '\t' {
				marks++
			}
			start = start[1:]
		}
		for _, c := range content {
			switch c {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(depth-1, 0)
			}
			if depth+marks > maxDepth {
				return &settingError{fault: fmt.Sprintf(
					"more than %d lists or groups inside each other", maxDepth),
					hint:  "check that this is the right file",
					where: &token.Position{Line: line, Column: 1}}
			}
		}
		if line > maxLines {
			return &settingError{fault: fmt.Sprintf("the file has more than %d lines", maxLines),
				hint:  "check that this is the right file",
				where: &token.Position{Line: line, Column: 1}}
		}
	}
	return nil
}

func checkUTF8(text []byte) *settingError {
	if utf8.Valid(text) {
		return nil
	}
	var before string
	for rest := text; ; {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size == 1 {
			before = string(text[:len(text)-len(rest)])
			break
		}
		rest = rest[size:]
	}
	return &settingError{fault: "the file is not UTF-8 text", hint: "save the file as UTF-8",
		where: positionAfter(before)}
}

// positionAfter returns the position that follows the text before it.
func positionAfter(before string) *token.Position {
	line := before[strings.LastIndexByte(before, '\n')+1:]
	return &token.Position{Line: strings.Count(before, "\n") + 1,
		Column: utf8.RuneCountInString(line) + 1}
}

func syntaxError(err error) *settingError {
	wrong := &settingError{fault: err.Error(),
		hint: "correct the YAML; put text with special characters in quotes"}
	if located := (yaml.Error)(nil); errors.As(err, &located) {
		wrong.fault = located.GetMessage()
		if strings.Contains(wrong.fault, "'\t'") {
			wrong.fault, wrong.hint = "a tab is used for indentation", "indent with spaces"
		}
		if tk := located.GetToken(); tk != nil {
			wrong.where = tk.Position
		}
	}
	return wrong
}

// onlyDocument returns the body of the only document, or nil if there is none.
func onlyDocument(file *ast.File) (ast.Node, *settingError) {
	var body ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil, doc.Body.Type() == ast.CommentType:
		case doc.Body.Type() == ast.DirectiveType:
			return nil, &settingError{fault: "YAML directives (lines that begin with %) are not supported", hint: "remove the line", where: position(doc.Body)}
		case body != nil:
			return nil, &settingError{fault: "a second document begins here",
				hint: "remove the line --- above it", where: position(doc.Body)}
		default:
			body = doc.Body
		}
	}
	return body, nil
}

// position returns where a value begins.
func position(node ast.Node) *token.Position {
	switch n := node.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return position(n.Values[0])
		}
	case *ast.MappingValueNode:
		return position(n.Key)
	}
	return node.GetToken().Position
}

type reader struct {
	what    string // what is being read, for messages
	places  places
	faults  faults
	anchors map[string]ast.Node
	values  int // read so far
}

func newReader(what string) *reader {
	return &reader{what: what, places: places{}, anchors: map[string]ast.Node{}}
}

// resolved calls read with the node, or with the value that an alias repeats, and records its
// position. It does nothing for a null.
func (r *reader) resolved(node ast.Node, at settingPath,
	read func(ast.Node) *settingError) *settingError {
	if node == nil || node.Type() == ast.NullType {
		return nil
	}
	if r.values++; r.values > maxValues {
		if r.values > maxValues+1 {
			return nil // reported already
		}
		return faultAt(at, "check that this is the right file",
			"there are more than %d values, counting those that aliases repeat", maxValues)
	}
	here := r.places[at]
	here.value = position(node)
	r.places[at] = here
	switch n := node.(type) {
	case *ast.AnchorNode:
		if wrong := r.resolved(n.Value, at, read); wrong != nil {
			return wrong
		}
		r.anchors[n.Name.GetToken().Value] = n.Value // only now: a value cannot contain itself
		return nil
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		target, ok := r.anchors[name]
		if !ok {
			return faultAt(at, fmt.Sprintf(`put text that begins with * in quotes: "*%s"`, name),
				"*%s refers to &%s, which is not defined above", name, name)
		}
		wrong := r.resolved(target, at, read)
		r.places[at] = here // the position of the alias, not of the repeated value
		return wrong
	case *ast.TagNode:
		return faultAt(at, "remove it, or put text that begins with ! in quotes",
			"the tag %s is not supported", n.Start.Value)
	}
	return read(node)
}

// value decodes a node. A null sets nothing.
func (r *reader) value(to reflect.Value, node ast.Node, at settingPath) {
	r.faults.add(r.resolved(node, at, func(node ast.Node) *settingError {
		r.plainValue(to, node, at)
		return nil
	}))
}

func (r *reader) plainValue(to reflect.Value, node ast.Node, at settingPath) {
	switch {
	case to.Type() == reflect.TypeFor[json.RawMessage]():
		w := &jsonWriter{reader: r}
		r.faults.add(w.write(node, at))
		to.SetBytes(w.out.Bytes())
	case to.Kind() == reflect.Pointer:
		value := reflect.New(to.Type().Elem())
		if !to.IsNil() {
			value.Elem().Set(to.Elem())
		}
		to.Set(value)
		r.plainValue(to.Elem(), node, at)
	case to.Kind() == reflect.Struct:
		r.fields(to, node, at)
	case to.Kind() == reflect.Map:
		r.members(to, node, at)
	case to.Kind() == reflect.Slice:
		r.items(to, node, at)
	default:
		r.faults.add(scalar(node, at,
			func(text string) *settingError { return setScalar(to, text, at) }))
	}
}

// pair is a name and its value in a mapping.
type pair struct {
	name  string
	value ast.Node
}

// mapping returns the pairs of a node and records their positions. It reports a node that is not a
// mapping, names that are not plain, and names that appear twice.
func (r *reader) mapping(node ast.Node, at settingPath) ([]pair, *settingError) {
	mapping, ok := node.(ast.MapNode)
	if !ok {
		fault := "must be a group of settings"
		if at == "" {
			fault = r.what + " must be a group of settings"
		}
		return nil, faultAt(at,
			"write each setting as name: value on its own line, and indent the settings of a group below its name", "%s", fault)
	}
	var pairs []pair
	first := map[string]int{}
	for each := mapping.MapRange(); each.Next(); {
		key := each.Key()
		name := key.GetToken().Value
		if _, plain := key.(ast.ScalarNode); !plain || key.IsMergeKey() {
			return pairs, &settingError{at: at, fault: fmt.Sprintf("%q is not a plain name", name),
				where: position(key),
				hint:  "write name: value; merge keys are not supported"}
		}
		if line := first[name]; line > 0 {
			r.faults.add(&settingError{at: at.field(name),
				fault: fmt.Sprintf("set twice, first on line %d", line), where: position(key),
				hint: "keep one of them"})
			continue
		}
		first[name] = position(key).Line
		r.places[at.field(name)] = place{key: position(key)}
		pairs = append(pairs, pair{name, each.Value()})
	}
	return pairs, nil
}

// fields decodes a mapping whose names are the fields of a struct.
func (r *reader) fields(to reflect.Value, node ast.Node, at settingPath) {
	if group, ok := to.Interface().(interface{ mainField() string }); ok {
		main := to.Field(slices.Index(fieldNames(to.Type()), group.mainField()))
		if _, isList := node.(*ast.SequenceNode); isScalar(node) || isList &&
			main.Kind() == reflect.Slice {
			r.places[at.field(group.mainField())] = r.places[at]
			if isList { // its items have places of their own
				at = at.field(group.mainField())
			}
			if isDollars(to.Type(), group.mainField()) {
				r.dollars(main, node, at)
			} else {
				r.plainValue(main, node, at)
			}
			return
		}
	}
	pairs, fault := r.mapping(node, at)
	r.faults.add(fault)
	known := fieldNames(to.Type())
	for _, pair := range pairs {
		member := at.field(pair.name)
		i := slices.Index(known, pair.name)
		if i < 0 {
			hint := suggest(pair.name, known, "the settings here are")
			if group, ok := to.Interface().(interface{ unknownHint(name string) string }); ok {
				hint = orDefault(group.unknownHint(pair.name), hint)
			}
			r.faults.add(badName(member, hint, "unknown field %q", pair.name))
			continue
		}
		if isDollars(to.Type(), pair.name) {
			r.dollars(to.Field(i), pair.value, member)
		} else {
			r.value(to.Field(i), pair.value, member)
		}
	}
}

// isDollars reports whether a field of a group is an amount of money.
func isDollars(group reflect.Type, name string) bool {
	return group.Field(slices.Index(fieldNames(group), name)).Tag.Get("unit") == "dollars"
}

// fieldNames returns the names of the settings in a group, in the order of its fields. Fields that
// are not settings come last.
func fieldNames(group reflect.Type) (names []string) {
	for i := range group.NumField() {
		if name := group.Field(i).Tag.Get("yaml"); name != notSetting {
			names = append(names, name)
		}
	}
	return names
}

// notSetting is the tag of a field that is not a setting.
const notSetting = "-"

// members decodes a mapping whose names the user chooses. Members that the map has already are
// kept; one that the text has too is decoded over its value.
func (r *reader) members(to reflect.Value, node ast.Node, at settingPath) {
	pairs, fault := r.mapping(node, at)
	r.faults.add(fault)
	members := reflect.MakeMap(to.Type())
	for each := to.MapRange(); each.Next(); {
		members.SetMapIndex(each.Key(), each.Value())
	}
	for _, pair := range pairs {
		member := reflect.New(to.Type().Elem()).Elem()
		if known := members.MapIndex(
			reflect.ValueOf(pair.name).Convert(to.Type().Key())); known.IsValid() {
			member.Set(known)
		}
		r.value(member, pair.value, at.field(pair.name))
		if member.Kind() == reflect.String && !r.places.has(at.field(pair.name)) {
			r.faults.add(&settingError{at: at.field(pair.name), onKey: true, fault: "has no value",
				hint: `write "" for an empty value`})
		}
		members.SetMapIndex(reflect.ValueOf(pair.name).Convert(to.Type().Key()), member)
	}
	to.Set(members)
}

// mayBeScalar are the types of lists for which a single value need not be in a list.
var mayBeScalar = []reflect.Type{reflect.TypeFor[Network](), reflect.TypeFor[AgentList](),
	reflect.TypeFor[Resume]()}

// items decodes a list.
func (r *reader) items(to reflect.Value, node ast.Node, at settingPath) {
	if slices.Contains(mayBeScalar, to.Type()) && isScalar(node) {
		to.Set(reflect.MakeSlice(to.Type(), 1, 1))
		r.value(to.Index(0), node, at.item(0))
		return
	}
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		hint := "write [one, two], or each item on its own line after a -"
		if to.Type().Elem().Kind() == reflect.Struct {
			hint = "begin each item with a line such as - name: tests, and put its other settings below, indented like name"
		}
		r.faults.fail(at, hint, "must be a list")
		return
	}
	if len(list.Values) == 0 && at == setting("agent") { // for roles it means this setting
		r.faults.fail(at, "name one, such as ["+PresetClaude+"], or remove the setting",
			"the list names no agent")
		return
	}
	items := reflect.MakeSlice(to.Type(), len(list.Values), len(list.Values))
	for i, item := range list.Values {
		r.value(items.Index(i), item, at.item(i))
		if !r.places.has(at.item(i)) {
			r.faults.add(&settingError{at: at, fault: "a list item is empty",
				hint: "write the item after the -, or remove it", where: itemPosition(item)})
		}
	}
	to.Set(items)
}

// itemPosition returns the position of an item, or nil if it has none of its own.
func itemPosition(item ast.Node) *token.Position {
	if item == nil || item.GetToken() == nil {
		return nil
	}
	return item.GetToken().Position
}

// dollars decodes an amount of money into millionths of a dollar.
func (r *reader) dollars(to reflect.Value, node ast.Node, at settingPath) {
	amount := reflect.New(reflect.TypeFor[string]()).Elem()
	before := len(r.faults)
	r.value(amount, node, at)
	if len(r.faults) > before || !r.places.has(at) {
		return
	}
	micros, fault := parseDollars(strings.TrimPrefix(amount.String(), "$"))
	if fault != "" {
		r.faults.fail(at, "write dollars, such as 12.50", "%s", fault)
	}
	to.SetInt(micros)
}

// scalar calls set with the text of a single value. Quotes make no difference, because the type
// that is wanted is known.
func scalar(node ast.Node, at settingPath, set func(text string) *settingError) *settingError {
	var text string
	switch n := node.(type) {
	case *ast.LiteralNode:
		text = n.Value.Value
	case *ast.StringNode:
		text = n.Value
	case ast.MapNode:
		return faultAt(at, `write one value; put text that begins with { or contains ": " in quotes`, "must be a single value, not a group of settings")
	case *ast.SequenceNode:
		return faultAt(at, "write one value; put text that begins with [ or - in quotes",
			"must be a single value, not a list")
	case ast.ScalarNode:
		text = n.GetToken().Value // exactly as written: 1.10 is not 1.1
	default:
		return faultAt(at, "write one value, in quotes if it has special characters",
			"must be a single value")
	}
	if strings.ContainsRune(text, 0) {
		return faultAt(at, "remove the zero byte", "contains a zero byte")
	}
	return set(text)
}

// setScalar sets a value that is not a group or a list.
func setScalar(to reflect.Value, text string, at settingPath) *settingError {
	switch value := to.Addr().Interface().(type) {
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return faultAt(at, "write a number followed by s, m or h",
				"not a duration such as 90s, 15m or 2h")
		}
		*value = d
		return nil
	case *Size:
		return setParsed(value, text, at, parseSize, "a size", "write a size such as 512MB or 4GB")
	case *Cores:
		return setParsed(value, text, at, parseCores, "a number of cores",
			"write a number such as 2 or 1.5")
	case *sandbox.Mode:
		return setParsed(value, text, at, oneWord(sandbox.Modes()), "a mode of the sandbox",
			"write "+list(sandbox.Modes()))
	case *sandbox.Processes:
		return setParsed(value, text, at, oneWord(sandbox.AllProcesses()),
			"what can become of processes", "write "+list(sandbox.AllProcesses()))
	}
	switch to.Kind() {
	case reflect.String:
		to.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return faultAt(at, "write true or false", "%q is neither true nor false", text)
		}
		to.SetBool(text == "true")
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
		if err != nil || to.OverflowInt(n) {
			return faultAt(at, "write a number such as 5", "%q is not a whole number", text)
		}
		to.SetInt(n)
	}
	return nil
}

// setParsed sets a value to what parse returns for a text.
func setParsed[T any](to *T, text string, at settingPath, parse func(string) (T, bool), what,
	hint string) *settingError {
	value, ok := parse(text)
	if !ok {
		return faultAt(at, hint, "%q is not %s", text, what)
	}
	*to = value
	return nil
}

// oneWord returns a function that accepts some words, and an empty text.
func oneWord[T ~string](words []T) func(text string) (T, bool) {
	return func(text string) (T, bool) {
		return T(text), text == "" || slices.Contains(words, T(text))
	}
}

// isScalar reports whether a node is a single value.
func isScalar(node ast.Node) bool {
	switch node.(type) {
	case ast.MapNode, *ast.SequenceNode:
		return false
	}
	return true
}

// parseDollars parses a decimal number of dollars into exact millionths, or returns what is wrong
// with it.
func parseDollars(text string) (micros int64, fault string) {
	if strings.HasPrefix(text, "-") {
		return 0, text + " is negative"
	}
	whole, fraction, point := strings.Cut(text, ".")
	if !digits(whole) || point && !digits(fraction) {
		return 0, fmt.Sprintf("%q is not an amount of money", text)
	}
	if len(fraction) > 6 {
		return 0, text + " has more than six decimal places"
	}
	micros, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", 6-len(fraction)), 10, 64)
	if err != nil {
		return 0, text + " is too large"
	}
	return micros, ""
}

func digits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
