package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/process"
	"signalbox/internal/testkit/must"
)

// BenchmarkStart measures how long the smallest program takes from start to end: started directly,
// by a keeper, and in the sandboxes of an agent and of a check, with what prepares them. It is in
// this package because a keeper is this program: the more packages it has, the longer it takes to
// start.
func BenchmarkStart(b *testing.B) {
	const program = "/bin/true"
	b.Run("directly", func(b *testing.B) {
		for b.Loop() {
			must.Succeed(b, exec.Command(program).Run())
		}
	})
	project := b.TempDir()
	box, settings := filepath.Join(project, ".signalbox"), config.Default()
	site := contain.Site{Host: contain.ThisHost(), Config: settings, Box: box, Project: project,
		Cache: contain.OpenCache(box, settings)}
	tree := filepath.Join(site.Box, "trees", "T1")
	must.Succeed(b, os.MkdirAll(tree, 0o700))
	process.Support() // which is tried only once
	fillCache(b, site)
	homes, err := site.OpenHomes("T1", contain.ChecksHome, false)
	must.Succeed(b, err)
	defer homes.Close()
	use := func() *contain.Generation {
		cache, err := site.Cache.Use()
		if cache == nil || err != nil {
			b.Fatal("there is no cache", err)
		}
		return cache
	}
	for _, bb := range []struct {
		name      string
		contained func() *contain.Program
	}{
		{"off", func() *contain.Program { return &contain.Program{} }},
		{"agent", func() *contain.Program {
			return site.Agent(contain.Agent{Name: "claude", Config: config.Agent{Preset: "claude"},
				Role: "developer", Work: "T1", Dir: tree,
				Temp: filepath.Join(site.Box, "tmp", "one"), Cache: use()})
		}},
		{"reviewer", func() *contain.Program {
			return site.Agent(contain.Agent{Name: "claude", Config: config.Agent{Preset: "claude"},
				Role: "critic", Work: "T1", Dir: tree, Temp: filepath.Join(site.Box, "tmp", "one"),
				Cache: use()})
		}},
		{"check", func() *contain.Program {
			return site.Check(contain.Check{Config: config.Check{Name: "test"}, Work: "T1",
				Session: "one", Dir: tree, Homes: homes})
		}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				contained := bb.contained()
				must.Succeed(b, contained.Prepare())
				p, err := process.Start(process.Spec{Argv: []string{program}, Dir: tree,
					Env: os.Environ(), Sandbox: contained.Policy}, nil)
				must.Succeed(b, err)
				if exit := p.Wait(); exit.Code != 0 {
					b.Fatal(exit)
				}
				b.StopTimer() // no caller waits for what is removed
				must.Succeed(b, contained.Finish())
				b.StartTimer()
			}
		})
	}
}

// fillCache fills the cache of a box, as a baseline does that uses all of its folders.
func fillCache(b *testing.B, site contain.Site) {
	homes, err := site.OpenHomes("B-1", contain.ChecksHome, true)
	must.Succeed(b, err)
	defer homes.Close()
	p := site.Check(contain.Check{Config: config.Check{Name: "test"}, Work: "B-1", Session: "one",
		Dir: filepath.Join(site.Box, "trees", "T1"), Homes: homes})
	must.Succeed(b, p.Prepare())
	for _, name := range []string{".cache/go-build/00", "go/pkg/mod/cache", ".npm/_cacache/tmp",
		".cache/pip/http", ".cargo/registry/index"} {
		must.Succeed(b, os.MkdirAll(filepath.Join(process.Getenv(p.Env, "HOME"), name),
			0o700))
	}
	must.Succeed(b, errors.Join(p.Finish(), homes.Publish()))
}
