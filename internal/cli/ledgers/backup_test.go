package ledgers

import "testing"

func TestFormatBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 9_999: "9999 bytes", 12_345: "12.3 kB",
		5_000_000: "5.0 MB", 7_650_000_000_000_000: "7650.0 TB"} {
		if got := formatBytes(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
