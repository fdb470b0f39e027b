package lines

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/property"
)

// reader is what the reader of this package and that of encoding/csv have in common.
type reader interface {
	Read() ([]string, error)
	FieldPos(field int) (line, column int)
}

// records writes down all that a reader says, with each line moved on.
func records(r reader, moved int) (list []string) {
	for {
		fields, err := r.Read()
		if pe, ok := errors.AsType[*csv.ParseError](err); ok {
			return append(list, fmt.Sprintf("%d:%d %v", pe.Line+moved, pe.Column, pe.Err))
		}
		if errors.Is(err, io.EOF) {
			return list
		}
		for i, f := range fields {
			line, column := r.FieldPos(i)
			list = append(list, fmt.Sprintf("%d:%d %q", line+moved, column, f))
		}
		list = append(list, "end")
	}
}

// standard is the reader that counts.
func standard(text []byte) *csv.Reader {
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord = -1
	return r
}

// texts are CSV with and without faults, of long and of short lines.
func texts() *rapid.Generator[string] {
	piece := rapid.SampledFrom([]string{"a", "bc", ",", ",", "\n", "\n", "\n\n", "é", " ", `"a,b"`, `"a` + "\n" + `b"`, `""`, `"`, "x,y\n", strings.Repeat("long,", 20)})
	return rapid.Custom(func(t *rapid.T) string {
		plain := rapid.SliceOfN(rapid.SampledFrom([]string{"a", ",", "\n", "b,\n", strings.Repeat("many\n", 20)}), 0, 8).Draw(t, "plain")
		return strings.Join(append(plain, rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces")...), "")
	})
}

// TestReaderAgrees holds that the records, places and errors are those of encoding/csv.
func TestReaderAgrees(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		text := []byte(texts().Draw(t, "text"))
		r := NewReader(text, 7)
		r.size = rapid.IntRange(1, 200).Draw(t, "window")
		if diff := cmp.Diff(records(standard(text), 6), records(r, 0)); diff != "" {
			t.Fatalf("encoding/csv and this reader (-want +got):\n%s", diff)
		}
	})
}

// TestRest holds that a reader of the rest goes on where the first one stopped.
func TestRest(t *testing.T) {
	for _, text := range []string{"a,b\n\nc\nd,e\nf", "a\n\"b\nc\",d\n\"e\"\n\nf\n", "a\n", ""} {
		whole := records(NewReader([]byte(text), 3), 0)
		for stop := range 4 {
			r := NewReader([]byte(text), 3)
			var got []string
			for range stop {
				fields, err := r.Read()
				if err != nil {
					break
				}
				for i, f := range fields {
					line, column := r.FieldPos(i)
					got = append(got, fmt.Sprintf("%d:%d %q", line, column, f))
				}
				got = append(got, "end")
			}
			if diff := cmp.Diff(whole, append(got, records(NewReader(r.Rest()), 0)...)); diff != "" {
				t.Errorf("%q after %d records (-want +got):\n%s", text, stop, diff)
			}
		}
	}
}

// TestPartsAgree holds that parts make up the text, know their lines, and read the same as the whole if there is no
// fault, and that one of them has a fault if the whole has one.
func TestPartsAgree(t *testing.T) {
	cut := 0
	property.Check(t, func(t *rapid.T) {
		text := []byte(texts().Draw(t, "text"))
		var joined []byte
		var got []string
		n := 0
		for p := range Parts(text, 7, rapid.IntRange(1, 40).Draw(t, "size")) {
			if want := 7 + bytes.Count(joined, []byte("\n")); p.Line != want {
				t.Fatalf("a part begins with line %d, expected %d", p.Line, want)
			}
			joined = append(joined, p.Text...)
			got = append(got, records(NewReader(p.Text, p.Line), 0)...)
			n++
		}
		cut = max(cut, n)
		if !bytes.Equal(joined, text) {
			t.Fatalf("the parts are %q, expected %q", joined, text)
		}
		bad := func(list []string) bool {
			return slices.ContainsFunc(list, func(s string) bool { return !strings.HasSuffix(s, `"`) && s != "end" })
		}
		want := records(NewReader(text, 7), 0)
		if bad(want) != bad(got) {
			t.Fatalf("the whole has a fault: %t, a part: %t", bad(want), bad(got))
		}
		if diff := cmp.Diff(want, got); !bad(want) && diff != "" {
			t.Fatalf("the whole and its parts (-want +got):\n%s", diff)
		}
	})
	if cut < 3 {
		t.Errorf("no text was cut into more than %d parts", cut)
	}
}

// TestInOrder holds that results come in the order of the parts, that memory comes back, and that a refusal ends it.
func TestInOrder(t *testing.T) {
	text := []byte(strings.Repeat("x\n", 1000))
	type result struct{ line, uses int }
	for _, last := range []int{1, 2, 500, 1000} {
		var got []int
		reused := false
		InOrder(Parts(text, 1, 1), func(p Part, r *result) *result {
			if r == nil {
				r = &result{}
			}
			r.line, r.uses = p.Line, r.uses+1
			return r
		}, func(r *result) bool {
			got, reused = append(got, r.line), reused || r.uses > 1
			return r.line < last
		})
		if len(got) != last || !slices.IsSorted(got) || got[0] != 1 || got[last-1] != last {
			t.Errorf("until %d: %d results, the first %d", last, len(got), got[0])
		}
		if last > 100 && !reused {
			t.Error("no result was used again")
		}
	}
}

func TestWords(t *testing.T) {
	w := make(Words)
	for i := range 10_000 {
		s := fmt.Sprint(i)
		if first, again := w.Keep(s), w.Keep(s); first != s || again != s {
			t.Fatalf("%s became %s and %s", s, first, again)
		}
	}
	if len(w) != 1<<12 || w.Keep("") != "" {
		t.Errorf("%d words are kept", len(w))
	}
}

// TestIsDate compares with package time.
func TestIsDate(t *testing.T) {
	for day := time.Date(1890, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < 2110; day = day.AddDate(0, 0, 1) {
		want := (day.Month() != time.February || day.Day() <= 28) && day.Year() >= 1900 && day.Year() < 2100
		if s := day.Format(time.DateOnly); IsDate(s) != want {
			t.Fatalf("IsDate(%s) = %t", s, !want)
		}
	}
	for _, s := range []string{"", "2024-1-31", "2024-13-01", "2024-00-01", "2024-01-00", "2024-01-32", "2024-02-30", "2024-04-31", "2024-02-29", "20x4-01-01", "2024/01/01", "2024-01-011", "2024-01-1a"} {
		if IsDate(s) {
			t.Errorf("IsDate(%q) = true", s)
		}
	}
}
