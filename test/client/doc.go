// Package client contains a test that generates a TypeScript client from the OpenAPI document of a
// real server with a public generator, checks its types, and runs the exit protocol with it. A
// public linter checks the document.
//
// The tests install the generator, the linter, the compiler and Node from npm into a temporary
// folder, in the versions that testdata/package-lock.json pins.
package client
