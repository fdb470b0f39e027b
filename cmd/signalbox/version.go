package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCommand struct {
	JSON bool `name:"json" help:"Print one JSON object."`
}

func (versionCommand) Help() string {
	return `Prints the version, the commit, and the Go release of this build. Values that the build did not record are "unknown".

Examples:

    signalbox version
    signalbox version --json`
}

// version is set by the linker for releases. If it is empty, the version that Go recorded is used.
var version string

// build describes how the binary was built.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (c *versionCommand) Run(p *program) error {
	b := currentBuild()
	if c.JSON {
		return p.printJSON(b, "")
	}
	modified := ""
	if b.Modified {
		modified = ", modified"
	}
	_, err := fmt.Fprintf(p.out, "signalbox %s\ncommit %s%s\n%s %s\n", b.Version, b.Commit, modified, b.Go, b.Platform)
	return err
}

func currentBuild() build {
	b := build{Version: cmp.Or(version, "unknown"), Commit: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if version == "" && info.Main.Version != "" {
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
