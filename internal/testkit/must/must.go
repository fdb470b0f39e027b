// Package must ends a test whose preparation fails.
package must

// Test is a test, a benchmark or a property test.
type Test interface {
	Helper()
	Fatal(args ...any)
}

// Succeed ends the test if there is an error.
func Succeed(t Test, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
