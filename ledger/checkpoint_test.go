package ledger

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

const testOrigin = "signalbox.example/test"

// testKey returns the same key pair each time for the same first byte of its seed.
func testKey(tb testing.TB, seed byte, origin string) (private, public string) {
	tb.Helper()
	private, public, err := GenerateKey(bytes.NewReader(append([]byte{seed}, make([]byte, 31)...)),
		origin)
	must.Succeed(tb, err)
	return private, public
}

func signed(tb testing.TB, c Checkpoint, private string) []byte {
	tb.Helper()
	text, err := Sign(c, private)
	must.Succeed(tb, err)
	return text
}

// signText signs any text, whether it is a checkpoint or not.
func signText(tb testing.TB, text, private string) []byte {
	tb.Helper()
	signer, err := note.NewSigner(private)
	must.Succeed(tb, err)
	message, err := note.Sign(&note.Note{Text: text}, signer)
	must.Succeed(tb, err)
	return message
}

func codeOf(err error) signalbox.Code {
	classed := (*signalbox.Error)(nil)
	if !errors.As(err, &classed) {
		return 0
	}
	return classed.Code
}

func TestKeys(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		seed := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "seed")
		private, public, err := GenerateKey(bytes.NewReader(seed), testOrigin)
		must.Succeed(t, err)
		if derived, err := PublicKey(private); err != nil || derived != public {
			t.Fatalf("PublicKey = %q, %v, want %q", derived, err, public)
		}
		if name, err := KeyName(public); err != nil || name != testOrigin {
			t.Fatalf("KeyName = %q, %v", name, err)
		}
	})
}

func TestBadKeys(t *testing.T) {
	private, public := testKey(t, 1, testOrigin)
	for _, origin := range []string{"", "a b", "a+b", "a\nb", "a\x1bb", "\xff", "a\u202eb",
		"a\u0085b"} {
		if _, _, err := GenerateKey(rand.Reader, origin); codeOf(err) != signalbox.CodeUsage {
			t.Errorf("origin %q: %v", origin, err)
		}
	}
	if _, _, err := GenerateKey(strings.NewReader("short"), testOrigin); err == nil {
		t.Error("a key was made from five random bytes")
	}
	for _, bad := range []string{"", public, private[:len(private)-4],
		strings.Replace(private, "/test", "/best", 1)} {
		_, err := PublicKey(bad)
		if codeOf(err) != signalbox.CodeFailed {
			t.Errorf("private key %q: %v", bad, err)
		}
		if _, err := Sign(Checkpoint{Origin: testOrigin},
			bad); codeOf(err) != signalbox.CodeFailed {
			t.Errorf("sign with %q: %v", bad, err)
		}
		if bad != "" && err != nil && strings.Contains(err.Error(), bad[len(bad)-8:]) {
			t.Errorf("the error shows the key: %v", err)
		}
	}
	for _, bad := range []string{"", private, public[:len(public)-4],
		strings.Replace(public, "/test", "/best", 1)} {
		if _, err := KeyName(bad); codeOf(err) != signalbox.CodeUsage {
			t.Errorf("public key %q: %v", bad, err)
		}
		if _, err := OpenCheckpoint(nil, bad); codeOf(err) != signalbox.CodeUsage {
			t.Errorf("open with %q: %v", bad, err)
		}
	}
}

func TestCheckpoint(t *testing.T) {
	private, public := testKey(t, 1, testOrigin)
	for _, want := range []Checkpoint{
		{testOrigin, 0, (&Tree{}).Root()}, {testOrigin, 1, signalbox.Hash{1}},
		{testOrigin, MaxEvents, signalbox.Hash{}},
	} {
		got, err := OpenCheckpoint(signed(t, want, private), public)
		if err != nil || got != want {
			t.Errorf("%+v came back as %+v: %v", want, got, err)
		}
	}
	if _, err := Sign(Checkpoint{Origin: "signalbox.example/other"}, private); err == nil {
		t.Error("signed for another origin")
	}
}

