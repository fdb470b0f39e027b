package main

import (
	"os"
	"os/exec"
	"testing"

	"signalbox/internal/process"
	"signalbox/internal/sandbox"
)

// BenchmarkStart measures how long the smallest program takes from start to end: started directly, by a keeper, and in a sandbox. It is in
// this package because a keeper is this program: the more packages it has, the longer it takes to start.
func BenchmarkStart(b *testing.B) {
	const program = "/bin/true"
	b.Run("directly", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command(program).Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	tree := b.TempDir()
	policy := &sandbox.Policy{Mode: sandbox.Enforce, Read: []string{"/usr", "/bin", "/lib", "/lib64", "/etc", "/opt"}, Write: []string{tree}, Temp: b.TempDir()}
	offline := *policy
	offline.Network.Off = true
	process.Support() // which is tried only once
	for _, bb := range []struct {
		name   string
		policy *sandbox.Policy
	}{{"kept", nil}, {"sandbox", policy}, {"sandbox without a network", &offline}} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				p, err := process.Start(process.Spec{Argv: []string{program}, Dir: tree, Env: os.Environ(), Sandbox: bb.policy}, nil)
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
