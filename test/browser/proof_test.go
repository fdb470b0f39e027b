package browser_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/ledger"
)

// proofCase is a proof file and a public key, and what the Go verifier says about them.
type proofCase struct {
	class string
	file  []byte
	key   string
}

// verdict returns what the verifiers must agree on: the event and the size of the ledger, or "" if
// the proof is refused.
func (c *proofCase) verdict() string {
	proof, err := ledger.ParseProof(c.file)
	if err != nil {
		return ""
	}
	checkpoint, err := proof.Check(strings.TrimSpace(c.key))
	if err != nil {
		return ""
	}
	e := proof.Event
	return fmt.Sprint(e.Seq, " ", e.Time.Format(signalbox.EventTime), " ", e.Type, " ", e.Work, " ",
		e.Session, " ", e.Actor, " ", string(e.Data), " ", checkpoint.Origin, " ", checkpoint.Size)
}

// forge makes proofs, valid ones and others, with a fixed seed.
type forge struct {
	t               *testing.T
	random          *rand.Rand
	private, public string
	cases           []proofCase
}

func newForge(t *testing.T) *forge {
	t.Helper()
	f := &forge{t: t, random: rand.New(rand.NewPCG(2026, 11))}
	f.private, f.public = f.keys("signalbox.example/browser")
	return f
}

func (f *forge) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(f.random.Uint32())
	}
	return b
}

func (f *forge) keys(name string) (private, public string) {
	f.t.Helper()
	private, public, err := ledger.GenerateKey(bytes.NewReader(f.bytes(64)), name)
	must.Succeed(f.t, err)
	return private, public
}

func (f *forge) add(class string, file []byte, key string) {
	f.cases = append(f.cases, proofCase{class, file, key})
}

// texts are contents that verifiers get wrong.
var texts = []string{"", "T1", "plain text", "Grüße, 世界, 𝄞 and e\u0301", "\u202eright\u2066 to left\u061c\u200e\u200f", "\x00\x01\t\r\n\x1b[2J\x7f\u0085\u009f", `"quoted\" \\ / \n`,
	"\u2028\u2029\ufeff\ufffd\uffff\U0010ffff", "<script>alert(1)</script>",
	strings.Repeat("long ", 2000)}

// events returns the events of a ledger, whose fields have these contents.
func (f *forge) events(n int) []signalbox.Event {
	f.t.Helper()
	var tail ledger.Tail
	events := make([]signalbox.Event, n)
	at := time.Date(2026, 2, 28, 23, 59, 59, 999999990, time.UTC)
	for i := range events {
		pick := func() string { return texts[f.random.IntN(len(texts))] }
		data, err := json.Marshal(map[string]any{"text": pick(),
			"number": json.Number("12345678901234567890.5e3"), "list": []int{i}})
		must.Succeed(f.t, err)
		if i%3 == 0 {
			data = []byte(" {\n\t\"a\" : 9007199254740993, \"a\": \"" + "\u00e4\u202e" + "\" } ")
		}
		at = at.Add(time.Duration(f.random.IntN(20)))
		events[i] = signalbox.Event{Time: at, Type: "T" + pick(), Work: pick(), Session: pick(), Actor: pick(), Data: data}
	}
	tail.Seal(events)
	return events
}

func hashesOf(events []signalbox.Event) iter.Seq2[signalbox.Hash, error] {
	return func(yield func(signalbox.Hash, error) bool) {
		for i := range events {
			if !yield(events[i].Hash, nil) {
				return
			}
		}
	}
}

// proofs returns proofs of the events of a ledger, for a checkpoint of all of them.
func (f *forge) proofs(events []signalbox.Event) (files [][]byte) {
	f.t.Helper()
	var tree ledger.Tree
	for i := range events {
		tree.Append(events[i].Hash)
	}
	origin, _, _ := strings.Cut(f.public, "+")
	signed, err := ledger.Sign(ledger.Checkpoint{Origin: origin, Size: uint64(len(events)),
		Root: tree.Root()}, f.private)
	must.Succeed(f.t, err)
	for i := range events {
		proof, err := ledger.Prove(&events[i], signed, f.public, hashesOf(events))
		must.Succeed(f.t, err)
		files = append(files, proof.Format())
	}
	return files
}