func TestOpenCheckpointRefuses(t *testing.T) {
	private, public := testKey(t, 1, testOrigin)
	otherPrivate, otherPublic := testKey(t, 2, testOrigin)
	witness, _ := testKey(t, 3, "witness.example")
	c := Checkpoint{testOrigin, 12, signalbox.Hash{1, 2, 3}}
	good := string(signed(t, c, private))
	text, signature, _ := strings.Cut(good, "\n\n")
	foreign := signText(t, c.String(), witness)
	_, witnessLine, _ := strings.Cut(string(foreign), "\n\n")
	_, otherLine, _ := strings.Cut(string(signed(t, c, otherPrivate)), "\n\n")
	lines := strings.Split(text, "\n")

	for name, bad := range map[string]string{
		"empty":           "",
		"not signed":      text + "\n",
		"cut":             good[:len(good)-1],
		"line end added":  good + "\n",
		"CRLF":            strings.ReplaceAll(good, "\n", "\r\n"),
		"twice":           good + signature,
		"witness":         good + witnessLine,
		"witness first":   text + "\n\n" + witnessLine + signature,
		"witness only":    string(foreign),
		"other key":       text + "\n\n" + otherLine,
		"both keys":       good + otherLine,
		"other signature": strings.Replace(good, signature[30:34], "AAAA", 1),
		"spare bits": strings.TrimSuffix(good,
			"=\n")[:len(good)-3] + nextLetter(good[len(good)-3]) + "=\n",
		"other size":     strings.Replace(good, "12", "13", 1),
		"extension line": string(signText(t, c.String()+"extension\n", private)),
		"empty line":     string(signText(t, c.String()+"\n", private)),
		"leading zero":   string(signText(t, lines[0]+"\n012\n"+lines[2]+"\n", private)),
		"plus":           string(signText(t, lines[0]+"\n+12\n"+lines[2]+"\n", private)),
		"negative":       string(signText(t, lines[0]+"\n-12\n"+lines[2]+"\n", private)),
		"too large": string(signText(t, lines[0]+"\n1152921504606846976\n"+lines[2]+"\n",
			private)),
		"space":      string(signText(t, lines[0]+"\n12 \n"+lines[2]+"\n", private)),
		"no root":    string(signText(t, lines[0]+"\n12\n", private)),
		"empty root": string(signText(t, lines[0]+"\n12\n\n", private)),
		"short root": string(signText(t, lines[0]+"\n12\nAAAA\n", private)),
		"spare bits in root": string(signText(t, lines[0]+"\n12\n"+
			lines[2][:42]+nextLetter(lines[2][42])+"=\n", private)),
		"other origin": string(signText(t, strings.Replace(c.String(), "/test", "/best", 1),
			private)),
	} {
		if bad == good {
			t.Errorf("%s: nothing was changed", name)
		}
		if got, err := OpenCheckpoint([]byte(bad),
			public); codeOf(err) != signalbox.CodeUnverified {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	extended := signText(t, c.String()+"extension\n", private)
	if _, err := OpenCheckpoint(extended, public); err == nil ||
		!strings.Contains(err.Error(), "it has 4 lines") {
		t.Errorf("extension line: %v", err)
	}
	if _, err := OpenCheckpoint([]byte(good),
		otherPublic); codeOf(err) != signalbox.CodeUnverified {
		t.Errorf("opened with another key: %v", err)
	}
}

// nextLetter changes the lowest bit of a base64 letter: before padding, one that carries nothing.
func nextLetter(c byte) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	i := strings.IndexByte(alphabet, c) ^ 1
	return alphabet[i : i+1]
}

func FuzzOpenCheckpoint(f *testing.F) {
	private, public := testKey(f, 1, testOrigin)
	c := Checkpoint{testOrigin, 12, signalbox.Hash{1, 2, 3}}
	good := signed(f, c, private)
	f.Add(good)
	f.Add(append(good, good...))
	f.Add([]byte(c.String()))
	f.Add([]byte(testOrigin + "\n012\n" + strings.Repeat("A", 43) + "=\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		notes := [][]byte{data}
		// a fuzzer cannot forge a signature, so here is one
		if bytes.HasSuffix(data, []byte("\n")) {
			notes = append(notes, signText(t, string(data), private))
		}
		for _, note := range notes {
			c, err := OpenCheckpoint(note, public)
			if err == nil && !bytes.Equal(signed(t, c, private), note) {
				t.Fatalf("%q is taken for %+v", note, c)
			}
		}
	})
}
