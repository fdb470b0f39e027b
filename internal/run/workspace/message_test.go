package workspace

import (
	"strings"
	"testing"
)

// What an agent reported cannot keep a forge from running its checks.
func TestCommitTextHasNoOrders(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"[skip ci]", "[ci skip]", "[no ci]", "[skip actions]", "[actions skip]", "[Skip CI]", "[skip-ci]", "[skip_ci]", "[ skip ci ]", "***NO_CI***", "***no_ci***",
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
	if got := CommitText("T1: fill [names] of [notes]", "a[i] = skip; see [nothing]"); got != "T1: fill [names] of [notes]\n\na[i] = skip; see [nothing]" {
		t.Errorf("got %q", got)
	}
}
