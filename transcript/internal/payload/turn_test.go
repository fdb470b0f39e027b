package payload

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/property"
)

func TestTurnSeedExample(t *testing.T) {
	raw := `<signal type="need_turn">
  <reason>search_code failed, trying vault search instead</reason>
  <confidence>0.8</confidence>
</signal>`
	got, err := ReadTurn([]byte(raw))
	want := Turn{Type: "need_turn", Signal: signalbox.TurnSignal{
		Confidence: 0.8,
		Fields:     map[string]any{"reason": "search_code failed, trying vault search instead"},
		Raw:        raw,
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("ReadTurn: %v (-want +got):\n%s", err, diff)
	}
}

func TestTurnTypes(t *testing.T) {
	tests := []struct {
		name, inner string
		want        map[string]any
	}{
		{"need_turn", `<reason>r</reason><expected_turns>10</expected_turns>`,
			map[string]any{"reason": "r", "expected_turns": 10}},
		{"context_sufficient",
			`<sources_found>3</sources_found><source_types>["code", "vault"]</source_types>`,
			map[string]any{"sources_found": 3, "source_types": []any{"code", "vault"}}},
		{"stuck", `<attempted>["a"]</attempted><blocker>b</blocker><suggestions>["c"]</suggestions>`,
			map[string]any{"attempted": []any{"a"}, "blocker": "b", "suggestions": []any{"c"}}},
		{"need_capability", `<capability>c</capability><reason>r</reason><workaround>w</workaround>`,
			map[string]any{"capability": "c", "reason": "r", "workaround": "w"}},
		{"partial_answer", `<missing>m</missing><caveat></caveat>`,
			map[string]any{"missing": "m", "caveat": ""}},
		{"delegation_recommended",
			`<reason>r</reason><scope>s</scope><estimated_tokens>5000</estimated_tokens><subagent_type>x</subagent_type>`,
			map[string]any{"reason": "r", "scope": "s", "estimated_tokens": "5000",
				"subagent_type": "x"}},
	}
	var names []string
	for _, tt := range tests {
		names = append(names, tt.name)
		t.Run(tt.name, func(t *testing.T) {
			got := mustReadTurn(t, `<signal type="`+tt.name+`">`+tt.inner+`</signal>`)
			if diff := cmp.Diff(tt.want, got.Signal.Fields); diff != "" || got.Type != tt.name {
				t.Errorf("type %s, fields (-want +got):\n%s", got.Type, diff)
			}
			if got.Problems != nil || got.Signal.Confidence != 0.5 {
				t.Errorf("problems %q, confidence %v", got.Problems, got.Signal.Confidence)
			}
		})
	}
	var table []string
	for _, typ := range TurnTypes() {
		table = append(table, typ.Name)
	}
	if diff := cmp.Diff(names, table); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(signalbox.TurnTypes(), table); diff != "" {
		t.Errorf("table (-vocabulary +got):\n%s", diff)
	}
}

func TestTurnOpeningTag(t *testing.T) {
	tests := []struct {
		opener  string
		typ     string
		key     string
		problem string // "" if the block is valid
	}{
		{`<signal type="stuck">`, "stuck", "", ""},
		{`<signal type='stuck'>`, "stuck", "", ""},
		{`<SIGNAL type="stuck">`, "stuck", "", ""},
		{"<SigNal\n\ttype = \"stuck\"\r\n>", "stuck", "", ""},
		{`<signal key='4f"2a' type="stuck">`, "stuck", `4f"2a`, ""},
		{`<signal type="stuck" key="a&amp;b>c">`, "stuck", "a&b>c", ""},
		{`<signal x="/>" type="stuck">`, "stuck", "", ""},
		{`<signal type="stuck"key="k">`, "stuck", "k", ""},
		{`<signal type=" stuck ">`, "stuck", "", ""},
		{`<signal type="no_such">`, "no_such", "", ""},
		{`<signal type="STUCK">`, "STUCK", "", ""},

		{`<signal>`, "", "", "no type"},
		{`<signal key="type">`, "", "", "no type"},
		{`<signal type="">`, "", "", "no type"},
		{`<signal type="  ">`, "", "", "no type"},
		{`<signal TYPE="stuck">`, "", "", "no type"},
		{`<signal type=stuck>`, "", "", "in quotes"},
		{`<signal type>`, "", "", "in quotes"},
		{`<signal type=>`, "", "", "in quotes"},
		{`<signal type="stuck" open>`, "", "", "in quotes"},
		{`<signal type=don't>`, "", "", "in quotes"},
		{`<signal type="stuck" type="stuck">`, "", "", "repeated"},
		{`<signal type="stuck" key='a' key="b">`, "", "", "repeated"},
		{`<signal type="stuck" / >`, "", "", "stray"},
		{`<signal type="stuck" ="x">`, "", "", "stray"},
		{`<signal type="stuck" "x">`, "", "", "stray"},
		{`<signal type="stuck" <b>`, "", "", "stray"},
		{`<signal type="stuck>`, "", "", "not closed"},
		{`<signal type='stuck">`, "", "", "not closed"},
	}
	for _, tt := range tests {
		t.Run(tt.opener, func(t *testing.T) {
			for _, raw := range []string{tt.opener + "</signal>",
				strings.TrimSuffix(tt.opener, ">") + "/>"} {
				got, err := ReadTurn([]byte(raw))
				if tt.problem != "" {
					if err == nil || !strings.Contains(err.Error(), tt.problem) || got.Type != "" {
						t.Errorf("ReadTurn(%s) = %v, error %v, want one with %q", raw, got, err,
							tt.problem)
					}
					continue
				}
				if err != nil || got.Type != tt.typ || got.Key != tt.key || got.Signal.Raw != raw ||
					len(got.Signal.Fields) != 0 {
					t.Errorf("ReadTurn(%s) = %+v, error %v", raw, got, err)
				}
			}
		})
	}
}

func TestTurnErrors(t *testing.T) {
	for _, raw := range []string{"", "<", "<signal", "<signals type='stuck'></signal>",
		"signal type='stuck'/>", " <signal type='stuck'/>",
		"<signal type='stuck'>", "<signal type='stuck'></signal", "<signal type='stuck'></signals>",
		"<signal type='stuck'></signal>x",
		"<signal type='stuck'/>x", "<signal type='stuck'/></signal>",
		"<signal type='stuck'></ signal>"} {
		if got, err := ReadTurn([]byte(raw)); err == nil {
			t.Errorf("ReadTurn(%q) = %+v", raw, got)
		}
	}
	mustReadTurn(t, "<signal type='stuck'></SIGNAL \n>")
}

func TestOpeningEnd(t *testing.T) {
	for _, opener := range []string{`<signal>`, `<signal/>`, `<SIGNAL type="a">`,
		`<signal type="a>b">`, `<signal type='a">"b'>`, `<signal type = "/>" >`,
		`<signal don't>`, `<signal type=don't>`, `<signal a="b"">`, "<signal\n>"} {
		b := []byte(opener + `rest="x">`)
		if got := openingEnd(b); got != len(opener) {
			t.Errorf("openingEnd(%s) = %d, want %d", b, got, len(opener))
		}
		for n := len("<signal"); n < len(opener); n++ {
			if got := openingEnd(b[:n]); got != -1 {
				t.Errorf("openingEnd(%s) = %d, want -1", b[:n], got)
			}
		}
	}
}

func TestTurnFields(t *testing.T) {
	tests := []struct {
		name, inner string
		want        map[string]any
	}{
		{"none", "just text", map[string]any{}},
		{"trimmed", "<a> \n x y\t</a>", map[string]any{"a": "x y"}},
		{"closer with space", "<a>x</a \n>", map[string]any{"a": "x"}},
		{"names", "<A_9>x</A_9><é>y</é><a-b>z</a-b><>w</>", map[string]any{"A_9": "x"}},
		{"names have case", "<Reason>x</reason>y</Reason>",
			map[string]any{"Reason": "x</reason>y"}},
		{"openers have no attributes", `<a b="c">x</a><d >y</d>`, map[string]any{}},
		{"last one wins", "<reason>x</reason><reason>y</reason>", map[string]any{"reason": "y"}},
		{"other brackets are text", "<reason>if a < b && b > c, use <T> or </T> or <br/></reason>",
			map[string]any{"reason": "if a < b && b > c, use <T> or </T> or <br/>"}},
		{"an unknown element inside is text", "<reason>x <b>y</b></reason>",
			map[string]any{"reason": "x <b>y</b>"}},
		{"an unknown one inside itself", "<b>x<b>y</b>z</b>", map[string]any{"b": "x<b>y"}},
		{"an unclosed field is given up", "<reason>x <scope>y</scope>",
			map[string]any{"scope": "y"}},
		{"also by itself", "<reason>x <reason>y</reason>", map[string]any{"reason": "y"}},
		{"also by confidence", "<note>x <confidence>1</confidence></note>", map[string]any{}},
		{"also when it closes later", "<note>x <scope>y</scope></note>",
			map[string]any{"scope": "y"}},
		{"a known opener that never closes is text", "<reason>the <caveat> tag</reason>",
			map[string]any{"reason": "the <caveat> tag"}},
		{"a closer before does not close", "</caveat><reason>the <caveat> tag</reason>",
			map[string]any{"reason": "the <caveat> tag"}},
		{"text between fields is lost", "x<a>1</a>y<b>2</b>z", map[string]any{"a": "1", "b": "2"}},
		{"brackets before a field", "<<a>1</a>", map[string]any{"a": "1"}},

		{"entities", "<a>&amp;&lt;&gt;&quot;&apos;&#65;&#x41;&#x1F600;&#0000065;</a>",
			map[string]any{"a": "&<>\"'AA😀A"}},
		{"decoded once", "<a>&amp;lt;</a>", map[string]any{"a": "&lt;"}},
		{"no character", "<a>&#0;&#xD800;&#x110000;&#99999999999999999999999;</a>",
			map[string]any{"a": "\ufffd\ufffd\ufffd\ufffd"}},
		{"numbers that would wrap round", "<a>&#4294967361;&#18446744073709551681;</a>",
			map[string]any{"a": "\ufffd\ufffd"}},
		{"no entity", "<a>&nbsp; &AMP; &amp &; &#; &#x; &#X41; &#xg; &#6a; && &#65</a>",
			map[string]any{"a": "&nbsp; &AMP; &amp &; &#; &#x; &#X41; &#xg; &#6a; && &#65"}},
		{"entities make no tags", "<a>x&lt;/a&gt;y</a>", map[string]any{"a": "x</a>y"}},
		{"invalid bytes", "<a>\xff\xfe</a>", map[string]any{"a": "\ufffd\ufffd"}},

		{"lists", `<a>["x", 1, null, ["y"]]</a><b> [] </b>`,
			map[string]any{"a": []any{"x", 1.0, nil, []any{"y"}}, "b": []any{}}},
		{"encoded list", `<a>&#91;&quot;x&quot;]</a>`, map[string]any{"a": []any{"x"}}},
		{"no lists", `<a>[x]</a><b>["x"</b><c>["x"] y ["z"]</c><d>{"x": 1}</d><e>12</e><f>true</f>`,
			map[string]any{"a": "[x]", "b": `["x"`, "c": `["x"] y ["z"]`, "d": `{"x": 1}`,
				"e": "12", "f": "true"}},
		{"counts", "<sources_found> 007 </sources_found><expected_turns>99999999999999999999</expected_turns>",
			map[string]any{"sources_found": 7, "expected_turns": math.MaxInt}},
		{"no counts", "<sources_found>-1</sources_found><expected_turns>[1]</expected_turns>",
			map[string]any{"sources_found": 0, "expected_turns": 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := mustReadTurn(t, `<signal type="other">`+tt.inner+`</signal>`)
			if diff := cmp.Diff(tt.want, got.Signal.Fields); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
			if got.Problems != nil {
				t.Errorf("an unknown type has problems %q", got.Problems)
			}
		})
	}
}

func TestTurnConfidence(t *testing.T) {
	tests := []struct {
		text string
		want float64
		ok   bool
	}{
		{"0.8", 0.8, true}, {"1", 1, true}, {"0", 0, true}, {".5", 0.5, true}, {"1.", 1, true},
		{"+0.25", 0.25, true}, {"25e-2", 0.25, true},
		{"85%", 0.85, true}, {"12.5 %", 0.125, true}, {" 0.8 ", 0.8, true}, {"&#48;.8", 0.8, true},
		{"1e-400", 0, true},
		{"85", 1, true}, {"1.01", 1, true}, {"150%", 1, true}, {"-3", 0, true}, {"-0", 0, true},
		{"-1e-400", 0, true},
		{"", 0.5, false}, {"high", 0.5, false}, {"nan", 0.5, false}, {"inf", 0.5, false},
		{"-Infinity", 0.5, false}, {"1e400", 0.5, false},
		{"0x1p-2", 0.5, false}, {"0_1", 0.5, false}, {"0,8", 0.5, false}, {"%", 0.5, false},
		{"8%%", 0.5, false}, {"1 0", 0.5, false},
		{"٠", 0.5, false}, {".", 0.5, false}, {"e5", 0.5, false}, {"[0.8]", 0.5, false},
	}
	for _, tt := range tests {
		for _, raw := range []string{
			`<signal type="need_turn" confidence="0.1"><reason>r</reason><confidence>` + tt.text +
				`</confidence></signal>`,
			`<signal confidence="` + tt.text + `" type="need_turn"><reason>r</reason></signal>`,
			`<signal confidence="` + tt.text + `" type="other"/>`,
		} {
			got := mustReadTurn(t, raw)
			if got.Signal.Confidence != tt.want || math.Signbit(got.Signal.Confidence) {
				t.Errorf("%s: confidence %v, want %v", raw, got.Signal.Confidence, tt.want)
			}
			want := []string(nil)
			if !tt.ok {
				want = []string{got.Type +
					": confidence must be a finite number from 0 to 1 or a percentage; it is not"}
			}
			if diff := cmp.Diff(want, got.Problems); diff != "" {
				t.Errorf("%s: problems (-want +got):\n%s", raw, diff)
			}
			if _, there := got.Signal.Fields["confidence"]; there {
				t.Errorf("%s: confidence is a field", raw)
			}
		}
	}
}

func TestTurnProblems(t *testing.T) {
	chars := func(n int) string { return strings.Repeat("é", n) }
	tests := []struct {
		typ, inner string
		want       []string
	}{
		{"need_turn", "", []string{"need_turn: reason must be text of 1 to 500 characters; it is missing"}},
		{"need_turn", "<reason> </reason>",
			[]string{"need_turn: reason must be text of 1 to 500 characters; it has 0"}},
		{"need_turn", "<reason>" + chars(500) + "</reason>", nil},
		{"need_turn", "<reason>" + chars(501) + "</reason>",
			[]string{"need_turn: reason must be text of 1 to 500 characters; it has 501"}},
		{"need_turn", `<reason>["x"]</reason>`,
			[]string{"need_turn: reason must be text of 1 to 500 characters; it is a list"}},
		{"need_turn", "<reason>r</reason><expected_turns>0</expected_turns>",
			[]string{"need_turn: expected_turns must be digits for a number of 1 to 10; it is 0"}},
		{"need_turn", "<reason>r</reason><expected_turns>11</expected_turns>",
			[]string{"need_turn: expected_turns must be digits for a number of 1 to 10; it is 11"}},
		{"need_turn", "<reason>r</reason><expected_turns>two</expected_turns>",
			[]string{"need_turn: expected_turns must be digits for a number of 1 to 10; it is not"}},
		{"need_turn", "<reason>r</reason><sources_found>x</sources_found><blocker></blocker>",
			[]string{"need_turn: sources_found must be digits for a number of at least 0; it is not"}},
		{"context_sufficient", "",
			[]string{"context_sufficient: sources_found must be digits for a number of at least 0; it is missing"}},
		{"context_sufficient", "<sources_found>three</sources_found>",
			[]string{"context_sufficient: sources_found must be digits for a number of at least 0; it is not"}},
		{"context_sufficient", "<sources_found>0</sources_found><source_types>code</source_types>",
			nil},
		{"stuck", "", []string{
			"stuck: attempted must be a JSON list of at least 1; it is missing",
			"stuck: blocker must be text of 1 to 500 characters; it is missing"}},
		{"stuck", "<attempted>a</attempted><blocker>b</blocker>",
			[]string{"stuck: attempted must be a JSON list of at least 1; it is not a list"}},
		{"stuck", "<attempted>[]</attempted><blocker>b</blocker>",
			[]string{"stuck: attempted must be a JSON list of at least 1; it has 0"}},
		{"need_capability", "<capability>" + chars(101) + "</capability><reason>r</reason>",
			[]string{"need_capability: capability must be text of 1 to 100 characters; it has 101"}},
		{"need_capability", "<capability>c</capability><reason>r</reason><workaround>" +
			chars(501) + "</workaround>",
			[]string{"need_capability: workaround must be text of at most 500 characters; it has 501"}},
		{"partial_answer", "<caveat>" + chars(501) + "</caveat>", []string{
			"partial_answer: missing must be text of 1 to 500 characters; it is missing",
			"partial_answer: caveat must be text of at most 500 characters; it has 501"}},
		{"delegation_recommended", "<estimated_tokens>[1]</estimated_tokens><subagent_type>" +
			chars(999) + "</subagent_type>", []string{
			"delegation_recommended: reason must be text of 1 to 500 characters; it is missing",
			"delegation_recommended: scope must be text of 1 to 500 characters; it is missing"}},
	}
	for _, tt := range tests {
		got := mustReadTurn(t, `<signal type="`+tt.typ+`">`+tt.inner+`</signal>`)
		if diff := cmp.Diff(tt.want, got.Problems); diff != "" {
			t.Errorf("%s %.60s: problems (-want +got):\n%s", tt.typ, tt.inner, diff)
		}
	}
	t.Run("the value is kept", func(t *testing.T) {
		got := mustReadTurn(t,
			`<signal type="stuck"><attempted>a, b</attempted><blocker></blocker></signal>`)
		if diff := cmp.Diff(map[string]any{"attempted": "a, b", "blocker": ""},
			got.Signal.Fields); diff != "" {
			t.Errorf("fields (-want +got):\n%s", diff)
		}
	})
}

func mustReadTurn(t *testing.T, raw string) Turn {
	t.Helper()
	block, err := ReadTurn([]byte(raw))
	if err != nil {
		t.Fatalf("ReadTurn(%s): %v", raw, err)
	}
	return block
}

var turnEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&#62;", `"`, "&quot;", "'",
	"&#x27;")

