package contain

import "testing"

func TestWithin(t *testing.T) {
	paths := cleanAll([]string{"", "/", "/a", "/a/", "/a/b", "/a/b/c", "/ab", "/a/../ab", "/a/./b",
		"//a", "/b", "/a/..b", "/a/b/..", "/a/.b", "/a/.b/c"})
	for _, name := range paths {
		for _, folder := range paths {
			if got, want := cleanWithin(name, folder), within(name, folder); got != want {
				t.Errorf("cleanWithin(%q, %q) is %v", name, folder, got)
			}
		}
	}
}
