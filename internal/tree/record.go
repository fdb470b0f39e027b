package tree

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox/internal/text"
	"signalbox/internal/tree/blackboard"
)

// The journal of a run is text: a header line, a line for each tick, and a line for the end. Each
// line is a JSON object whose last field, "hash", is the SHA-256 of the hash of the previous line
// and the text of the line before that field. docs/reference/tree-files.md describes the fields.

// Header is the first line of a journal.
type Header struct {
	Format int       `json:"format"`
	Run    string    `json:"run"`
	Tree   string    `json:"tree"`
	At     time.Time `json:"at"`
	// File and Source are the file of the tree, so that a journal can be read and resumed without
	// it.
	File   string `json:"file,omitempty"`
	Source string `json:"source,omitempty"`
	// Shape is the digest of the compiled tree.
	Shape   string          `json:"shape"`
	Inputs  json.RawMessage `json:"inputs,omitempty"`
	Globals json.RawMessage `json:"globals,omitempty"`
	Hash    string          `json:"hash"`
}

// HeaderFormat is the version of the journal format.
const HeaderFormat = 1

// Ending is the last line of the journal of a run that ended.
type Ending struct {
	End   string    `json:"end"`
	At    time.Time `json:"at"`
	Error string    `json:"error,omitempty"`
	Hash  string    `json:"hash"`
}

// Record is the record of a tick in a journal.
type Record struct {
	Tick   int
	At     int64
	Status Status
	effects
	emits []effect
}

// effects are what a tick did, except for what it published.
type effects struct {
	visits []visited
	writes []effect
	errs   []effect
	wakes  []effect // times
	jobs   []effect // the payloads of the jobs that the tick started
}

type visited struct {
	node   int32
	status Status
}

// effect is what a node did in a tick.
type effect struct {
	node  int32
	key   string // the key of a write or the topic of an emit, else ""
	value any
	// kept, if not 0, means that the new value is a list: the last kept items of the key's old
	// list, followed by value. Without it, the size of a journal would be quadratic in the length
	// of a growing list.
	kept int
}

func (e *effects) clear() {
	*e = effects{e.visits[:0], e.writes[:0], e.errs[:0], e.wakes[:0], e.jobs[:0]}
}

func (r *Run) recordWrite(i int32, key string, before, v any) {
	w := effect{node: i, key: key, value: v}
	if r.record {
		if w.kept = keptItems(before, v); w.kept > 0 {
			w.value = v.([]any)[w.kept]
		}
	}
	r.noteWrite(w, blackboard.Size(v))
}

// noteWrite notes a write of a value that has a size.
func (r *Run) noteWrite(w effect, size int) {
	r.changed = true
	if len(r.tree.reactive) > 0 {
		r.writers = append(r.writers, w.node)
	}
	r.written += size + len(w.key)
	if r.record {
		r.tick.writes = append(r.tick.writes, w)
	}
}

// keptItems returns n > 0 if after is a list of the last n items of before and one more item, and 0
// otherwise.
func keptItems(before, after any) int {
	old, _ := before.([]any)
	list, _ := after.([]any)
	kept := len(list) - 1
	if kept < 1 || kept > len(old) || !reflect.DeepEqual(old[len(old)-kept:], list[:kept]) {
		return 0
	}
	return kept
}

func (r *Run) emit(i int32, topic string, v any) {
	r.emits++
	r.topics[topic]++
	r.emitted = append(r.emitted, Emit{r.emits, r.topics[topic], int(i), topic, v})
}

// statusLetters holds the letter of each status. A visit is recorded as the node's index and a
// letter.
const statusLetters = "ISFR"

// AppendRecord appends the record of the last tick as a line of a journal, without its hash: see
// Chain.
func (r *Run) AppendRecord(dst []byte) []byte {
	t := &r.tick
	dst = strconv.AppendInt(append(dst, `{"tick":`...), int64(r.ticks), 10)
	dst = strconv.AppendInt(append(dst, `,"at":`...), r.now, 10)
	dst = append(append(append(dst, `,"status":"`...), r.status.String()...), `","visits":"`...)
	for _, v := range t.visits {
		dst = append(strconv.AppendInt(dst, int64(v.node), 10), statusLetters[v.status])
	}
	dst = append(dst, '"')
	var emits []effect
	for _, e := range r.emitted {
		emits = append(emits, effect{node: int32(e.Node), key: e.Topic, value: e.Value})
	}
	dst = appendEffects(dst, "writes", t.writes, true)
	dst = appendEffects(dst, "errors", t.errs, false)
	dst = appendEffects(dst, "wakes", t.wakes, false)
	dst = appendEffects(dst, "jobs", t.jobs, false)
	return appendEffects(dst, "emits", emits, true)
}