// draft is a proof that is not sealed yet: what the fields say, in the form of a proof file.
type draft struct {
	seq, index                       string
	at, kind, work, session, actor   string
	data                             string
	hashes                           []string
	size, origin, signedBy, checkpnt string
	private                          string
	hash                             string
	unchecked                        bool // the signed root is that of walk
}

// draftOf returns a draft of an event in a ledger of a size, which may be huge: the path has the
// right length, and random hashes.
func (f *forge) draftOf(seq, size uint64) *draft {
	d := &draft{seq: fmt.Sprint(seq), index: fmt.Sprint(seq - 1),
		at: "2026-02-28T12:34:56.000000789Z", kind: "WorkOpened", work: "T1", session: "s-1",
		actor: "ann",
		data:  `{"title":"ä"}`, size: fmt.Sprint(size), private: f.private}
	d.origin, _, _ = strings.Cut(f.public, "+")
	for range pathLength(0, size, seq-1) {
		d.hashes = append(d.hashes, hex.EncodeToString(f.bytes(32)))
	}
	return d
}

// pathLength is how many hashes the path of a leaf has, in the subtree of the leaves low to high.
func pathLength(low, high, leaf uint64) int {
	n := 0
	for ; low+1 < high; n++ {
		k := uint64(1)
		for 2*k < high-low {
			k *= 2
		}
		if leaf < low+k {
			high = low + k
		} else {
			low += k
		}
	}
	return n
}

// root returns the root that a path leads to, in the subtree of the leaves low to high.
func root(leaf tlog.Hash, low, high, at uint64, path []string) tlog.Hash {
	if low+1 >= high || len(path) == 0 {
		return leaf
	}
	var last tlog.Hash
	hex.Decode(last[:], []byte(path[len(path)-1]))
	k := uint64(1)
	for 2*k < high-low {
		k *= 2
	}
	if at < low+k {
		return tlog.NodeHash(root(leaf, low, low+k, at, path[:len(path)-1]), last)
	}
	return tlog.NodeHash(last, root(leaf, low+k, high, at, path[:len(path)-1]))
}

// walk returns the root that a verifier computes which checks neither the index nor the length of
// the path.
func walk(hash tlog.Hash, index, last int64, path []string) tlog.Hash {
	for _, other := range path {
		var h tlog.Hash
		hex.Decode(h[:], []byte(other))
		if index&1 == 1 || index == last {
			hash = tlog.NodeHash(h, hash)
			for index&1 == 0 && index != 0 {
				index, last = index>>1, last>>1
			}
		} else {
			hash = tlog.NodeHash(hash, h)
		}
		index, last = index>>1, last>>1
	}
	return hash
}

// file seals and signs a draft, as far as it makes sense, and writes it in the form of a proof
// file.
func (d *draft) file(t *testing.T) []byte {
	t.Helper()
	prev := strings.Repeat("0", 64)
	seq, _ := strconv.ParseUint(d.seq, 10, 64)
	size, err := strconv.ParseUint(d.size, 10, 63)
	if err != nil {
		size = 0
	}
	b := []byte("signalbox/event/v1\n")
	field := func(content []byte) {
		b = binary.BigEndian.AppendUint64(b, uint64(len(content)))
		b = append(b, content...)
	}
	field(binary.BigEndian.AppendUint64(nil, seq))
	for _, text := range []string{d.at, d.kind, d.work, d.session, d.actor, d.data} {
		field([]byte(text))
	}
	field(make([]byte, 32))
	sum := sha256.Sum256(b)
	if d.hash == "" {
		d.hash = hex.EncodeToString(sum[:])
	}
	if d.checkpnt == "" {
		if d.signedBy == "" {
			d.signedBy = d.origin
		}
		leaf := tlog.Hash(sha256.Sum256(append([]byte{0}, sum[:]...)))
		top := root(leaf, 0, size, seq-1, d.hashes)
		if d.unchecked {
			top = walk(leaf, int64(seq)-1, int64(size)-1, d.hashes)
		}
		text := d.origin + "\n" + d.size + "\n" + base64.StdEncoding.EncodeToString(top[:]) + "\n"
		d.checkpnt = signText(t, text, d.private)
	}
	quoted := func(s string) string { // as in a proof
		p := ledger.Proof{Event: signalbox.Event{Actor: s}}
		_, rest, _ := strings.Cut(string(p.Format()), `"actor": `)
		written, _, _ := strings.Cut(rest, ",\n    \"data\"")
		return written
	}
	hashes := "[]"
	if len(d.hashes) > 0 {
		hashes = "[\n    \"" + strings.Join(d.hashes, "\",\n    \"") + "\"\n  ]"
	}
	return fmt.Appendf(nil,
		"{\n  \"format\": \"signalbox-proof/v1\",\n  \"event\": {\n    \"seq\": %s,\n    \"time\": %s,\n    \"type\": %s,\n    \"work\": %s,\n    \"session\": %s,\n"+
			"    \"actor\": %s,\n    \"data\": %s,\n    \"prev\": \"%s\",\n    \"hash\": \"%s\"\n  },\n  \"index\": %s,\n  \"hashes\": %s,\n  \"checkpoint\": %s\n}\n",
		d.seq, quoted(d.at), quoted(d.kind), quoted(d.work), quoted(d.session), quoted(d.actor),
		quoted(d.data), prev, d.hash, d.index, hashes, quoted(d.checkpnt))
}

