//go:build unix

package main

import (
	"path/filepath"
	"testing"

	"signalbox/internal/testkit/must"
)

func TestMergesAreMeasured(t *testing.T) {
	must.Succeed(t, settings{dir: t.TempDir()}.withProgram("merges",
		func(dir, program string) error {
			for size, trains := range map[int]int{1: 2, 10: 1} {
				m := &merging{tasks: 2}
				must.Succeed(t, m.measure(filepath.Join(dir, map[int]string{1: "off", 10: "on"}[size]),
					program, "", size))
				if m.merged != 2 || m.trains != trains || m.took.Seconds() < mergeCheck {
					t.Errorf("train %d: %+v", size, m)
				}
			}
			return nil
		}))
}
