package transcript_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/property"
	"signalbox/transcript"
)

const quotableBlock = `<signal type="stuck"/>`

// quotedBlocks returns the offsets of the blocks in a paragraph that are inside code spans, and of
// those that are not. It reads the paragraph as the specification of CommonMark says, with the
// whole paragraph at hand.
func quotedBlocks(paragraph string) (quoted, others []int) {
	runAt := func(i int) int { return len(paragraph[i:]) - len(strings.TrimLeft(paragraph[i:], "`")) }
	for i := 0; i < len(paragraph); {
		switch {
		case paragraph[i] == '\\' && i+1 < len(paragraph) &&
			strings.IndexByte("`\\", paragraph[i+1]) >= 0:
			i += 2
		case paragraph[i] == '`':
			size := runAt(i)
			end := -1
			for k := i + size; k < len(paragraph); {
				next := runAt(k)
				if next == size {
					end = k
					break
				}
				k += max(next, 1)
			}
			if end < 0 {
				i += size
				continue
			}
			for k := i; k < end; k++ {
				if strings.HasPrefix(paragraph[k:], quotableBlock) {
					quoted = append(quoted, k)
				}
			}
			i = end + size
		case strings.HasPrefix(paragraph[i:], quotableBlock):
			others = append(others, i)
			i += len(quotableBlock)
		default:
			i++
		}
	}
	return quoted, others
}

var fenceLine = regexp.MustCompile("(?m)^ {0,3}(```|~~~)")

// Code spans are found as CommonMark defines them, although the text arrives in pieces.
func TestTurnSignalsInCodeSpans(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		fragment := rapid.SampledFrom([]string{"`", "`", "``", "```", "a", " ", "\\", "\n",
			quotableBlock, quotableBlock, "x`y", "``` ", "<", "é"})
		text := "a" + strings.Join(rapid.SliceOfN(fragment, 0, 24).Draw(t, "fragments"), "")
		text = regexp.MustCompile(`\n\s*\n`).ReplaceAllString(text, "\n")
		if fenceLine.MatchString(text) {
			t.Skip("a fence ends the paragraph")
		}
		wantQuoted, wantOthers := quotedBlocks(text)
		var quoted, others []int
		signals, _ := scanOnce([]byte(text), plain)
		for _, s := range signals {
			switch {
			case s.Name != "stuck" || s.Refused == signalbox.ReasonInvalidField:
			case s.Refused == signalbox.ReasonQuoted:
				quoted = append(quoted, int(s.Offset))
			default:
				others = append(others, int(s.Offset))
			}
		}
		if diff := cmp.Diff([][]int{wantQuoted, wantOthers}, [][]int{quoted, others}); diff != "" {
			t.Fatalf("%q: quoted and others (-want +got):\n%s", text, diff)
		}
		checkCuts(t, []byte(text), plain,
			rapid.Uint64().Draw(t, "seed"))
		checkStrip(t, text)
		checkStripCuts(t, text, rapid.IntRange(1, 9).Draw(t, "piece"))
	})
}

func checkStripCuts(t interface{ Errorf(string, ...any) }, text string, size int) {
	var out strings.Builder
	s := transcript.NewStripStream(&out)
	for piece := range slices.Chunk([]byte(text), size) {
		s.Write(piece)
	}
	s.Close()
	if got, want := out.String(), transcript.Strip(text); got != want {
		t.Errorf("%q in pieces of %d becomes %q, whole %q", text, size, got, want)
	}
}