// appendEffects appends a field with a list of effects, unless it is empty.
func appendEffects(dst []byte, name string, list []effect, keys bool) []byte {
	if len(list) == 0 {
		return dst
	}
	dst = append(append(append(dst, `,"`...), name...), `":[`...)
	for i, e := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '[')
		dst = strconv.AppendInt(dst, int64(e.node), 10)
		if keys {
			dst = blackboard.AppendText(append(dst, ','), e.key)
		}
		dst = blackboard.Append(append(dst, ','), e.value)
		if e.kept > 0 {
			dst = strconv.AppendInt(append(dst, ','), int64(e.kept), 10)
		}
		dst = append(dst, ']')
	}
	return append(dst, ']')
}

// Chain is the state of a journal's hash chain. The zero Chain is the state before the first line.
type Chain struct{ last [sha256.Size]byte }

const hashField = `,"hash":"`

// Seal appends the hash and the end of a line that starts at from in dst.
func (c *Chain) Seal(dst []byte, from int) []byte {
	c.last = c.next(dst[from:])
	dst = hex.AppendEncode(append(dst, hashField...), c.last[:])
	return append(dst, "\"}\n"...)
}

func (c *Chain) next(text []byte) [sha256.Size]byte {
	h := sha256.New()
	h.Write(c.last[:])
	h.Write(text)
	return [sha256.Size]byte(h.Sum(nil))
}

// ErrChain means that a line of a journal was changed, or does not follow the previous one.
var ErrChain = errors.New("the line was changed, or lines are missing before it")

// Check checks a complete line without its line end.
func (c *Chain) Check(line []byte) error {
	const tail = len(hashField) + 2*sha256.Size + 2
	if len(line) < tail {
		return ErrChain
	}
	text := line[:len(line)-tail]
	next := c.next(text)
	if string(line[len(text):]) != hashField+hex.EncodeToString(next[:])+`"}` {
		return ErrChain
	}
	c.last = next
	return nil
}

// AppendHeader appends a header as a line of a journal, without its hash.
func AppendHeader(dst []byte, h Header) []byte { return appendUnsealed(dst, h) }

// AppendEnding appends an ending as a line of a journal, without its hash.
func AppendEnding(dst []byte, e Ending) []byte { return appendUnsealed(dst, e) }

// appendUnsealed appends a line whose type has the hash as its last field, without the hash.
func appendUnsealed(dst []byte, line any) []byte {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err) // headers and endings can always be encoded
	}
	return append(dst, text[:strings.LastIndex(string(text), hashField)]...)
}

// Header returns the header for the journal of the run. The caller sets File and Source.
func (r *Run) Header(o *RunOptions, at time.Time) Header {
	return Header{Format: HeaderFormat, Run: r.id, Tree: r.tree.Name(), At: at.UTC(),
		Shape:  r.tree.Shape(),
		Inputs: encodeMap(o.Inputs), Globals: encodeMap(o.Globals)}
}

func encodeMap(m map[string]any) json.RawMessage {
	if len(m) == 0 {
		return nil
	}
	kept := make(map[string]any, len(m))
	for key, v := range m {
		var err error // check each value by itself: together they may exceed the size of a value
		if kept[key], err = Any.Check(v); err != nil {
			panic(err) // NewRun accepted them
		}
	}
	return blackboard.Append(nil, kept)
}

// ReadInputs returns the inputs and globals of a header.
func (h Header) ReadInputs() (inputs, globals map[string]any, err error) {
	for _, m := range []struct {
		text json.RawMessage
		to   *map[string]any
	}{{h.Inputs, &inputs}, {h.Globals, &globals}} {
		if m.text == nil {
			continue
		}
		v, err := ParseValue(string(m.text))
		if err != nil {
			return nil, nil, err
		}
		*m.to, _ = v.(map[string]any)
	}
	return inputs, globals, nil
}

