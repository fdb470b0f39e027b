package signalbox_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// TestReleaseFilesAgree checks that the files that build releases name the same platforms and the
// same Go release.
func TestReleaseFilesAgree(t *testing.T) {
	find := func(file, pattern string) string {
		t.Helper()
		text, err := os.ReadFile(file)
		must.Succeed(t, err)
		found := regexp.MustCompile(pattern).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s has no match of %s", file, pattern)
		}
		return string(found[1])
	}
	cross := strings.ReplaceAll(find("Makefile", `(?m)^PLATFORMS *:= (.*)$`), "/", "_")
	release := strings.ReplaceAll(find(".goreleaser.yaml", `targets: \[(.*)\]`), ",", "")
	if cross != release {
		t.Errorf("make cross builds for %s, a release has %s", cross, release)
	}
	if module, image := find("go.mod", `(?m)^go (\d+\.\d+)`),
		find("Containerfile", `golang:(\S+) AS build`); module != image {
		t.Errorf("go.mod wants Go %s, Containerfile has %s", module, image)
	}
}
