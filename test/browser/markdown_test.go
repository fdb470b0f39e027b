package browser_test

import (
	"strings"
	"testing"
)

// markdownOf renders a text in the page, with the module that the page of the oracle uses.
func (p *tab) markdownOf(text string) string {
	p.t.Helper()
	return eval[string](p, `import("/static/markdown.js").then((m) => { const e = document.createElement("div"); e.append(m.render(`+quote(text)+`)); return e.innerHTML; })`)
}

// markdownSample has what replies of models have.
const markdownSample = "# Title\n\nText with *emphasis*, **bold** and `code`,\nand a second line.\n\n1. one\n2. two\n   - inner\n   - other\n\n   more of two\n\n3. three\n\n> quoted\n> text\n\n" +
	"```go\nfunc f() {\n\n\treturn\n}\n```\n\n| a | b |\n|---|--:|\n| 1 | `2` |\n\n- [ ] open\n- [x] done\n\nAn address: https://example.com/a_b_c, and [a label](https://example.com/x).\n\n---\n\nThe end."

func TestMarkdown(t *testing.T) {
	t.Parallel()
	p := newTab(t, onSharedStage(t))
	p.open("/oracle")
	const link = ` rel="noopener noreferrer nofollow" target="_blank">`
	for text, want := range map[string]string{
		"":                           "",
		"plain":                      "<p>plain</p>",
		"a\nb\n\nc":                  "<p>a\nb</p><p>c</p>",
		"a  \nb\\\nc":                "<p>a<br>b<br>c</p>",
		"# A\n###### B ##\n#no":      `<p class="heading level-1" role="heading" aria-level="3">A</p><p class="heading level-6" role="heading" aria-level="6">B</p><p>#no</p>`,
		"*a* **b** ***c*** ~~d~~":    "<p><em>a</em> <strong>b</strong> <em><strong>c</strong></em> <del>d</del></p>",
		"**a *b* c**":                "<p><strong>a <em>b</em> c</strong></p>",
		"snake_case_name 2 * 3 * 4":  "<p>snake_case_name 2 * 3 * 4</p>",
		"*open **and not closed":     "<p>*open **and not closed</p>",
		"\\*a\\* \\<b>":              "<p>*a* &lt;b&gt;</p>",
		"`a*b*` ``x ` y`` `open":     "<p><code>a*b*</code> <code>x ` y</code> `open</p>",
		"- a\n- b\n  c\n\n* d":       "<ul><li>a</li><li>b\nc</li></ul><ul><li>d</li></ul>",
		"3. a\n4) b":                 `<ol start="3"><li>a</li></ol><ol start="4"><li>b</li></ol>`,
		"- a\n  1. b\n     - c\n- d": "<ul><li>a<ol><li>b<ul><li>c</li></ul></li></ol></li><li>d</li></ul>",
		"- a\n\n  b\n- [x] c":        "<ul><li><p>a</p><p>b</p></li><li>☑ c</li></ul>",
		"> a\n> > b\n\nc":            "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote><p>c</p>",
		"```go\n\tx <b>\n\n# y\n```": "<pre><code>\tx &lt;b&gt;\n\n# y</code></pre>",
		"~~~\n```\n~~~\nz":           "<pre><code>```</code></pre><p>z</p>",
		"```\nopen":                  "<pre><code>open</code></pre>",
		"    code\n\n    more":       "<pre><code>code\n\nmore</code></pre>",
		"a|b\n-|-:\n1|2|3\n4":        `<table><thead><tr><th>a</th><th class="number">b</th></tr></thead><tbody><tr><td>1</td><td class="number">2</td></tr></tbody></table><p>4</p>`,
		"* * *\n---":                 "<hr><hr>",
		"[x](https://a.example/b)":   `<p><a href="https://a.example/b"` + link + `x</a> <span class="target">(https://a.example/b)</span></p>`,
		"<https://a.example/>":       `<p><a href="https://a.example/"` + link + `https://a.example/</a></p>`,
		"(https://a.example/x).":     `<p>(<a href="https://a.example/x"` + link + `https://a.example/x</a>).</p>`,
		"[https://good.example](https://bad.example)": `<p><a href="https://bad.example"` + link + `https://good.example</a> <span class="target">(https://bad.example)</span></p>`,
		"[x](javascript:alert(1)) [y](/z)":            `<p>x <span class="target">(javascript:alert(1))</span> y <span class="target">(/z)</span></p>`,
		"![a](https://a.example/i.png)":               `<p><span class="target">image: </span><a href="https://a.example/i.png"` + link + `a</a> <span class="target">(https://a.example/i.png)</span></p>`,
		"<b>x</b> &lt; &amp;":                         "<p>&lt;b&gt;x&lt;/b&gt; &amp;lt; &amp;amp;</p>",
		"a\u202eb\x1b[31m\u200bc \u200d":              `<p>a\u{202e}b\u{1b}[31m\u{200b}c ` + "\u200d</p>",
	} {
		if got := p.markdownOf(text); got != want {
			t.Errorf("%q:\n%s\nwant\n%s", text, got, want)
		}
	}

	// What is before a boundary does not depend on what follows it, so an answer that arrives in pieces is rendered as a whole one.
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

	// Text that would take minutes if the time grew with the square of its length, or that is nested too deeply.
	for _, text := range []string{"[", "*a ", "_a_ ", "**", "`a``b", "> ", "- ", "1. ", "[a](", "<https://", "|", "a|b\n-|-\n", "\\", "# ", "```\n", "~~~a\n", "![", "https://a.example/ ", "    ", "\t", "- a\n\n"} {
		if got := p.markdownOf(strings.Repeat(text, 300_000/len(text))); strings.TrimSpace(text) != "" && got == "" {
			t.Errorf("%q: nothing is shown", text)
		}
	}
	p.noFaults(t)
}
