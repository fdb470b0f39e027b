package checks

import (
	"bytes"
	"testing"

	"signalbox/internal/run/stored"
)

// The output of checks is indented, so that nothing in it can end the block, and limited in size.
func TestQuoteOutput(t *testing.T) {
	if got := quoteOutput([]byte("a\n```\n# b\xff\n\n")); got != "    a\n    ```\n    # b\ufffd" {
		t.Errorf("%q", got)
	}
	if n := len(quoteOutput(bytes.Repeat([]byte("x"), 1<<20))); n > stored.MaxShown+4 {
		t.Errorf("%d bytes are shown", n)
	}
}
