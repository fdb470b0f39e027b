package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// TestBill checks the bill of the test program itself, which Go describes as it does any other.
func TestBill(t *testing.T) {
	self, err := os.Executable()
	must.Succeed(t, err)
	file := filepath.Join(t.TempDir(), "bill.json")
	must.Succeed(t, write(self, file))
	text, err := os.ReadFile(file)
	must.Succeed(t, err)
	var b bill
	must.Succeed(t, json.Unmarshal(text, &b))
	if !regexp.MustCompile(
		`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(b.Serial) {
		t.Errorf("the serial number is %s", b.Serial)
	}
	program := b.Metadata.Component
	if len(program.Hashes) != 1 || len(program.Hashes[0].Content) != 64 {
		t.Errorf("the hashes are %v", program.Hashes)
	}
	if want := (property{"go:GOOS", runtime.GOOS}); !slices.Contains(program.Properties, want) {
		t.Errorf("the properties %v do not have %v", program.Properties, want)
	}
	std := b.Components[0]
	if std.Name != "std" || "go"+std.Version != runtime.Version() {
		t.Errorf("the standard library is %+v", std)
	}
	if len(b.Dependencies[0].On) != len(b.Components) {
		t.Errorf("%d of %d components are dependencies", len(b.Dependencies[0].On),
			len(b.Components))
	}
	again := filepath.Join(t.TempDir(), "again.json")
	must.Succeed(t, write(self, again))
	if second, _ := os.ReadFile(again); string(second) != string(text) {
		t.Error("the same program has another bill")
	}
}

func TestPackageURL(t *testing.T) {
	m := &debug.Module{Path: "github.com/BurntSushi/Toml", Version: "v2.0.0+incompatible"}
	if got, want := packageURL(m),
		"pkg:golang/github.com/burntsushi/toml@v2.0.0%2Bincompatible"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNotAProgram(t *testing.T) {
	name := filepath.Join(t.TempDir(), "text")
	must.Succeed(t, os.WriteFile(name, []byte("not a program"), 0o644))
	if err := write(name, name+".json"); err == nil || !strings.Contains(err.Error(), "text") {
		t.Errorf("the error is %v", err)
	}
}