// signText signs any text as a note.
func signText(t *testing.T, text, private string) string {
	t.Helper()
	signer, err := note.NewSigner(private)
	must.Succeed(t, err)
	signed, err := note.Sign(&note.Note{Text: text}, signer)
	must.Succeed(t, err)
	return string(signed)
}

// valid adds proofs of ledgers of many sizes, and with numbers that a double does not have.
func (f *forge) valid() (files [][]byte) {
	f.t.Helper()
	vectors, err := os.ReadFile("../../ledger/testdata/vectors.json")
	must.Succeed(f.t, err)
	var key struct {
		Public string `json:"public_key"`
	}
	must.Succeed(f.t, json.Unmarshal(vectors, &key))
	published, err := os.ReadFile("../../ledger/testdata/proof.json")
	must.Succeed(f.t, err)
	f.add("published", published, key.Public)
	for _, n := range []int{1, 2, 3, 4, 5, 7, 8, 13} {
		files = append(files, f.proofs(f.events(n))...)
	}
	for _, numbers := range [][2]uint64{{1<<53 + 1, 1<<53 + 2}, {1<<53 + 3, 1 << 54}, {1, 1 << 59},
		{ledger.MaxEvents, ledger.MaxEvents}, {ledger.MaxEvents/3 + 1, ledger.MaxEvents}} {
		files = append(files, f.draftOf(numbers[0], numbers[1]).file(f.t))
	}
	for _, file := range files {
		f.add("valid", file, f.public)
	}
	return files
}

// edits adds proofs with one edit each: a byte that is flipped, removed, added, doubled or
// replaced, and a part that is missing.
func (f *forge) edits(files [][]byte) {
	const interesting = "\"\\{}[],: \n\t\r019azAZ+/=\x00\x7f\xc3\xa9\xff—"
	for range 1500 {
		file := slices.Clone(files[f.random.IntN(len(files))])
		if len(file) > 6000 && f.random.IntN(4) > 0 {
			continue
		}
		at := f.random.IntN(len(file))
		switch f.random.IntN(7) {
		case 0:
			file[at] ^= 1 << f.random.IntN(8)
			f.add("flipped bit", file, f.public)
		case 1:
			f.add("removed byte", slices.Delete(file, at, at+1), f.public)
		case 2:
			f.add("added byte", slices.Insert(file, at,
				interesting[f.random.IntN(len(interesting))]), f.public)
		case 3:
			file[at] = interesting[f.random.IntN(len(interesting))]
			f.add("replaced byte", file, f.public)
		case 4:
			f.add("truncated", file[:at], f.public)
		case 5:
			end := min(len(file), at+1+f.random.IntN(40))
			f.add("removed part", slices.Delete(file, at, end), f.public)
		case 6:
			f.add("doubled part",
				slices.Insert(file, at, file[at:min(len(file), at+1+f.random.IntN(80))]...),
				f.public)
		}
	}
}