func TestTurnRoundTrip(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		typ := rapid.SampledFrom(TurnTypes()).Draw(t, "type")
		key := rapid.StringMatching(`[a-f0-9&<>"']{0,8}`).Draw(t, "key")
		attrs := []string{` type="` + typ.Name + `"`, ` key='` + turnEscaper.Replace(key) + `'`}
		if rapid.Bool().Draw(t, "key first") {
			slices.Reverse(attrs)
		}
		raw := "<signal" + strings.Join(attrs, "") + ">"
		want := map[string]any{}
		for _, f := range typ.Fields {
			if f.Form == TurnCount {
				continue
			}
			text := strings.TrimSpace("x" + rapid.String().Draw(t, f.Name))
			want[f.Name] = text
			raw += " <" + f.Name + ">\n" + turnEscaper.Replace(text) + "</" + f.Name + " >"
		}
		raw += "</signal>"
		got, err := ReadTurn([]byte(raw))
		if err != nil || got.Type != typ.Name || got.Key != key {
			t.Fatalf("ReadTurn(%q) = %+v, error %v", raw, got, err)
		}
		if diff := cmp.Diff(want, got.Signal.Fields); diff != "" {
			t.Errorf("fields (-want +got):\n%s", diff)
		}
	})
}

// Repetition is likely to confuse a parser.
func TestTurnRepetition(t *testing.T) {
	const open, end = `<signal type="stuck">`, `</signal>`
	const size = 16 << 10
	for _, unit := range []string{"<a>", "<", "&", "&#1", "&#x", "</a", "</a>", "<a></a>",
		"<reason>", "<reason></reason>", "<a>x</b>", "[", "\xff",
		" ", "\"", "='", ` a="b"`, "</signal>", "<signal "} {
		many := strings.Repeat(unit, size/len(unit))
		for _, raw := range []string{open + many + end, open + "<reason>" + many + "</reason>" +
			end, open + many + "</a>" + end,
			open + "<a>[" + many + "]</a>" + end, "<signal " + many + ">" + end, `<signal type="` +
				many + `">` + end} {
			checkTurn(t, []byte(raw))
		}
	}
}

