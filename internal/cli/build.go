package cli

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

// Build describes how the binary was built.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Build returns how this program was built. What the build did not record is "unknown".
func (p *Program) Build() Build {
	b := Build{Version: cmp.Or(p.Version, "unknown"), Commit: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if p.Version == "" && info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
