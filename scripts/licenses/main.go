// Command licenses writes the licences of every module that the program links, for a release:
// licenses FILE. It fails for a licence that it does not know, or that an Apache-2.0 program must
// not link.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: licenses FILE")
		os.Exit(2)
	}
	modules, err := linkedModules(".")
	if err == nil {
		err = os.WriteFile(os.Args[1], notice(modules), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

// platforms are those that make cross builds for: each may link other modules.
var platforms = []string{"linux/amd64", "darwin/arm64", "windows/amd64"}

// module is a third-party module that the program links.
type module struct {
	Path, Version, Dir string

	Licenses []string // SPDX identifiers
	Text     []byte   // the files that state them
}

// linkedModules returns the modules that the program links on any platform, sorted by path. The
// error names every module whose licence is unknown.
func linkedModules(dir string) ([]module, error) {
	found := map[string]module{}
	for _, platform := range platforms {
		goos, arch, _ := strings.Cut(platform, "/")
		cmd := exec.Command("go", "list", "-deps", "-json=Module", "./cmd/signalbox")
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list for %s: %w", platform, err)
		}
		for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
			var pkg struct{ Module *module }
			if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			if pkg.Module != nil && pkg.Module.Version != "" {
				found[pkg.Module.Path] = *pkg.Module
			}
		}
	}
	var modules []module
	var faults []error
	for _, m := range found {
		if err := m.readLicense(); err != nil {
			faults = append(faults, err)
		}
		modules = append(modules, m)
	}
	slices.SortFunc(modules, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	return modules, errors.Join(faults...)
}

func (m *module) readLicense() error {
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := strings.ToUpper(entry.Name())
		if entry.IsDir() || !strings.HasPrefix(name, "LICENSE") &&
			!strings.HasPrefix(name, "LICENCE") && !strings.HasPrefix(name, "COPYING") &&
			!strings.HasPrefix(name, "NOTICE") {
			continue
		}
		if notLinked[m.Path+"/"+entry.Name()] != "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.Dir, entry.Name()))
		if err != nil {
			return err
		}
		m.Text = append(append(m.Text, bytes.TrimSpace(text)...), "\n\n"...)
		if !strings.HasPrefix(name, "NOTICE") {
			m.Licenses = append(m.Licenses, identify(string(text))...)
		}
	}
	slices.Sort(m.Licenses)
	m.Licenses = slices.Compact(m.Licenses)
	if len(m.Licenses) == 0 {
		return fmt.Errorf("%s %s: no licence found in %s", m.Path, m.Version, m.Dir)
	}
	for _, license := range m.Licenses {
		if !slices.Contains(compatible, license) {
			return fmt.Errorf("%s %s: licence %s: an Apache-2.0 program must not link it", m.Path,
				m.Version, license)
		}
	}
	return nil
}

// notLinked lists licence files that are about something that is not linked, with the reason.
var notLinked = map[string]string{
	"modernc.org/memory/LICENSE-LOGO": "the picture in its README",
}

// compatible lists the licences under which a module may be linked into an Apache-2.0 program.
var compatible = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT",
	"MIT-0", "MPL-2.0", "Unlicense"}

// identify returns the licences that a licence file contains, and "unknown" if it recognises none.
// A sentence that only one licence has identifies it.
func identify(text string) (licenses []string) {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	has := func(sentence string) bool { return strings.Contains(text, sentence) }
	add := func(license string, found bool) {
		if found {
			licenses = append(licenses, license)
		}
	}
	add("AGPL", has("gnu affero general public license"))
	add("LGPL", has("gnu lesser general public license") ||
		has("gnu library general public license"))
	add("GPL", has("gnu general public license"))
	add("SSPL", has("server side public license"))
	add("MPL-2.0", has("mozilla public license version 2.0") ||
		has("mozilla public license, version 2.0"))
	add("Apache-2.0", has("apache license version 2.0") || has("apache license, version 2.0"))
	add("Unlicense", has("this is free and unencumbered software released into the public domain"))
	permission := has("permission is hereby granted, free of charge, to any person obtaining a copy")
	add("MIT", permission && has("shall be included in all copies or substantial portions"))
	add("MIT-0", permission && !has("shall be included in all copies or substantial portions"))
	redistribution := has(
		"redistribution and use in source and binary forms, with or without modification, are permitted")
	endorsement := has("endorse or promote products")
	add("BSD-3-Clause", redistribution && endorsement)
	add("BSD-2-Clause", redistribution && !endorsement)
	isc := has("permission to use, copy, modify, and/or distribute this software for any purpose") || has("permission to use, copy, modify, and distribute this software for any purpose")
	notice := has("provided that the above copyright notice and this permission notice appear in all copies")
	add("ISC", isc && notice)
	add("0BSD", isc && !notice)
	if licenses == nil {
		licenses = []string{"unknown"}
	}
	return licenses
}

// notice returns the text that goes with a release.
func notice(modules []module) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "signalbox contains the following %d third-party modules, each under its own licence.\n\n", len(modules))
	for _, m := range modules {
		fmt.Fprintf(&b, "%s %s (%s)\n", m.Path, m.Version, strings.Join(m.Licenses, ", "))
	}
	for _, m := range modules {
		fmt.Fprintf(&b, "\n%s\n%s %s\n%s\n\n%s", strings.Repeat("=", 80), m.Path, m.Version,
			strings.Repeat("=", 80), m.Text)
	}
	return b.Bytes()
}
