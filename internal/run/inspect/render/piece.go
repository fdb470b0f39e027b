package render

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"signalbox"
	"signalbox/internal/text"
)

// View shows any piece of a transcript without reading what is before it: as Transcript prints it,
// or raw. How much it reads for a piece does not depend on the length of the transcript.
//
// A transcript is shown unit by unit. A unit is a line of it. A line that is longer than the unit
// size is cut at multiples of that size, so that wherever reading starts, the units are the same.
type View struct {
	o      TranscriptOptions
	raw    bool
	r      io.ReaderAt
	size   int64
	marked []signalbox.Signal // by their place
}

// Limits of a piece.
const (
	// rawUnit is the unit size of the raw form. In the readable form it is maxLine.
	rawUnit = 4 << 10
	// pieceBytes and pieceLines are after how many bytes and lines a piece ends. One with fewer
	// lines than pieceScreen goes on to maxPiece bytes.
	pieceBytes, pieceLines = 64 << 10, 200
	pieceScreen, maxPiece  = 40, 1 << 20
	// unitLines is how many lines of a unit are shown.
	unitLines = 400
)

// Piece is a piece of a transcript. It starts and ends between units.
type Piece struct {
	From, To int64
	Lines    []Line
}

// NewView returns a view of a transcript of a size. The marks are its signals as Judge returns
// them, with their places (transcript.Options.Locate).
func NewView(r io.ReaderAt, size int64, marks []signalbox.Signal, raw bool,
	o TranscriptOptions) *View {
	marks = slices.Clone(marks)
	slices.SortStableFunc(marks,
		func(a, b signalbox.Signal) int { return cmp.Compare(a.From, b.From) })
	return &View{o: o, raw: raw, r: r, size: size, marked: marks}
}

// After returns the piece that starts with the unit at a position.
func (v *View) After(at int64) (Piece, error) {
	start, err := v.unitStart(min(max(at, 0), v.size))
	p := Piece{From: start, To: start}
	if err != nil {
		return p, err
	}
	w := v.newWriter(start)
	for p.To < v.size {
		end, err := v.unitEnd(p.To)
		if err != nil {
			return p, err
		}
		if err := w.unit(p.To, end); err != nil {
			return p, err
		}
		p.To = end
		if read := p.To - p.From; len(w.lines) >= pieceLines || read >= pieceBytes &&
			len(w.lines) >= pieceScreen || read >= maxPiece {
			break
		}
	}
	p.Lines = w.close()
	return p, nil
}

// Before returns the piece that ends before the unit at a position.
func (v *View) Before(at int64) (Piece, error) {
	end, err := v.unitStart(min(max(at, 0), v.size))
	if err != nil || end == 0 {
		return Piece{}, err
	}
	starts := []int64{end}
	for start := end; start > 0 && len(starts) <= pieceLines && end-start < pieceBytes; {
		if start, err = v.unitStart(start - 1); err != nil {
			return Piece{}, err
		}
		starts = append(starts, start)
	}
	slices.Reverse(starts)
	// The last units that fit.
	var lines [][]Line
	w := v.newWriter(starts[0])
	for i := range starts[:len(starts)-1] {
		before := len(w.lines)
		if err := w.unit(starts[i], starts[i+1]); err != nil {
			return Piece{}, err
		}
		lines = append(lines, w.lines[before:])
	}
	shown := len(w.lines)
	rest := w.close()[shown:]
	first, total := len(lines)-1, len(rest)+len(lines[len(lines)-1])
	for first > 0 && total+len(lines[first-1]) <= pieceLines+unitLines {
		first--
		total += len(lines[first])
	}
	return Piece{From: starts[first], To: end, Lines: slices.Concat(slices.Concat(lines[first:]...),
		rest)}, nil
}

func (v *View) unitSize() int64 {
	if v.raw {
		return rawUnit
	}
	return maxLine
}

// read returns the bytes from a position to another, as far as there are any.
func (v *View) read(from, to int64) ([]byte, error) {
	from = max(from, 0)
	buf := make([]byte, max(0, min(to, v.size)-from))
	n, err := v.r.ReadAt(buf, from)
	if err == io.EOF {
		err = nil
	}
	return buf[:n], err
}

// unitStart returns where the unit starts that has a position, or the size at the end.
func (v *View) unitStart(at int64) (int64, error) {
	if at == 0 || at >= v.size {
		return min(at, v.size), nil
	}
	unit := v.unitSize()
	// the last place at which the line would be cut, if it is long
	cut := (at + utf8.UTFMax - 1) / unit * unit
	for {
		start, err := v.runeStart(cut)
		if err != nil {
			return 0, err
		}
		if start <= at {
			break
		}
		cut -= unit
	}
	// It is, unless a line starts in the unit before that place, or later. Nearly always, one
	// starts nearby.
	for _, from := range []int64{max(at-rawUnit, cut-unit, 0), max(cut-unit, 0)} {
		before, err := v.read(from, at)
		if err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(before, '\n'); i >= 0 {
			return from + int64(i) + 1, nil
		}
	}
	return v.runeStart(cut)
}