// Where a paragraph ends, so does every span in it.
func TestCodeSpansEndWithTheirParagraph(t *testing.T) {
	for between, same := range map[string]bool{
		"\n": true, "\r\n": true, " \\\n": true, "\nmore\n": true, "\n    indented ": true,
		"\n2024. A year ": true, "\n-no item ": true, "\n+no ": true,
		"\n#no heading ": true, "\n** bold ": true, "\n1.no item ": true, "\n__ ": true,
		"\n*\n": true, "\n1.\n": true, "\n1234567890. ": true, "\n####### ": true,
		"\n\n": false, "\n \t\r\n": false, "\n- ": false, "\n* ": false, "\n+ ": false,
		"\n1. ": false, "\n1) ": false, "\n# ": false, "\n   ###### ": false,
		"\n---\n": false, "\n***\n": false, "\n * * *\n": false, "\n_ _ _\n": false,
		"\n===\n": false, "\n-\n": false, "\n> ": false, "\n>\n": false, "\n```\n```\n": false,
		"\n~~~\n~~~\n": false, "\n#\n": false, "\n- a\n2. ": false,
	} {
		text := "one ` two" + between + quotableBlock + " ` three"
		got := "accepted"
		signals, _ := scanOnce([]byte(text), plain)
		for _, s := range signals {
			if s.Refused == signalbox.ReasonQuoted {
				got = "quoted"
			}
		}
		if want := map[bool]string{true: "quoted", false: "accepted"}[same]; got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
		checkCuts(t, []byte(text), plain, 1)
		checkStrip(t, text)
	}
	for _, text := range []string{ // the first line is a paragraph by itself
		"# a ` b\n" + quotableBlock + " ` c", "- a ` b\n- " + quotableBlock + " ` c",
		"1. a ` b\n2. " + quotableBlock + " ` c",
	} {
		if got := transcript.Strip(text); strings.Contains(got, quotableBlock) {
			t.Errorf("%q: the block is quoted", text)
		}
	}
	for _, text := range []string{"> a ` b\n> " + quotableBlock + " ` c", "> a ` b\nlazy " +
		quotableBlock + " ` c", "- a ` b\n  " + quotableBlock + " ` c"} {
		if got := transcript.Strip(text); !strings.Contains(got, quotableBlock) {
			t.Errorf("%q: the block is not quoted", text)
		}
	}
}

// A StripStream holds back at most MaxTurnBlock bytes and a tag for a block that may be quoted.
func TestDoubtfulBlocksAreBounded(t *testing.T) {
	for _, filler := range []string{"x", "x ", "``", "<", "<signal ", quotableBlock,
		"<signal type=\"x\">", "\\", "é\n", "``` a\n", "` ``\n"} {
		text := "one ` two " +
			quotableBlock + strings.Repeat(filler, 3*transcript.MaxTurnBlock/len(filler))
		var out strings.Builder
		s := transcript.NewStripStream(&out)
		for i := range len(text) {
			s.Write([]byte{text[i]})
			if held := i + 1 - out.Len(); i < transcript.MaxTurnBlock &&
				held > transcript.MaxTurnBlock+len("<signal ") {
				t.Fatalf("%q: %d of %d bytes are held back", filler, held, i+1)
			}
		}
		s.Close()
		if out.String() != transcript.Strip(text) {
			t.Errorf("%q: the stream differs from the whole", filler)
		}
		for seed := range uint64(3) {
			checkCuts(t, []byte(text), plain, seed)
		}
		checkStrip(t, text)
	}
}

// Time is linear: each of these would take hours if a block or a run were looked at once for every
// other.
func TestCodeSpansInLinearTime(t *testing.T) {
	const size = 512 << 10
	var runs strings.Builder
	for n := 1; runs.Len() < size; n = n%2000 + 1 {
		runs.WriteString(strings.Repeat("`", n) + quotableBlock)
	}
	texts := []string{runs.String()}
	for _, unit := range []string{"`" + quotableBlock, "`<signal type=\"x\">", "``a`", "\\`", "`\\",
		"` `` <signal", "> ", "- ", "a\n", "`\n"} {
		texts = append(texts, strings.Repeat(unit, size/len(unit)), "`"+
			strings.Repeat(unit, size/len(unit))+quotableBlock)
	}
	for _, text := range texts {
		scanOnce([]byte(text), plain)
		transcript.Strip(text)
	}
}
