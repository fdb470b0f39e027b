package ofx

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

const header = "OFXHEADER:100\nDATA:OFXSGML\nVERSION:102\nSECURITY:NONE\nENCODING:USASCII\nCHARSET:1252\nCOMPRESSION:NONE\nOLDFILEUID:NONE\nNEWFILEUID:NONE\n\n"

const xmlHeader = "<?xml version=\"1.0\"?>\n<?OFX OFXHEADER=\"200\" VERSION=\"211\" SECURITY=\"NONE\" OLDFILEUID=\"NONE\" NEWFILEUID=\"NONE\"?>\n"

// format writes an element as XML without spaces.
func format(e *Element) string {
	s := e.Text
	for i := range e.Children {
		s += format(&e.Children[i])
	}
	return fmt.Sprintf("<%s>%s</%s>", e.Name, s, e.Name)
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		// Version 1, with and without end tags of data elements.
		"<OFX><A><B>1<C>2</A></OFX>":              "<OFX><A><B>1</B><C>2</C></A></OFX>",
		"<OFX><A><B>1</B><C>2</C></A></OFX>":      "<OFX><A><B>1</B><C>2</C></A></OFX>",
		"<OFX>\n<A>\n<B> 1\n<C>2 3\n</A>\n</OFX>": "<OFX><A><B>1</B><C>2 3</C></A></OFX>",
		// Empty data elements do not swallow what comes after them.
		"<OFX><A><E><B>1<E></A><A><E></E><B>2</A></OFX>": "<OFX><A><E></E><B>1</B><E></E></A><A><E></E><B>2</B></A></OFX>",
		"<OFX><A><E><X><B>1</X><C>2</A></OFX>":           "<OFX><A><E></E><X><B>1</B></X><C>2</C></A></OFX>",
		"<OFX><A><E/><B>1</A></OFX>":                     "<OFX><A><E></E><B>1</B></A></OFX>",
		// Entities, and ampersands that are not.
		"<OFX><B>a&amp;b &lt;c&gt; &#233;&#xe9; AT&T &copy; &nbsp;</OFX>": "<OFX><B>a&b <c> éé AT&T &copy;</B></OFX>",
		"<OFX><B><![CDATA[a<b>&amp;]]> c</OFX>":                           "<OFX><B>a<b>&amp; c</B></OFX>",
		"<OFX><!-- <A> --><B>1<!-- 2 -->3</OFX>":                          "<OFX><B>13</B></OFX>",
		// Names, attributes, and text after the end.
		"<OFX><INTU.BID>1<X_1-2 y=\"z\">2</OFX>rest<": "<OFX><INTU.BID>1</INTU.BID><X_1-2>2</X_1-2></OFX>",
		"<OFX ></OFX >":            "<OFX></OFX>",
		header + "<OFX><B>1</OFX>": "<OFX><B>1</B></OFX>",
		strings.ReplaceAll(header, "\n", "") + "<OFX><B>1</OFX>":  "<OFX><B>1</B></OFX>",
		strings.ReplaceAll(header, ":", ": ") + "<OFX><B>1</OFX>": "<OFX><B>1</B></OFX>",
		// Version 2.
		xmlHeader + "<OFX><A><B>1</B><C/><D></D></A></OFX>": "<OFX><A><B>1</B><C></C><D></D></A></OFX>",
	} {
		e, err := Parse(text)
		if err != nil {
			t.Errorf("Parse(%q): %v", text, err)
		} else if got := format(e); got != want {
			t.Errorf("Parse(%q) = %s, expected %s", text, got, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "line 1, column 1: the file ends before </OFX>",
		header:                               "line 11, column 1: the file ends before </OFX>",
		"<ofx></ofx>":                        "line 1, column 1: expected <OFX>",
		"<OFX><A>\n<B>1":                     "line 2, column 5: the file ends before </OFX>",
		"<OFX><A>\n<B":                       "line 2, column 2: the file ends before the >",
		"<OFX><A>1</B></OFX>":                "line 1, column 10: </B> has no start tag",
		"<OFX><A>1 < 2</OFX>":                "line 1, column 11: < 2</OFX> is not a tag: write < in a text as &lt;",
		"<OFX><A></A> 1</OFX>":               "line 1, column 13: the text \"1\" belongs to no element",
		"<OFX><A/> 1</OFX>":                  "line 1, column 10: the text \"1\" belongs to no element",
		"<OFX>1<A>2</OFX>":                   "line 1, column 7: expected </OFX>, the end of line 1, column 1",
		"<OFX><A><!-- 1</OFX>":               "line 1, column 9: the file ends before the -->",
		"<OFX><A><![CDATA[1</OFX>":           "line 1, column 18: the file ends before the ]]>",
		"<OFX>\n <SECID><B>1</X></OFX>":      "line 2, column 13: </X> has no start tag",
		"<OFX><A>\n <SECID><B>1\n</A></OFX>": "line 3, column 1: <SECID> in line 2, column 2 has no end tag: add </SECID> before </A>",
		xmlHeader + "<OFX><A><B>1<C>2</C></A></OFX>": "line 3, column 13: expected </B>, the end of line 3, column 9",
		xmlHeader + "<OFX><A><B>1</A></OFX>":         "line 3, column 13: <B> in line 3, column 9 has no end tag: add </B> before </A>",
		xmlHeader + "<OFX><A><E></A></OFX>":          "line 3, column 12: <E> in line 3, column 9 has no end tag",
		strings.Replace(header, "NONE\nOLD", "GZIP\nOLD", 1) +
			"<OFX>": "line 1, column 1: COMPRESSION in the header is not NONE",
		strings.Replace(header, "OFXSGML", "XML", 1) +
			"<OFX>": "line 1, column 1: DATA in the header is not OFXSGML",
		"<OFX>" + strings.Repeat("<A>",
			200): "line 1, column 303: <A> is inside 100 other elements",
		"<OFX><A><B>" + strings.Repeat("<C>1",
			maxElements): "line 1, column 8388608: the file has more than 2097152 elements: export it in parts",
	} {
		e, err := Parse(text)
		if syntax, ok := errors.AsType[*SyntaxError](err); !ok || e != nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("Parse(%.60q) = %v, %v, expected %s", text, e, syntax, want)
		}
	}
}