func FuzzTurn(f *testing.F) {
	f.Fuzz(checkTurn)
}

// checkTurn checks what holds for every block.
func checkTurn(t *testing.T, raw []byte) {
	t.Helper()
	if startsWithTag(raw) {
		if end := openingEnd(raw); end > 0 && (raw[end-1] != '>' || openingEnd(raw[:end]) != end ||
			openingEnd(raw[:end-1]) != -1) {
			t.Errorf("openerEnd is %d", end)
		}
	}
	block, err := ReadTurn(raw)
	if err != nil {
		if !utf8.ValidString(err.Error()) || len(err.Error()) > 512 || block.Type != "" {
			t.Errorf("block %+v, error %v", block, err)
		}
		return
	}
	if block.Type == "" || !utf8.ValidString(block.Type) || !utf8.ValidString(block.Key) ||
		!utf8.ValidString(block.Signal.Raw) {
		t.Errorf("block %+v", block)
	}
	if c := block.Signal.Confidence; !(c >= 0 && c <= 1) {
		t.Errorf("confidence %v", c)
	}
	for name, value := range block.Signal.Fields {
		checkTurnField(t, name, value)
	}
	for _, p := range block.Problems {
		if len(p) > 512 || !utf8.ValidString(p) {
			t.Errorf("problem %q", p)
		}
	}
	// cmp takes exponential time on nested lists
	if again, err := ReadTurn([]byte(block.Signal.Raw)); err != nil ||
		!reflect.DeepEqual(block, again) {
		t.Errorf("read again: %+v, error %v", again, err)
	}
}

func checkTurnField(t *testing.T, name string, value any) {
	t.Helper()
	switch v := value.(type) {
	case int:
		if v < 0 || !isTurnCount(name) {
			t.Errorf("%s is %d", name, v)
		}
	case string:
		if !utf8.ValidString(v) || isTurnCount(name) {
			t.Errorf("%s is %q", name, v)
		}
	case []any:
		if isTurnCount(name) {
			t.Errorf("%s is a list", name)
		}
	default:
		t.Errorf("%s is %T", name, v)
	}
	if name == turnConfidence ||
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
		t.Errorf("a field is called %q", name)
	}
}
