package dashboard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/run/inspect/render"
	scan "signalbox/transcript"
)

const (
	// maxStep is how much of a transcript a request looks at, for signals and for a text.
	maxStep = 8 << 20
	// maxIndexes is of how many transcripts the signals are kept.
	maxIndexes = 32
	// maxFind is the longest text that can be looked for, and maxMarkText how much of a signal is
	// kept.
	maxFind, maxMarkText = 200, 1 << 10
)

// indexes has the signals of the transcripts that were shown last.
type indexes struct {
	mu   sync.Mutex
	list []*index // the one that was used last is the last
}

// index has the signals of a transcript, as far as it was read. Each request reads some more of it.
type index struct {
	key string
	mu  sync.Mutex
	// scanner is nil when all of a transcript that does not grow was read.
	scanner *scan.Scanner
	digest  hash.Hash
	at      int64
	marks   []signalbox.Signal
	err     error
}

// get returns the index of a transcript.
func (x *indexes) get(key string, format signalbox.Format) *index {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := slices.IndexFunc(x.list, func(i *index) bool { return i.key == key })
	if i < 0 {
		if len(x.list) == maxIndexes {
			x.list = slices.Delete(x.list, 0, 1)
		}
		x.list = append(x.list,
			&index{key: key, scanner: scan.NewScanner(&scan.Options{Format: format, Locate: true}),
				digest: sha256.New()})
		return x.list[len(x.list)-1]
	}
	used := x.list[i]
	x.list = append(slices.Delete(x.list, i, i+1), used)
	return used
}

// marks returns the signals of a transcript, as far as it was looked at, and looks at some more of
// it.
func (d *Dashboard) marks(ctx context.Context, t *transcript) ([]signalbox.Signal, error) {
	page := t.page
	x := d.indexes.get(strings.Join([]string{t.key, string(t.o.Role), t.o.Work, string(t.o.Format)},
		" "), t.o.Format)
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.advance(ctx, t); err != nil {
		return nil, err
	}
	marks := slices.Clone(x.marks)
	if x.scanner != nil {
		if pending, ok := x.scanner.Pending(); ok {
			marks = appendMark(marks, pending, &t.o)
		}
	}
	page.Checked, page.Signals = x.at, 0
	for _, m := range marks {
		if m.To == 0 {
			page.Remarks = append(page.Remarks, m)
		} else {
			page.Signals++
		}
	}
	return marks, nil
}

// advance reads some more of the transcript. When all of it was read, it is verified.
func (x *index) advance(ctx context.Context, t *transcript) error {
	if x.err != nil || x.scanner == nil {
		return x.err
	}
	buf := make([]byte, 256<<10)
	for end := min(t.size, x.at+maxStep); x.at < end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := t.r.ReadAt(buf[:min(int64(len(buf)), end-x.at)], x.at)
		if n == 0 && err != nil {
			return err
		}
		x.at += int64(n)
		x.digest.Write(buf[:n])
		x.add(x.scanner.Push(buf[:n]), &t.o)
	}
	if x.at < t.size || t.page.Running {
		return nil
	}
	x.add(x.scanner.Close(), &t.o)
	x.scanner = nil
	if got := signalbox.Hash(x.digest.Sum(nil)); got != t.page.Digest {
		x.err = fmt.Errorf("%w: the blob %s has the digest %s", journal.ErrDamaged, t.page.Digest,
			got)
	}
	return x.err
}

func (x *index) add(signals []signalbox.Signal, o *render.TranscriptOptions) {
	for _, sig := range signals {
		x.marks = appendMark(x.marks, sig, o)
	}
}

// appendMark appends a signal that is shown, without what is not needed for that.
func appendMark(marks []signalbox.Signal, sig signalbox.Signal,
	o *render.TranscriptOptions) []signalbox.Signal {
	if !o.Judge(&sig) {
		return marks
	}
	sig.Body, sig.Exit, sig.Turn = nil, nil, nil
	sig.Raw, sig.Detail, sig.Title = cut(sig.Raw, maxMarkText), cut(sig.Detail, maxMarkText), ""
	return append(marks, sig)
}

// find looks for a text in a transcript, after a position or before it. It returns the place of the
// text, -1 if it was not found; and then the position from which to look further, -1 at the end.
// Letters of English match in either case. In JSON, characters may be escaped.
func find(r io.ReaderAt, size int64, text string, at int64,
	back bool) (hit, next int64, err error) {
	at = max(-1, min(at, size)) // it is from the address of a page
	words := spellings(text)
	longest := int64(0)
	for _, w := range words {
		longest = max(longest, int64(len(w)))
	}
	from, to := at+1, min(size, at+1+maxStep)
	if back {
		to = min(size, max(at, 0)+longest-1)
		from = max(0, to-maxStep)
	}
	data := make([]byte, max(0, to-from))
	n, err := r.ReadAt(data, from)
	if err != nil && err != io.EOF {
		return -1, -1, err
	}
	data = lower(data[:n])
	best := -1
	for _, w := range words {
		i := bytes.Index(data, w)
		if back {
			i = bytes.LastIndex(data[:min(int64(len(data)), max(at-from, 0)+int64(len(w))-1)], w)
		}
		if i >= 0 && (best < 0 || back == (i > best)) {
			best = i
		}
	}
	switch {
	case best >= 0:
		return from + int64(best), -1, nil
	case back && from > 0:
		return -1, from, nil
	case !back && to < size:
		return -1, to - longest, nil
	}
	return -1, -1, nil
}

// spellings returns how a text can be written in a transcript, in lower case.
func spellings(text string) [][]byte {
	words := [][]byte{lower([]byte(text))}
	add := func(s string) {
		if w := lower([]byte(s)); !slices.ContainsFunc(words,
			func(other []byte) bool { return bytes.Equal(other, w) }) {
			words = append(words, w)
		}
	}
	var quoted bytes.Buffer
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(false)
	if e.Encode(text) == nil {
		escaped := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(quoted.String()), `"`),
			`"`)
		add(escaped)
		var ascii strings.Builder
		for _, r := range escaped {
			if r < utf8.RuneSelf {
				ascii.WriteRune(r)
				continue
			}
			for _, unit := range utf16.Encode([]rune{r}) {
				ascii.WriteString(`\u` + fmt.Sprintf("%04s", strconv.FormatUint(uint64(unit), 16)))
			}
		}
		add(ascii.String())
	}
	return words
}

// lower makes the letters of English small, in place.
func lower(b []byte) []byte {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c | 0x20
		}
	}
	return b
}