func TestPositions(t *testing.T) {
	e, err := Parse(header + "<OFX>\n<A>\n  <B>1\n  <!--\n\n--><C>é<D>2\n</A></OFX>")
	must.Succeed(t, err)
	a := e.Child("A")
	for name, want := range map[string][2]int32{"B": {13, 3}, "C": {16, 4}, "D": {16, 9}} {
		if c := a.Child(name); c == nil || c.Line != want[0] || c.Column != want[1] {
			t.Errorf("%s is %+v, expected line %d, column %d", name, c, want[0], want[1])
		}
	}
}

// TestChild also calls the methods on nil: callers walk down a path without checking each step.
func TestChild(t *testing.T) {
	e, err := Parse("<OFX><A>1<B>2<A>3</OFX>")
	must.Succeed(t, err)
	if got := e.Value("A"); got != "3" {
		t.Errorf("the last A is %q, expected 3", got)
	}
	if c := e.Child("X").Child("Y"); c != nil || e.Child("X").Value("Y") != "" {
		t.Errorf("a child of nothing is %+v", c)
	}
}

// TestLinear counts the work for texts of n and 2n bytes. A quadratic part makes it grow fourfold.
func TestLinear(t *testing.T) {
	transaction := "<BUYSTOCK><INVBUY><INVTRAN><FITID>1<DTTRADE>20240101<MEMO></INVTRAN><SECID><UNIQUEID>X</SECID><UNITS>1<TOTAL>-2</INVBUY></BUYSTOCK>\n"
	for name, c := range map[string]struct{ before, repeated, after string }{
		"transactions": {"<OFX><INVTRANLIST>", transaction, "</INVTRANLIST></OFX>"},
		"open data elements": {"<OFX>", "<A>" + strings.Repeat("<B>       ", 90) + "</A>",
			"</OFX>"},
		"comments":           {"<OFX><A>", "1<!-- 2 -->", "</OFX>"},
		"entities":           {"<OFX><A>", "&amp;&", "</OFX>"},
		"end tags":           {"<OFX>" + strings.Repeat("<A>", 98), "<B>text</B>", "</A></OFX>"},
		"line ends":          {"<OFX><A>", "\n", "</OFX>"},
		"a long tag":         {"<OFX><A", " x", "></OFX>"},
		"no end of a tag":    {"<OFX>", "<A<", ""},
		"no end of a CDATA":  {"<OFX><A>", "<![CDATA[", ""},
		"no end of comments": {"<OFX><A>", "<!--", ""},
		"one long value":     {"<OFX><A>", "x", "</OFX>"},
		"ampersands":         {"<OFX><A>", "&", "</OFX>"},
		"unclosed values":    {"<OFX>", "<A>x", ""},
		"deep nesting":       {"<OFX>", "<A>", ""},
		"only end tags":      {"<OFX>", "</A>", ""},
		"no header":          {"", "DATA:", ""},
	} {
		work := func(size int) int {
			p := &parser{text: c.before + strings.Repeat(c.repeated,
				size/len(c.repeated)) + c.after, line: 1}
			_, err := p.parse()
			if (err == nil) != (c.after != "") {
				t.Fatalf("%s: %v", name, err)
			}
			return p.work
		}
		size := 1 << 19
		if name == "transactions" {
			size = 4 << 20
		}
		half, whole := work(size/2), work(size)
		if whole > 3*size || whole > 2*half+half/10+1000 {
			t.Errorf("%s: %d steps for %d bytes and %d for %d", name, half, size/2, whole, size)
		}
	}
}

// FuzzParse checks that what was read is read again from its XML form, and that an error has a
// position in the text.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"<OFX><A><B>1<C>2</A></OFX>", "<OFX><A><E><B>1<E></A></OFX>",
		header + "<OFX><!-- x --><B>a&amp;b<![CDATA[<]]></OFX>",
		xmlHeader + "<OFX><A><B>1</B><C/></A></OFX>", "<OFX><A>1 < 2</OFX>",
		"<OFX><SECID><B>1</OFX>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		if syntax, ok := errors.AsType[*SyntaxError](err); ok {
			if lines := strings.Count(text, "\n") + 1; syntax.Line < 1 || syntax.Line > lines ||
				syntax.Column < 1 || syntax.Message == "" {
				t.Fatalf("error %+v in a text of %d lines", syntax, lines)
			}
			return
		}
		want := format(e)
		again, err := Parse(xmlHeader + escape(e))
		if err != nil || format(again) != want {
			t.Fatalf("%q is read again as %v, %v", want, again, err)
		}
	})
}

// escape writes an element as XML that can be read again.
func escape(e *Element) string {
	s := strings.NewReplacer("&", "&amp;", "<", "&lt;").Replace(e.Text)
	for i := range e.Children {
		s += escape(&e.Children[i])
	}
	return fmt.Sprintf("<%s>%s</%s>", e.Name, s, e.Name)
}