// spellings adds proofs that say the same in another way, and such with more or fewer fields.
func (f *forge) spellings(files [][]byte) {
	for i, file := range files {
		text := string(file)
		lines := strings.SplitAfter(text, "\n")
		var compact, indented bytes.Buffer
		json.Compact(&compact, file)
		json.Indent(&indented, file, "", "\t")
		f.add("compact", compact.Bytes(), f.public)
		f.add("other indentation", indented.Bytes(), f.public)
		f.add("line end", []byte(strings.ReplaceAll(text, "\n", "\r\n")), f.public)
		f.add("byte order mark", []byte("\ufeff"+text), f.public)
		f.add("no line end", []byte(strings.TrimSuffix(text, "\n")), f.public)
		f.add("two", []byte(text+text), f.public)
		f.add("escape", []byte(strings.Replace(text, `"ann"`, `"\u0061nn"`, 1)), f.public)
		f.add("escape", []byte(strings.Replace(text, `\u00`, `\U00`, 1)), f.public)
		f.add("escape", []byte(strings.Replace(text, `\u001b`, `\u001B`, 1)), f.public)
		f.add("escape", []byte(strings.Replace(text, `\n`, `\u000a`, 1)), f.public)
		f.add("escape", []byte(strings.Replace(text, `/`, `\/`, 1)), f.public)
		f.add("escape", []byte(strings.Replace(text, `: "`, `: "\ud800`, 1+i%9)), f.public)
		f.add("extra field",
			[]byte(strings.Replace(text, "  \"index\"", "  \"more\": 1,\n  \"index\"", 1)),
			f.public)
		f.add("other case", []byte(strings.Replace(text, `"type"`, `"Type"`, 1)), f.public)
		f.add("other format", []byte(strings.Replace(text, "proof/v1", "proof/v2", 1)), f.public)
		f.add("null", []byte(strings.Replace(text, `"hashes": [`, `"hashes": null, "x": [`, 1)),
			f.public)
		for n, line := range lines { // each field is missing, twice, or in another place
			f.add("missing line",
				[]byte(strings.Join(slices.Delete(slices.Clone(lines), n, n+1), "")), f.public)
			if i%4 == 0 {
				f.add("doubled line",
					[]byte(strings.Join(slices.Insert(slices.Clone(lines), n, line), "")), f.public)
				swapped := slices.Clone(lines)
				other := f.random.IntN(len(lines))
				swapped[n], swapped[other] = swapped[other], swapped[n]
				f.add("swapped lines", []byte(strings.Join(swapped, "")), f.public)
			}
		}
	}
	for _, n := range []string{"0", "00", "01", "-1", "1.0", "1e0", "1E0", "+1", "9007199254740993",
		"18446744073709551615", "18446744073709551616", "99999999999999999999999", "\"1\"", "null",
		"true"} {
		f.add("number", bytes.Replace(files[0], []byte(`"seq": 1,`), []byte(`"seq": `+n+`,`), 1),
			f.public)
		f.add("number", bytes.Replace(files[0], []byte(`"index": 0,`), []byte(`"index": `+n+`,`),
			1), f.public)
	}
	for _, other := range []string{"", "null", "[]", "{}", "0", "\"\"", "{\n}\n",
		strings.Repeat("[", 100000), strings.Repeat(`{"event":`, 10000)} {
		f.add("no proof", []byte(other), f.public)
	}
}

