// Package mcp contains tests that run the MCP server and client against official programs: the
// conformance suite, the command line of the inspector, and two example servers, over HTTP and
// stdio.
//
// The tests install the programs from npm into a temporary folder, in the versions that
// testdata/package-lock.json pins. Node is installed with them, because they need a newer version
// than many systems have. Without npm the tests are skipped, but in CI (CI=true) they fail.
//
// The suite speaks HTTP without a token. A proxy adds the token and changes nothing else; for
// stdio, a bridge passes each message unchanged to the process of its session.
package mcp
