package portfolio

import (
	"path/filepath"
	"testing"

	"signalbox/internal/portfolio/importer"
	"signalbox/internal/portfolio/tax"
	"signalbox/internal/testkit/must"
)

// TestTwins checks that the same trade in a broker's CSV and OFX is found, and that similar trades
// are not.
func TestTwins(t *testing.T) {
	csv := readRows(t, "s.csv",
		[]byte(schwabTitles+
			"03/28/2024,Buy,VTI,V,10,$260.25,$4.95,\"-$2,607.45\"\n03/28/2024,Buy,VTI,V,10,$260.25,$4.95,\"-$2,607.45\"\n"),
		&importer.Options{Account: "55501"})
	ofx := readRows(t, "a.qfx",
		read(t, filepath.Join("importer", "testdata", "samples", "activity.qfx")), nil)
	want := []Twin{{First: tax.Source{File: "s.csv", Line: 2},
		Second: tax.Source{File: "a.qfx", Line: 16}}}
	wantEqual(t, want, Twins(csv, ofx))
	if twins := Twins(csv, csv, ofx, ofx); len(twins) != 1 {
		t.Errorf("the same files twice have twins %v", twins)
	}
	if twins := Twins(csv,
		readRows(t, "t.csv", []byte(schwabTitles+"03/28/2024,Buy,VTI,V,10,$260.00,,\n"),
			&importer.Options{Account: "55501"})); len(twins) != 0 {
		t.Errorf("two files of one format have twins %v", twins)
	}
}

const schwabTitles = "Date,Action,Symbol,Description,Quantity,Price,Fees & Comm,Amount\n"

func readRows(t *testing.T, name string, data []byte, opts *importer.Options) *importer.Import {
	t.Helper()
	imported, err := importer.Read(name, data, opts)
	must.Succeed(t, err)
	return imported
}
