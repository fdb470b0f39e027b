// Package mcp tries the MCP server with the programs that the protocol's makers give out: their conformance suite and the command line of
// their inspector, over HTTP and over stdio. It has tests only.
//
// The programs come from npm, in the versions that testdata/package-lock.json pins, into a folder of the test's own; they need a newer Node
// than many systems have, so it comes from there too. Without npm the tests are skipped, but on a build server (CI=true) they fail.
//
// The suite speaks HTTP and has no token. So a proxy adds the token and changes nothing else, and for stdio a bridge hands each message on
// to a process of the session, as it is.
package mcp
