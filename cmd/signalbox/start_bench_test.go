package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"signalbox/internal/config"
	"signalbox/internal/process"
	"signalbox/internal/run/contain"
)

// BenchmarkStart measures how long the smallest program takes from start to end: started directly, by a keeper, and in the sandboxes of an
// agent and of a check, with what prepares them. It is in this package because a keeper is this program: the more packages it has, the longer
// it takes to start.
func BenchmarkStart(b *testing.B) {
	const program = "/bin/true"
	b.Run("directly", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command(program).Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	project := b.TempDir()
	site := contain.Site{Host: contain.ThisHost(), Config: config.Default(), Box: filepath.Join(project, ".signalbox"), Project: project}
	tree := filepath.Join(site.Box, "trees", "T1")
	if err := os.MkdirAll(tree, 0o700); err != nil {
		b.Fatal(err)
	}
	process.Support() // which is tried only once
	for _, bb := range []struct {
		name      string
		contained func() *contain.Program
	}{
		{"off", func() *contain.Program { return &contain.Program{} }},
		{"agent", func() *contain.Program {
			return site.Agent(contain.Agent{Name: "claude", Config: config.Agent{Preset: "claude"}, Role: "developer", Work: "T1", Dir: tree, Temp: filepath.Join(site.Box, "tmp", "one")})
		}},
		{"check", func() *contain.Program {
			return site.Check(contain.Check{Config: config.Check{Name: "test"}, Work: "T1", Session: "one", Dir: tree})
		}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				contained := bb.contained()
				if err := contained.Prepare(); err != nil {
					b.Fatal(err)
				}
				p, err := process.Start(process.Spec{Argv: []string{program}, Dir: tree, Env: os.Environ(), Sandbox: contained.Policy}, nil)
				if err != nil {
					b.Fatal(err)
				}
				if exit := p.Wait(); exit.Code != 0 {
					b.Fatal(exit)
				}
			}
		})
	}
}