// drafts adds proofs whose hashes and signatures are right, but which say something that a ledger
// never does.
func (f *forge) drafts() {
	change := func(class string, seq, size uint64, edit func(*draft)) {
		d := f.draftOf(seq, size)
		edit(d)
		f.add(class, d.file(f.t), f.public)
	}
	change("draft", 3, 9, func(*draft) {})
	for _, at := range []string{"0000-01-01T00:00:00.000000000Z", "0001-01-01T00:00:00.000000000Z",
		"9999-12-31T23:59:59.999999999Z", "2026-02-29T00:00:00.000000000Z",
		"2024-02-29T00:00:00.000000000Z",
		"2000-02-29T00:00:00.000000000Z", "1900-02-29T00:00:00.000000000Z",
		"2026-13-01T00:00:00.000000000Z", "2026-00-01T00:00:00.000000000Z",
		"2026-04-31T00:00:00.000000000Z",
		"2026-04-00T00:00:00.000000000Z", "2026-04-30T24:00:00.000000000Z",
		"2026-04-30T23:60:00.000000000Z", "2016-12-31T23:59:60.000000000Z",
		"2026-04-30T23:00:00.00000000Z",
		"2026-04-30T23:00:00,000000000Z", "2026-04-30T23:00:00.000000000+00:00",
		"2026-04-30 23:00:00.000000000Z", "2026-04-30T23:00:00Z", "",
		"٢٠٢٦-04-30T23:00:00.000000000Z"} {
		change("time", 3, 9, func(d *draft) { d.at = at })
	}
	for _, size := range []string{"0", "1", "2", "3", "8", "08", "+8", "8 ", "8.0",
		"1152921504606846975", "1152921504606846976", "9223372036854775808", "18446744073709551616",
		"-8", "0x8", ""} {
		change("size", 3, 8, func(d *draft) { d.size = size })
	}
	// with paths of the right length
	for _, size := range []uint64{1<<60 - 1, 1 << 60, 1<<60 + 1, 1 << 61, 1<<62 + 5} {
		change("size", 3, size, func(*draft) {})
	}
	for _, text := range texts {
		change("text", 3, 9,
			func(d *draft) { d.kind, d.work, d.session, d.actor, d.data = text, text, text, text, text })
	}
	change("empty path", 1, 1, func(*draft) {})
	change("long path", 1, 1, func(d *draft) { d.hashes = []string{strings.Repeat("ab", 32)} })
	for n := range 5 {
		change("short path", 3, 9, func(d *draft) { d.hashes = d.hashes[:min(n, len(d.hashes)-1)] })
		change("long path", 3, 9,
			func(d *draft) { d.file(f.t); d.hashes = append(d.hashes, strings.Repeat("ab", 32)) })
	}
	// The signed root is the one that a verifier computes which does not check the number of the
	// event or the length of the path.
	for _, numbers := range [][2]uint64{{0, 1}, {0, 2}, {0, 9}, {2, 1}, {3, 2}, {10, 9}, {11, 9},
		{12, 8}, {1 << 40, 9}, {1, 1}, {3, 9}, {9, 9}} {
		for n := range 7 {
			change("unchecked", numbers[0], numbers[1], func(d *draft) {
				d.unchecked, d.hashes = true, nil
				for range n {
					d.hashes = append(d.hashes, hex.EncodeToString(f.bytes(32)))
				}
			})
		}
	}
	change("upper case hash", 3, 9,
		func(d *draft) { d.file(f.t); d.hashes[0] = strings.ToUpper(d.hashes[0]) })
	change("short hash", 3, 9, func(d *draft) { d.file(f.t); d.hashes[0] = d.hashes[0][:62] })
	change("zero", 0, 9, func(d *draft) { d.hashes = nil })
	change("beyond the end", 10, 9, func(*draft) {})
	change("huge", 1<<63+1, 1<<59, func(d *draft) { d.hashes = d.hashes[:0] })
	change("other origin", 3, 9, func(d *draft) { d.origin = "signalbox.example/other" })
	change("other hash", 3, 9, func(d *draft) { d.hash = strings.Repeat("ab", 32) })

	// Checkpoints that are signed, but not written as signalbox writes them.
	good := f.draftOf(3, 9)
	good.file(f.t)
	text, _, _ := strings.Cut(good.checkpnt, "\n\n")
	text += "\n"
	checkpoint := func(class, signed string) {
		d := *good
		d.checkpnt = signed
		f.add(class, d.file(f.t), f.public)
	}
	checkpoint("signed", signText(f.t, text, f.private))
	for _, other := range []string{text + "extension\n", "\n" + text,
		strings.Replace(text, "\n9\n", "\n09\n", 1), strings.Replace(text, "=\n", "\n", 1),
		strings.Replace(text, "=\n", "= \n", 1),
		strings.Replace(text, "\n9\n", "\n9\n\n", 1), strings.ReplaceAll(text, "\n", " \n"),
		strings.Replace(text, "\n9\n", "\n+9\n", 1), strings.ToUpper(text[:1]) + text[1:]} {
		checkpoint("signed otherwise", signText(f.t, other, f.private))
	}
	for _, c := range "AQgwBRhx" { // unused bits of the root
		i := strings.LastIndex(text, "=\n")
		checkpoint("spare bits", signText(f.t, text[:i-1]+string(c)+text[i:], f.private))
	}
	signed := signText(f.t, text, f.private)
	otherPrivate, otherPublic := f.keys("signalbox.example/browser")
	otherName, otherNamePublic := f.keys("signalbox.example/else")
	_, line, _ := strings.Cut(signed, "\n\n")
	_, otherLine, _ := strings.Cut(signText(f.t, text, otherPrivate), "\n\n")
	_, nameLine, _ := strings.Cut(signText(f.t, text, otherName), "\n\n")
	for class, lines := range map[string]string{"no signature": "", "twice": line + line,
		"witness": line + nameLine, "witness first": nameLine + line, "only another key": otherLine,
		"only another name": nameLine,
		"hyphen":            strings.Replace(line, "—", "-", 1),
		"two spaces": strings.Replace(line, " ", "  ",
			1), "no line feed": strings.TrimSuffix(line, "\n"),
		"carriage return": strings.Replace(line, "\n", "\r\n", 1)} {
		checkpoint(class, text+"\n"+lines)
	}
	for range 40 {
		raw, err := base64.StdEncoding.DecodeString(
			strings.TrimSpace(line[strings.LastIndex(line, " "):]))
		must.Succeed(f.t, err)
		raw[f.random.IntN(len(raw))] ^= 1 << f.random.IntN(8)
		checkpoint("signature bit", text+"\n"+
			line[:strings.LastIndex(line, " ")+1]+base64.StdEncoding.EncodeToString(raw)+"\n")
	}
	for _, n := range []int{3, 4, 5, 36, 67, 69, 100} {
		raw := append(slices.Clone(idOf(f.public)), make([]byte, 100)...)[:n]
		checkpoint("signature length", text+"\n"+
			line[:strings.LastIndex(line, " ")+1]+base64.StdEncoding.EncodeToString(raw)+"\n")
	}
	valid := good.file(f.t)
	f.add("other key", valid, otherPublic)
	f.add("other name", valid, otherNamePublic)
	f.keyForms(valid)
	f.signatures(text, good)
}

