package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// TestLinkedModules lists every module that the program links, with its licence, and fails for one
// that is unknown or not compatible with Apache-2.0.
func TestLinkedModules(t *testing.T) {
	modules, err := linkedModules("../..")
	if err != nil {
		t.Error(err)
	}
	if len(modules) < 10 {
		t.Fatalf("found %d modules only: the search for them is broken", len(modules))
	}
	text := notice(modules)
	for _, m := range modules {
		t.Logf("%s %s: %s", m.Path, m.Version, strings.Join(m.Licenses, ", "))
		if !bytes.Contains(text, m.Text) {
			t.Errorf("%s: its licence is not in the notice", m.Path)
		}
	}
}

func TestIdentify(t *testing.T) {
	for text, want := range map[string]string{
		"GNU GENERAL PUBLIC LICENSE Version 2":         "GPL",
		"GNU Lesser General Public License":            "LGPL",
		"Apache License\n   Version 2.0, January 2004": "Apache-2.0",
		"Permission to use,\ncopy, modify, and/or distribute this software for any purpose with or without fee": "0BSD",
		"All rights reserved.": "unknown",
		"Redistribution and use in source and binary forms, with or without modification, are permitted": "BSD-2-Clause",
	} {
		if got := identify(text); !slices.Equal(got, []string{want}) {
			t.Errorf("%.40q: %q, want %q", text, got, want)
		}
	}
}

func TestIncompatibleLicenses(t *testing.T) {
	for name, text := range map[string]string{"LICENSE": "GNU GENERAL PUBLIC LICENSE",
		"COPYING": "Do as I say.", "README": "Apache License, Version 2.0"} {
		dir := t.TempDir()
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		m := module{Path: "example.org/m", Version: "v1.0.0", Dir: dir}
		if err := m.readLicense(); err == nil {
			t.Errorf("%s %q is accepted as %q", name, text, m.Licenses)
		}
	}
}
