package contain

import (
	"path/filepath"
	"testing"
)

func TestWithin(t *testing.T) {
	paths := []string{"", "/", "/a", "/a/", "/a/b", "/a/b/c", "/ab", "/a/../ab", "/a/./b", "//a", "/b", "a", "a/b", "..", "/a/..b", "/a/b/.."}
	for _, name := range paths {
		for _, folder := range paths {
			rel, err := filepath.Rel(folder, name)
			want := name != "" && folder != "" && err == nil && filepath.IsLocal(rel)
			if got := within(name, folder); got != want {
				t.Errorf("within(%q, %q) is %v", name, folder, got)
			}
		}
	}
}
