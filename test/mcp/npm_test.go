package mcp_test

import (
	"path/filepath"
	"testing"

	"signalbox/internal/testkit/npm"
)

// The programs in the folder of the kit. The inspector's launcher runs this one for --cli.
var (
	suite = filepath.Join("node_modules", "@modelcontextprotocol", "conformance", "dist",
		"index.js")
	inspector = filepath.Join("node_modules", "@modelcontextprotocol", "inspector", "clients",
		"cli", "build", "index.js")
)

// kit has the programs. TestMain removes it.
var kit npm.Kit

// needKit installs the kit, once for all tests.
func needKit(t *testing.T) *npm.Kit {
	t.Helper()
	kit.Need(t)
	return &kit
}