// ParseRecord parses a line that AppendRecord and Seal wrote.
func ParseRecord(line []byte) (*Record, error) {
	var raw struct {
		Tick                               int
		At                                 int64
		Status                             string
		Visits                             string
		Writes, Errors, Wakes, Jobs, Emits [][]json.RawMessage
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return nil, fmt.Errorf("the line cannot be read: %w", err)
	}
	rec := &Record{Tick: raw.Tick, At: raw.At}
	var ok bool
	if rec.Status, ok = ParseStatus(raw.Status); !ok {
		return nil, fmt.Errorf("there is no status %q", raw.Status)
	}
	p := recordParser{}
	rec.visits = p.visits(raw.Visits)
	rec.writes = p.effects(raw.Writes, true, 1)
	rec.errs = p.effects(raw.Errors, false, 0)
	rec.wakes = p.effects(raw.Wakes, false, 0)
	rec.jobs = p.effects(raw.Jobs, false, 0)
	rec.emits = p.effects(raw.Emits, true, 0)
	for _, e := range rec.errs {
		if _, ok := e.value.(string); !ok {
			p.fail(errors.New("an error is not a text"))
		}
	}
	for _, e := range rec.wakes {
		if _, ok := e.value.(int64); !ok {
			p.fail(errors.New("a wake is not a time"))
		}
	}
	return rec, p.err
}

// recordParser parses parts of a record and keeps the first error.
type recordParser struct{ err error }

func (p *recordParser) fail(err error) {
	if p.err == nil && err != nil {
		p.err = fmt.Errorf("the line cannot be read: %w", err)
	}
}

// effects parses a list of effects, with keys or without. Up to more of their elements are optional.
func (p *recordParser) effects(rows [][]json.RawMessage, keys bool, more int) (list []effect) {
	want := 2
	if keys {
		want = 3
	}
	for _, row := range rows {
		if len(row) < want || len(row) > want+more {
			p.fail(fmt.Errorf("an entry has %d elements, not %d", len(row), want))
			return nil
		}
		node, err := strconv.ParseInt(string(row[0]), 10, 32)
		p.fail(err)
		e := effect{node: int32(node), value: p.value(row[want-1])}
		if keys {
			p.fail(json.Unmarshal(row[1], &e.key))
		}
		if len(row) > want {
			kept, _ := p.value(row[want]).(int64)
			if kept < 1 || kept > math.MaxInt32 {
				p.fail(errors.New("invalid number of kept items"))
			}
			e.kept = int(kept)
		}
		list = append(list, e)
	}
	return list
}

func (p *recordParser) value(text json.RawMessage) any {
	v, err := ParseValue(string(text))
	p.fail(err)
	return v
}

func (p *recordParser) visits(line string) (visits []visited) {
	for line != "" {
		end := strings.IndexAny(line, statusLetters)
		if end <= 0 {
			p.fail(fmt.Errorf("invalid visits %q", text.Shorten(line, 20)))
			return nil
		}
		i, err := strconv.ParseInt(line[:end], 10, 32)
		p.fail(err)
		visits = append(visits,
			visited{int32(i), Status(strings.IndexByte(statusLetters, line[end]))})
		line = line[end+1:]
	}
	return visits
}

// Shape returns a digest of everything that determines the behaviour of the tree, except for the
// functions of its leaves.
func (t *Tree) Shape() string {
	t.shape.once.Do(func() {
		h := sha256.New()
		digests := map[*Node][]byte{} // a node may be used several times
		for i, n := range t.nodes {
			def := t.meta[i].def
			if digests[def] == nil {
				digests[def] = def.digest()
			}
			fmt.Fprintf(h, "%d %x\n", n.end, digests[def])
		}
		if err := t.layout.Describe(h); err != nil {
			panic(err) // writing to a hash never fails
		}
		t.shape.digest = hex.EncodeToString(h.Sum(nil))
	})
	return t.shape.digest
}

func (n *Node) digest() []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%s %q %q %d %d %d %d %d %q %q %q %t %q %q ", n.Kind, n.element(), n.Fn, n.After,
		n.Times, n.Until,
		n.Require, n.MaxConcurrent, n.Items, n.As, n.Index, n.KeepGoing, n.Uses, n.Ports)
	writeExact(h, n.Args)
	return h.Sum(nil)
}

// writeExact writes an unambiguous form of a value, which may contain a Ref.
func writeExact(w io.Writer, v any) {
	switch v := v.(type) {
	case []any:
		io.WriteString(w, "[")
		for _, item := range v {
			writeExact(w, item)
			io.WriteString(w, ",")
		}
		io.WriteString(w, "]")
	case map[string]any:
		io.WriteString(w, "{")
		for _, key := range sortedKeys(v) {
			fmt.Fprintf(w, "%q:", key)
			writeExact(w, v[key])
			io.WriteString(w, ",")
		}
		io.WriteString(w, "}")
	default:
		fmt.Fprintf(w, "%T %#v", v, v)
	}
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