// unitEnd returns where the unit ends that starts at a position.
func (v *View) unitEnd(start int64) (int64, error) {
	unit := v.unitSize()
	cut := roundUp(start+unit, unit)
	if within, err := v.isCut(start); err != nil {
		return 0, err
	} else if within {
		cut = roundUp(start, unit) + unit
	}
	for _, end := range []int64{min(start+rawUnit, cut), cut} {
		part, err := v.read(start, end)
		if err != nil {
			return 0, err
		}
		if i := bytes.IndexByte(part, '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
	}
	if cut >= v.size {
		return v.size, nil
	}
	return v.runeStart(cut)
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// isCut reports whether a unit that starts at a position starts within a line.
func (v *View) isCut(start int64) (bool, error) {
	before, err := v.read(start-1, start)
	return err == nil && len(before) == 1 && before[0] != '\n', err
}

// runeStart returns the position itself, or, if it is within a character, that of the character.
func (v *View) runeStart(at int64) (int64, error) {
	around, err := v.read(at-utf8.UTFMax+1, at+1)
	if err != nil || len(around) < utf8.UTFMax || utf8.RuneStart(around[utf8.UTFMax-1]) {
		return at, err
	}
	for back := 1; back < utf8.UTFMax; back++ {
		if i := utf8.UTFMax - 1 - back; utf8.RuneStart(around[i]) {
			if around[i] < utf8.RuneSelf {
				break // these bytes are not UTF-8
			}
			return at - int64(back), nil
		}
	}
	return at, nil
}

// pieceWriter collects the lines of a piece.
type pieceWriter struct {
	v     *View
	t     *Transcript // nil for the raw form
	lines []Line
	from  int64 // the unit
	to    int64
	count int // lines of the unit
}

func (v *View) newWriter(at int64) *pieceWriter {
	w := &pieceWriter{v: v}
	if v.raw {
		return w
	}
	known := slices.DeleteFunc(slices.Clone(v.marked),
		func(sig signalbox.Signal) bool { return sig.To <= at })
	w.t = &Transcript{emit: w.add, o: v.o, known: known, at: at}
	return w
}

// add adds a line of the unit.
func (w *pieceWriter) add(l Line) error {
	l.From, l.To = w.from, w.to
	switch w.count++; {
	case w.count <= unitLines:
		w.lines = append(w.lines, l)
	case w.count == unitLines+1:
		w.lines = append(w.lines, Line{Kind: LineFaint, Indent: "  ", Text: "…", Cut: true,
			From: w.from, To: w.to})
	}
	return nil
}

// unit adds a unit.
func (w *pieceWriter) unit(from, to int64) error {
	w.from, w.to, w.count = from, to, 0
	if w.t == nil {
		data, err := w.v.read(from, to)
		if err == nil {
			w.add(w.v.rawLine(data, from))
		}
		return err
	}
	if to-from >= maxLine { // a part of a long line
		w.t.at = to
		w.t.known = slices.DeleteFunc(w.t.known,
			func(sig signalbox.Signal) bool { return sig.To <= to })
		return w.add(Line{Kind: LineFaint, Indent: "  ",
			Text: fmt.Sprintf("(%.1f MB of a long line)", float64(to-from)/1e6), Cut: true})
	}
	data, err := w.v.read(from, to)
	if err == nil {
		w.t.Write(data)
	}
	if err == nil && !bytes.HasSuffix(data, []byte("\n")) {
		w.t.endLine(false)
	}
	w.t.release() // its signals are known, so nothing is held back for the next unit
	return err
}

// close returns the lines.
func (w *pieceWriter) close() []Line {
	if w.t != nil {
		w.count = 0
		w.t.known = nil // those that continue after the piece
		w.t.Close()     // add does not fail
	}
	return w.lines
}

// rawLine returns a unit as it is, with its signals marked.
func (v *View) rawLine(data []byte, from int64) Line {
	to := from + int64(len(data))
	l := Line{}
	shown := bytes.TrimRight(data, "\r\n")
	end := from + int64(len(shown))
	at := from
	add := func(until int64, kind LineKind, note string) {
		if until = min(until, end); until > at {
			words := text.Printable(strings.ReplaceAll(string(data[at-from:until-from]), "\t",
				"    "))
			l.Spans = append(l.Spans, Span{From: at, To: until, Text: words, Kind: kind,
				Note: note})
			at = until
		}
	}
	for _, sig := range v.marked {
		if sig.To <= at || sig.From >= to || sig.From == sig.To {
			continue
		}
		add(sig.From, "", "")
		if verdict := v.o.Verdict(sig); verdict == "" {
			add(sig.To, LineSignal, "")
		} else {
			add(sig.To, LineRefused, verdict)
		}
	}
	add(end, "", "")
	return l
}
