package browser_test

import (
	"strings"
	"testing"
)

// markdownOf renders a text in the page, with the module that the page of the oracle uses.
func (p *tab) markdownOf(text string) string {
	p.t.Helper()
	return eval[string](p,
		`import("/static/markdown.js").then((m) => { const e = document.createElement("div"); e.append(m.render(`+quote(text)+`)); return e.innerHTML; })`)
}

// markdownSample has what replies of models have.
const markdownSample = "# Title\n\nText with *emphasis*, **bold** and `code`,\nand a second line.\n\n1. one\n2. two\n   - inner\n   - other\n\n   more of two\n\n3. three\n\n> quoted\n> text\n\n" +
	"```go\nfunc f() {\n\n\treturn\n}\n```\n\n| a | b |\n|---|--:|\n| 1 | `2` |\n\n- [ ] open\n- [x] done\n\nAn address: https://example.com/a_b_c, and [a label](https://example.com/x).\n\n---\n\nThe end."

func TestMarkdown(t *testing.T) {
	t.Parallel()
	p := loggedIn(t, onSharedStage(t))
	p.open("/oracle")
	const link = ` rel="noopener noreferrer nofollow" target="_blank">`
	for text, want := range map[string]string{
		"":                             "",
		"plain":                        "<p>plain</p>",
		"a\nb\n\nc":                    "<p>a\nb</p><p>c</p>",
		"a  \nb\\\nc":                  "<p>a<br>b<br>c</p>",
		"# A\n###### B ##\n#no":        `<p class="heading level-1" role="heading" aria-level="3">A</p><p class="heading level-6" role="heading" aria-level="6">B</p><p>#no</p>`,
		"*a* **b** ***c*** ~~d~~":      "<p><em>a</em> <strong>b</strong> <em><strong>c</strong></em> <del>d</del></p>",
		"**a *b* c**":                  "<p><strong>a <em>b</em> c</strong></p>",
		"snake_case_name 2 * 3 * 4":    "<p>snake_case_name 2 * 3 * 4</p>",
		"*open **and not closed":       "<p>*open **and not closed</p>",
		"\\*a\\* \\<b>":                "<p>*a* &lt;b&gt;</p>",
		"`a*b*` ``x ` y`` `open":       "<p><code>a*b*</code> <code>x ` y</code> `open</p>",
		"- a\n- b\n  c\n\n* d":         "<ul><li>a</li><li>b\nc</li></ul><ul><li>d</li></ul>",
		"3. a\n4) b":                   `<ol start="3"><li>a</li></ol><ol start="4"><li>b</li></ol>`,
		"- a\n  1. b\n     - c\n- d":   "<ul><li>a<ol><li>b<ul><li>c</li></ul></li></ol></li><li>d</li></ul>",
		"- a\n\n  b\n- [x] c":          "<ul><li><p>a</p><p>b</p></li><li>☑ c</li></ul>",
		"> a\n> > b\n\nc":              "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote><p>c</p>",
		"```go\n\tx <b>\n\n# y\n```":   "<pre><code>\tx &lt;b&gt;\n\n# y</code></pre>",
		"~~~\n```\n~~~\nz":             "<pre><code>```</code></pre><p>z</p>",
		"```\nopen":                    "<pre><code>open</code></pre>",
		"    code\n\n    more":         "<pre><code>code\n\nmore</code></pre>",
		"a|b\n-|-:\n1|2|3\n4":          `<table><thead><tr><th>a</th><th class="number">b</th></tr></thead><tbody><tr><td>1</td><td class="number">2</td></tr></tbody></table><p>4</p>`,
		"a|b\n-|-\n1":                  "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody></tbody></table><p>1</p>",
		"a|b\n-|-\n|1":                 "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>",
		"a|b\n-|-|-":                   "<p>a|b\n-|-|-</p>",
		"a|b|c\n-|-":                   "<p>a|b|c\n-|-</p>",
		"a   \n*b*  \n`c`\\\nd \ne  f": "<p>a<br><em>b</em><br><code>c</code><br>d \ne  f</p>",
		strings.Repeat("`", 33) + "a" + strings.Repeat("`", 33): "<p>" + strings.Repeat("`", 33) +
			"a" + strings.Repeat("`", 33) + "</p>",
		"* * *\n---": "<hr><hr>",
		"[x](https://a.example/b)": `<p><a href="https://a.example/b"` +
			link + `x</a> <span class="target">(https://a.example/b)</span></p>`,
		"<https://a.example/>": `<p><a href="https://a.example/"` +
			link + `https://a.example/</a></p>`,
		"(https://a.example/x).": `<p>(<a href="https://a.example/x"` +
			link + `https://a.example/x</a>).</p>`,
		"[https://good.example](https://bad.example)": `<p><a href="https://bad.example"` +
			link + `https://good.example</a> <span class="target">(https://bad.example)</span></p>`,
		"[x](javascript:alert(1)) [y](/z)":                 `<p>x <span class="target">(javascript:alert(1))</span> y <span class="target">(/z)</span></p>`,
		"![a](https://a.example/i.png)":                    `<p><span class="target">image: </span><a href="https://a.example/i.png"` + link + `a</a> <span class="target">(https://a.example/i.png)</span></p>`,
		"<b>x</b> &lt; &amp;":                              "<p>&lt;b&gt;x&lt;/b&gt; &amp;lt; &amp;amp;</p>",
		"a\u202eb\x1b[31m\u200bc \u200d\u3164\u2800\ufe0f": `<p>a\u{202e}b\u{1b}[31m\u{200b}c \u{200d}\u{3164}\u{2800}\u{fe0f}</p>`,
	} {
		if got := p.markdownOf(text); got != want {
			t.Errorf("%q:\n%s\nwant\n%s", text, got, want)
		}
	}

	// What is before a boundary does not depend on what follows it, so an answer that arrives in
	// pieces is rendered as a whole one.
	for _, fault := range eval[[]string](p, `import("/static/markdown.js").then((m) => {
		const text = `+quote(markdownSample)+`, faults = [];
		const html = (text) => { const e = document.createElement("div"); e.append(m.render(text)); return e.innerHTML; };
		const boundaries = new Set();
		for (let n = 0; n <= text.length; n++) {
			const at = m.boundary(text.slice(0, n));
			boundaries.add(at);
			if (html(text.slice(0, at)) + html(text.slice(at)) !== html(text)) faults.push("a boundary at " + at + " of " + n);
		}
		if (boundaries.size < 5) faults.push("only " + boundaries.size + " boundaries");
		return faults;
	})`) {
		t.Error(fault)
	}

	// Text that would take minutes if the time grew with the square of its length, or that is
	// nested too deeply.
	for _, text := range []string{"[", "*a ", "_a_ ", "**", "`a``b", "> ", "- ", "1. ", "[a](",
		"<https://", "|", "a|b\n-|-\n", "\\", "# ", "```\n", "~~~a\n", "![", "https://a.example/ ",
		"    ", "\t", "- a\n\n"} {
		if got := p.markdownOf(strings.Repeat(text, 300_000/len(text))); strings.TrimSpace(
			text) != "" && got == "" {
			t.Errorf("%q: nothing is shown", text)
		}
	}

	// Hostile text makes no more elements than it has characters, none of them deep, and is not
	// searched again and again.
	wide := func(columns int) string {
		return strings.Repeat("a|", columns) + "\n" + strings.Repeat("-|", columns) + "\n"
	}
	for name, text := range map[string]string{
		"wide table":      wide(1000) + strings.Repeat("|\n", 1000),
		"100 columns":     wide(100) + strings.Repeat("|\n", 2800),
		"few delimiters":  strings.Repeat("a|", 1000) + "\n-|-\n" + strings.Repeat("|\n", 1000),
		"lines":           strings.Repeat("a\n", 3000),
		"breaks":          strings.Repeat("  \na", 1500),
		"escapes":         strings.Repeat("\\\\\n", 2000),
		"blanks":          strings.Repeat("a"+strings.Repeat(" ", 1000), 6) + "\nb",
		"quotes":          strings.Repeat(">", 6000),
		"quoted lines":    strings.Repeat(strings.Repeat("> ", 30)+"a\n", 100),
		"lists":           strings.Repeat(strings.Repeat("- ", 30)+"a\n", 100),
		"numbered":        strings.Repeat("1. ", 2000) + "a",
		"quotes in lists": strings.Repeat("- > ", 1500) + "a",
		"emphasis":        strings.Repeat("*a _b ", 500) + strings.Repeat("c_ d* ", 500),
		"strong emphasis": strings.Repeat("***a ___b ", 300) + strings.Repeat("c___ d*** ", 300),
		"links": strings.Repeat("[", 1500) + "a" +
			strings.Repeat("](https://a.example/)", 300),
		"all": strings.Repeat("- > ", 10) + strings.Repeat("*a _b ", 500) +
			"[x](https://a.example/)" + strings.Repeat("c_ d* ", 500),
	} {
		got := eval[struct{ Elements, Depth, Searched int }](p, `import("/static/markdown.js").then((m) => {
			const { test } = RegExp.prototype;
			let Searched = 0;
			RegExp.prototype.test = function (text) { Searched += String(text).length; return test.call(this, text); };
			let root;
			try { root = m.render(`+quote(text)+`); } finally { RegExp.prototype.test = test; }
			let Depth = 0, Elements = 0;
			for (let level = [...root.children]; level.length; level = level.flatMap((e) => [...e.children])) { Depth++; Elements += level.length; }
			return { Elements, Depth, Searched };
		})`)
		if got.Elements == 0 || got.Elements > len(text) || got.Depth > 100 ||
			got.Searched > 200*len(text) {
			t.Errorf("%s: %d characters make %+v", name, len(text), got)
		}
	}
	p.noFaults(t)
}