func idOf(public string) []byte {
	id, _ := hex.DecodeString(strings.Split(public, "+")[1])
	return id
}

// keyForms adds a valid proof with ways to write its key.
func (f *forge) keyForms(valid []byte) {
	name, rest, _ := strings.Cut(f.public, "+")
	id, key, _ := strings.Cut(rest, "+")
	raw, err := base64.StdEncoding.DecodeString(key)
	must.Succeed(f.t, err)
	for _, public := range []string{f.public + "\n", " \t" + f.public + "\r\n\u00a0\u3000\u0085",
		"\ufeff" + f.public, name + "+" + strings.ToUpper(id) + "+" + key, name + "+" + id + "+" +
			key[:20] + "\n" + key[20:],
		name + "+" + id + "+" + key[:20] + " " + key[20:], name + "+" + id + "+" +
			strings.TrimRight(key, "="), name + "+" + id + "+" + key + "=", name + "+" + id + "+" +
			key + "+", name + "++" + key, name + "+" + id,
		name, "", "+" + id + "+" + key, "+" + f.public, name + "x+" + id + "+" + key, name + " +" +
			id + "+" + key, name + "+" + id[1:] + "+" + key, name + "+0x" + id[2:] + "+" + key,
		name + "+" + id + "0+" + key,
		f.public + f.public, f.private, strings.ReplaceAll(f.public, "+", "\uff0b"), "\xff" +
			f.public,
		withKey(name, raw[:32]), withKey(name, append(raw, 0)),
		withKey(name, append([]byte{2}, raw[1:]...)), withKey(name, nil),
		withKey("a\x01b", raw), withKey("\ufeffname", raw), withKey("a\u2028b", raw)} {
		f.add("key form", valid, public)
	}
	for range 60 {
		damaged := []byte(f.public)
		damaged[f.random.IntN(len(damaged))] = byte(f.random.IntN(95) + 32)
		f.add("key damaged", valid, string(damaged))
	}
}

// withKey returns a public key with a right id.
func withKey(name string, key []byte) string {
	sum := sha256.Sum256(append([]byte(name+"\n"), key...))
	return fmt.Sprintf("%s+%x+%s", name, sum[:4], base64.StdEncoding.EncodeToString(key))
}

