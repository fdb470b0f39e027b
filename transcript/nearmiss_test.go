package transcript_test

import (
	"encoding/json"
	"iter"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/transcript"
)

// nearMissList has one near miss per line: kind, format, role, work, text as a JSON string, and
// the line to send.
const (
	nearMissList = "testdata/near-misses.tsv"
	nearMissMin  = 736 // the current number, so that a lost part is noticed
)

// nearMissCase is something that an agent wrote instead of a signal.
type nearMissCase struct {
	kind, text, want string
	format           signalbox.Format
	role             signalbox.Role
	work             string
}

func nearMissCases(t testing.TB) (cases []nearMissCase) {
	data, err := os.ReadFile(nearMissList)
	must.Succeed(t, err)
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 6 {
			t.Fatalf("%d fields: %s", len(f), line)
		}
		c := nearMissCase{kind: f[0], format: signalbox.Format(f[1]), role: signalbox.Role(f[2]),
			work: f[3], want: f[5]}
		if err := json.Unmarshal([]byte(f[4]), &c.text); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		cases = append(cases, c)
	}
	if len(cases) < nearMissMin {
		t.Fatalf("the list has %d near misses, want at least %d", len(cases), nearMissMin)
	}
	return cases
}

// None of the near misses counts, and the advice for each ends with the line to send, which
// counts.
func TestNearMissAdvice(t *testing.T) {
	cases, right := nearMissCases(t), 0
	for _, c := range cases {
		opts := &transcript.Options{Format: c.format}
		said := resolveText(t, []byte(c.text), opts, c.role, c.work)
		if said.Name != signalbox.NameUnknown || said.Passing() {
			t.Errorf("%s: %q counts as %s", c.kind, c.text, said.Name)
		}
		if strings.HasSuffix(said.Detail, ": "+c.want) {
			right++
		} else {
			t.Errorf("%s: %q: advice %q, want %s", c.kind, c.text, said.Detail, c.want)
		}
		opts.Format = signalbox.FormatPlain
		sent := resolveText(t, []byte(c.want), opts, c.role, c.work)
		if sent.Name == signalbox.NameUnknown {
			t.Errorf("%s: the line to send does not count: %s", c.kind, c.want)
		}
	}
	t.Logf("%d of %d near misses get the right advice (%.1f %%)", right, len(cases),
		100*float64(right)/float64(len(cases)))
}

// What NearMiss says does not depend on how the input is cut, and the line to send counts.
func FuzzNearMiss(f *testing.F) {
	for i, c := range nearMissCases(f) {
		f.Add([]byte(c.text), uint8(slices.Index(signalbox.Roles(), c.role)), uint64(i))
	}
	f.Fuzz(func(t *testing.T, text []byte, role uint8, seed uint64) {
		const work = "T1"
		opts := &transcript.Options{Format: signalbox.FormatPlain, Excerpt: 4 << 10}
		r := signalbox.Roles()[int(role)%len(signalbox.Roles())]
		whole, ok := nearMissOf(slices.Values([][]byte{text}), opts, r, work)
		pieces, _ := nearMissOf(slices.Chunk(text, 1+int(seed%100)), opts, r, work)
		if !reflect.DeepEqual(whole, pieces) {
			t.Errorf("it depends on the cuts:\nwhole  %+v\npieces %+v", whole, pieces)
		}
		if !ok {
			return
		}
		if whole.Taken() || whole.Offset < 0 || whole.Offset > int64(len(text)) || whole.Line < 1 ||
			whole.Exit != nil {
			t.Errorf("got %+v", whole)
		}
		row, known := signalbox.LineSignalNamed(whole.Name)
		if !known || row.Argument == signalbox.NameArgument ||
			row.Argument == signalbox.PathArgument {
			return // these may be missing
		}
		_, line, _ := strings.Cut(whole.Detail, ": send the line bare, at column 0: ")
		said := transcript.Resolve(scanWhole(t, []byte(line), opts), r, work)
		if said.Name != whole.Name {
			t.Errorf("the line to send, %q, counts as %s", line, said.Name)
		}
	})
}

func nearMissOf(pieces iter.Seq[[]byte], opts *transcript.Options, role signalbox.Role,
	work string) (signalbox.Signal, bool) {
	s := transcript.NewScanner(opts)
	for piece := range pieces {
		s.Push(piece)
	}
	s.Close()
	return s.NearMiss(role, work)
}

// A near miss has its place in the whole text, although only the end of the text is kept.
func TestNearMissPlace(t *testing.T) {
	before := strings.Repeat("A line of text.\n", 1000)
	for text, want := range map[string]int{ // to the line of the near miss, from the end of before
		"Final signal: READY_FOR_REVIEW: T1\nBye.\n": 1, "\nFinal signal: READY_FOR_REVIEW: T1": 2,
		"```json\n{\"protocol\":\"apm2_agent_exit\",\"version\":\"1\"}\n```\nBye.": 2,
	} {
		all := before + text
		opts := &transcript.Options{Format: signalbox.FormatPlain, Excerpt: 100}
		sig, ok := nearMissOf(slices.Values([][]byte{[]byte(all)}), opts, signalbox.RoleDeveloper,
			"T1")
		at := strings.Index(all, "Final")
		if at < 0 {
			at = strings.Index(all, "{")
		}
		if !ok || sig.Line != 1000+want || sig.Offset != int64(at) {
			t.Errorf("%q: %v, line %d, offset %d, want line %d, offset %d",
				text, ok, sig.Line, sig.Offset, 1000+want, at)
		}
	}
	opts := &transcript.Options{Format: signalbox.FormatPlain, Excerpt: 100}
	early := []byte("Final signal: READY_FOR_REVIEW: T1\n" + before)
	sig, ok := nearMissOf(slices.Values([][]byte{early}), opts, signalbox.RoleDeveloper, "T1")
	if ok {
		t.Errorf("found outside the end of the text: %+v", sig)
	}
}

// A misspelled name must not be nearer to another signal.
func TestNamesAreFarApart(t *testing.T) {
	names := map[string]string{}
	for _, row := range signalbox.LineSignals() {
		name, _, _ := strings.Cut(row.Text, ":")
		for i := range name {
			dropped := name[:i] + name[i+1:]
			if other, known := names[dropped]; known && other != name {
				t.Errorf("%s and %s are two letters apart", name, other)
			}
			names[dropped] = name
		}
	}
}

func resolveText(t *testing.T, text []byte, opts *transcript.Options, role signalbox.Role,
	work string) signalbox.Signal {
	said := transcript.Resolve(scanWhole(t, text, opts), role, work)
	advise(&said, text, opts, role, work)
	return said
}

// advise adds the advice for a turn without a signal, as `scan --resolve` does.
func advise(said *signalbox.Signal, text []byte, opts *transcript.Options, role signalbox.Role,
	work string) {
	if said.Name != signalbox.NameUnknown || said.Refused != "" || said.Detail != "" {
		return
	}
	withEnd := *opts
	withEnd.Excerpt = 4 << 10
	scanner := transcript.NewScanner(&withEnd)
	scanner.Push(text)
	scanner.Close()
	near, _ := scanner.NearMiss(role, work)
	said.Detail = near.Detail
}
