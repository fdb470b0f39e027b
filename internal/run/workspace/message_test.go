package workspace

import (
	"strings"
	"testing"
)

// What an agent reported cannot keep a forge from running its checks.
func TestCommitTextHasNoOrders(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"[skip ci]", "[ci skip]", "[no ci]", "[skip actions]",
		"[actions skip]", "[Skip CI]", "[skip-ci]", "[skip_ci]", "[ skip ci ]", "***NO_CI***",
		"***no_ci***",
		"[skip azp]", "[travis skip]"} {
		got := CommitText("T1: all "+order, "fixed it "+order+"\n\n"+order)
		if strings.Contains(got, order) {
			t.Errorf("%s is in %q", order, got)
		}
		word := strings.Trim(order, "[]*")
		if strings.Count(got, "("+word+")") != 3 {
			t.Errorf("%s is not readable in %q", order, got)
		}
	}
	if got := CommitText("T1: fill [names] of [notes]",
		"a[i] = skip; see [nothing]"); got != "T1: fill [names] of [notes]\n\na[i] = skip; see [nothing]" {
		t.Errorf("got %q", got)
	}
}

// What an agent reported closes no issue, notifies no one, loads nothing, and commands nothing, in
// a commit or in a pull request.
func TestCommitTextIsInert(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"Fixes #12, closes owner/repo#3 and resolves GH-4": "Fixes # 12, closes owner/repo# 3 and resolves GH- 4",
		"Fixes https://github.com/o/r/issues/12":           "Fixes https: //github.com/o/r/issues/12",
		"thanks @team, (@org/team) @@bob \\@eve":           "thanks @ team, (@ org/team) @ @ bob \\@ eve",
		"mail ann@example.org @ home":                      "mail ann@ example.org @  home",
		"![x](https://evil.example/p.png)":                 "![x] (https: //evil.example/p.png)",
		"[x][1] and [1]: //evil.example":                   "[x] [1] and [1] : //evil.example",
		"see www.evil.example":                             "see www. evil.example",
		"<!-- hidden --><img src=x></a> a<b":               "< !-- hidden -->< img src=x>< /a> a< b",
		"&#64;team &commat;team &#35;12 &#x23;12 a&b":      "&# 64;team & commat;team &# 35;12 & #x23;12 a&b",
		"#define x, issue #, list[0], a / b, a && b":       "#define x, issue #, list[0], a / b, a && b",
	} {
		got := CommitText("T1: "+in, "It works: "+in)
		if title, body, _ := strings.Cut(got, "\n\n"); title != "T1: "+want || body != "It works: "+
			want {
			t.Errorf("%s: %q, %q; want %q", in, title, body, want)
		}
	}
	if got := CommitText("T1: x",
		"done\n/merge\n  /assign me\n- /approve\n/ not\na/b"); got != "T1: x\n\ndone\n/ merge\n  / assign me\n- / approve\n/ not\na/b" {
		t.Errorf("commands: %q", got)
	}
	if got := CommitText(strings.Repeat("@", 200),
		strings.Repeat("#1", 3000)); len([]rune(got)) > maxSubject+2+maxSummary {
		t.Errorf("%d characters", len(got))
	}
}