// signatures adds signatures that verifiers of Ed25519 disagree about.
func (f *forge) signatures(text string, good *draft) {
	name, _, _ := strings.Cut(f.public, "+")
	add := func(class string, point, signature []byte) {
		public := withKey(name, append([]byte{1}, point...))
		d := *good
		d.checkpnt = text + "\n— " + name + " " +
			base64.StdEncoding.EncodeToString(append(idOf(public), signature...)) + "\n"
		f.add(class, d.file(f.t), public)
	}
	private := ed25519.NewKeyFromSeed(f.bytes(32))
	point := []byte(private.Public().(ed25519.PublicKey))
	signature := ed25519.Sign(private, []byte(text))
	add("signature", point, signature)
	order, _ := new(big.Int).SetString(
		"7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	for _, n := range []int64{1, 2, 8, 15} { // S plus a multiple of the order
		s := new(big.Int).SetBytes(reversed(signature[32:]))
		s.Add(s, new(big.Int).Mul(order, big.NewInt(n)))
		if s.BitLen() <= 256 {
			add("large S", point,
				append(slices.Clone(signature[:32]), reversed(s.FillBytes(make([]byte, 32)))...))
		}
	}
	// Points of small order, also in encodings that are not the shortest, and points that do not
	// exist.
	identity := append([]byte{1}, make([]byte, 31)...)
	minusOne := append(append([]byte{0xec}, bytes.Repeat([]byte{0xff}, 30)...), 0x7f)
	beyond := append(append([]byte{0xee}, bytes.Repeat([]byte{0xff}, 30)...), 0x7f)
	zero := make([]byte, 32)
	for _, small := range [][]byte{identity, minusOne, beyond, zero, bytes.Repeat([]byte{0xff}, 32),
		append([]byte{2}, make([]byte, 31)...), append([]byte{7}, make([]byte, 31)...)} {
		for _, sign := range []byte{0, 0x80} {
			point := slices.Clone(small)
			point[31] |= sign
			for _, r := range [][]byte{identity, minusOne, beyond, zero, point} {
				add("small order", point, append(slices.Clone(r), make([]byte, 32)...))
			}
		}
	}
	for range 10 {
		add("random", f.bytes(32), f.bytes(64))
	}
}

func reversed(b []byte) []byte {
	b = slices.Clone(b)
	slices.Reverse(b)
	return b
}

// checkAll is a script that checks proofs, and returns what the verdict of the Go verifier says.
const checkAll = `((cases) => Promise.all(cases.map(async ([file, key]) => {
	const text = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
	try {
		const { event: e, checkpoint: c } = await checkProof(text(file), new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(text(key)));
		return [e.seq, e.time, e.type, e.work, e.session, e.actor, e.data, c.origin, c.size].join(" ");
	} catch (err) {
		if (err.constructor !== Error && !(err instanceof TypeError && err.message.includes("decode"))) return "failed: " + err.stack;
		return "";
	}
})))`

// TestProofVerifiers compares the verifier in the page with that of signalbox ledger check, on
// valid proofs and on thousands of others.
func TestProofVerifiers(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	files := f.valid()
	f.edits(files)
	f.spellings(files)
	f.drafts()
	p := newTab(t, onSharedStage(t))
	p.open("/verify")
	accepted, refused := map[string]int{}, map[string]int{}
	const atOnce = 200
	for part := range slices.Chunk(f.cases, atOnce) {
		pairs := [][2]string{}
		for _, c := range part {
			pairs = append(pairs, [2]string{base64.StdEncoding.EncodeToString(c.file),
				base64.StdEncoding.EncodeToString([]byte(c.key))})
		}
		argument, err := json.Marshal(pairs)
		must.Succeed(t, err)
		for i, got := range eval[[]string](p, checkAll+"("+string(argument)+")") {
			want := part[i].verdict()
			if got != want {
				t.Errorf("%s, with the key %q: the page says %.300q, ledger check %.300q:\n%.2000s",
					part[i].class, part[i].key, got, want, part[i].file)
			}
			if want == "" {
				refused[part[i].class]++
			} else {
				accepted[part[i].class]++
			}
		}
	}
	p.noFaults(t)
	t.Logf("%d proofs; accepted: %v; refused: %v", len(f.cases), accepted, refused)
	for _, class := range []string{"published", "valid", "draft", "time", "size", "text",
		"empty path", "signed", "key form", "signature", "small order", "unchecked"} {
		if accepted[class] == 0 {
			t.Errorf("no proof of the class %q is accepted", class)
		}
	}
	for _, class := range []string{"flipped bit", "removed byte", "truncated", "missing line",
		"extra field", "time", "size", "short path", "long path", "signed otherwise", "witness",
		"other key", "key form", "large S", "small order", "unchecked"} {
		if refused[class] == 0 {
			t.Errorf("no proof of the class %q is refused", class)
		}
	}
}
