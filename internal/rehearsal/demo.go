package rehearsal

import (
	"embed"
	"io/fs"
)

//go:embed demo
var demo embed.FS

// Demo returns what a demonstration needs: plan.md, a plan of six tasks; agents.script, what agents do about it; and
// files, the repository they start from, whose checks are "sh test.sh" and "sh lint.sh".
func Demo() fs.FS {
	sub, err := fs.Sub(demo, "demo")
	if err != nil {
		panic(err) // the name is a constant
	}
	return sub
}
