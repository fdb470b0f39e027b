package text

import (
	"strings"
	"testing"
)

func TestClosest(t *testing.T) {
	candidates := []string{"account_id", "limit", "min_loss", "path", "query", "q"}
	for name, want := range map[string]string{
		"qury": "query", "QUERY": "query", "limits": "limit", "lim": "limit", "minloss": "min_loss",
		"account": "account_id", "account_id_of": "account_id",
		"paht": "path", "somewhere": "", "x": "", "colour": "", "": "",
		strings.Repeat("limit", 1000): "limit", strings.Repeat("z", 1000): "",
	} {
		if got := Closest(name, candidates); got != want {
			t.Errorf("%.20q: %q, want %q", name, got, want)
		}
	}
}
