package model

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

type testEvent struct{ Name, Data string }

// readEvents reads events up to the first error.
func readEvents(r io.Reader) (all []testEvent, err error) {
	events := newEventReader(r)
	for {
		name, data, err := events.next()
		if err != nil {
			return all, err
		}
		all = append(all, testEvent{name, string(data)})
	}
}

func TestEventReader(t *testing.T) {
	for _, tt := range []struct {
		name, stream string
		want         []testEvent
	}{
		{"empty", "", nil},
		{"data", "data: a\n\ndata: b\n\n", []testEvent{{"", "a"}, {"", "b"}}},
		{"name", "event: x\ndata: a\n\ndata: b\n\n", []testEvent{{"x", "a"}, {"", "b"}}},
		{"name after the data", "data: a\nevent: x\n\n", []testEvent{{"x", "a"}}},
		{"several lines of data", "data: a\ndata:\ndata: b\n\n", []testEvent{{"", "a\n\nb"}}},
		{"CRLF", "event: x\r\ndata: a\r\n\r\ndata: b\r\n\r\n", []testEvent{{"x", "a"}, {"", "b"}}},
		{"only the last CR belongs to the line end", "data: a\r\r\n\n", []testEvent{{"", "a\r"}}},
		{"only one space is removed", "data:a\n\ndata:  b\n\n", []testEvent{{"", "a"}, {"", " b"}}},
		{"colons in data", "data: a: b\n\n", []testEvent{{"", "a: b"}}},
		{"empty data", "data\n\ndata:\n\n", []testEvent{{"", ""}, {"", ""}}},
		{"comments and unknown fields", ": ping\n\nid: 1\nretry: 5\ndata: a\n: x\nother\n\n",
			[]testEvent{{"", "a"}}},
		{"event without data", "event: x\n\ndata: a\n\n", []testEvent{{"", "a"}}},
		{"empty lines", "\n\n\ndata: a\n\n\n\n", []testEvent{{"", "a"}}},
		{"end within an event", "data: a\n\ndata: b\n", []testEvent{{"", "a"}}},
		{"end within a line", "data: a\n\ndata: b", []testEvent{{"", "a"}}},
		{"line longer than the buffer", "data: " + strings.Repeat("x", 100_000) + "\n\n",
			[]testEvent{{"", strings.Repeat("x", 100_000)}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tt.stream),
				iotest.OneByteReader(strings.NewReader(tt.stream))} {
				got, err := readEvents(r)
				if diff := cmp.Diff(tt.want, got); diff != "" || !errors.Is(err, io.EOF) {
					t.Errorf("%v, events (-want +got):\n%s", err, diff)
				}
			}
		})
	}
}

func TestEventReaderIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, stream := range map[string]string{
		"line":    "data: " + strings.Repeat(long, 17),
		"comment": ": " + strings.Repeat(long, 17),
		"event":   strings.Repeat("data: "+long+"\n", 17),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := readEvents(strings.NewReader(stream + "\n\n")); !errors.Is(err,
				errTooBig) || len(got) > 0 {
				t.Errorf("%d events and %v, want %v", len(got), err, errTooBig)
			}
		})
	}
}

// FuzzEventReader compares the reader with a simple one that has the whole stream at once.
func FuzzEventReader(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "event: x\r\ndata: a\r\ndata:b\r\n\r\n",
		": c\ndata\n\n\nid: 1\n", "data: a\r\r\n\n", "data"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		want := splitEvents(stream)
		for _, r := range []io.Reader{strings.NewReader(stream),
			iotest.OneByteReader(strings.NewReader(stream))} {
			got, err := readEvents(r)
			if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, io.EOF) {
				t.Errorf("%v, events (-want +got):\n%s", err, diff)
			}
		}
	})
}

func splitEvents(stream string) (events []testEvent) {
	lines := strings.Split(stream, "\n")
	name, data := "", []string(nil)
	for _, line := range lines[:len(lines)-1] {
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\r"), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case strings.TrimSuffix(line, "\r") == "":
			if data != nil {
				events = append(events, testEvent{name, strings.Join(data, "\n")})
			}
			name, data = "", nil
		case field == "event":
			name = value
		case field == "data":
			data = append(data, value)
		}
	}
	return events
}
