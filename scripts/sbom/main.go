// Command sbom writes a software bill of materials of a Go program, from what the compiler recorded
// in it: sbom PROGRAM FILE. The format is CycloneDX 1.6. The same program gives the same file.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM FILE")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(program, file string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(describe(filepath.Base(program), sha256.Sum256(content), info),
		"", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// bill is a bill of materials.
type bill struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Serial     string      `json:"serialNumber"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
	// Dependencies says that the program depends on all components. The compiler does not record
	// which depends on which.
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn"`
}

// describe returns the bill of a program with the given name and hash.
func describe(name string, sum [sha256.Size]byte, info *debug.BuildInfo) bill {
	program := component{Type: "application", Ref: info.Main.Path, Name: name,
		Version: info.Main.Version,
		Hashes:  []hash{{"SHA-256", hex.EncodeToString(sum[:])}}}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED", "vcs.revision", "vcs.time", "vcs.modified":
			program.Properties = append(program.Properties, property{"go:" + s.Key, s.Value})
		}
	}
	version := strings.TrimPrefix(info.GoVersion, "go")
	components := []component{{Type: "library", Ref: "std", Name: "std", Version: version,
		PURL: "pkg:golang/std@" + version}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		purl := packageURL(m)
		components = append(components, component{Type: "library", Ref: purl, Name: m.Path,
			Version: m.Version, PURL: purl,
			Properties: []property{{"go:sum", m.Sum}}})
	}
	on := make([]string, len(components))
	for i, c := range components {
		on[i] = c.Ref
	}
	return bill{Format: "CycloneDX", Spec: "1.6", Serial: serial(sum), Version: 1,
		Metadata: metadata{program}, Components: components,
		Dependencies: []dependency{{program.Ref, on}}}
}

// packageURL returns the name of a module in https://github.com/package-url/purl-spec, which wants
// lower-case letters.
func packageURL(m *debug.Module) string {
	return "pkg:golang/" + strings.ToLower(m.Path) + "@" + strings.ReplaceAll(m.Version, "+", "%2B")
}

// serial returns a UUID of version 8, which is made from a hash.
func serial(sum [sha256.Size]byte) string {
	id := sum[:16]
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
