package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A tour entry is a command and what it prints: "$ [VARIABLE=value] signalbox … [| grep word]".
var (
	tourBlock   = regexp.MustCompile("(?ms)^```\n\\$ (.*?)\n(.*?)^```$")
	tourCommand = regexp.MustCompile(`^(?:(\w+)=(\w+) )?signalbox ([^|]+?)(?: \| grep (\w+))?$`)
)

func TestReadmeShowsRealOutput(t *testing.T) {
	t.Chdir("../..")
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, block := range tourBlock.FindAllStringSubmatch(string(readme), -1) {
		command, want := block[1], block[2]
		if want == "" {
			continue
		}
		tried++
		parts := tourCommand.FindStringSubmatch(command)
		if parts == nil {
			t.Errorf("cannot try %q", command)
			continue
		}
		p, stdout, stderr := start(strings.Fields(parts[3])...)
		p.getenv = func(name string) string { return map[string]string{parts[1]: parts[2]}[name] }
		if status := p.run(); status != 0 {
			t.Errorf("%s: status %d: %s", command, status, stderr)
		}
		got := ""
		for line := range strings.Lines(stdout.String()) {
			if strings.Contains(line, parts[4]) {
				got += line
			}
		}
		if diff := cmp.Diff(want, strings.TrimSuffix(got, "\n")+"\n"); diff != "" {
			t.Errorf("%s (-README +real):\n%s", command, diff)
		}
	}
	if tried == 0 {
		t.Error("no commands found in README.md: the search for them is broken")
	}
}
