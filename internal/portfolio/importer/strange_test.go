package importer

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

// TestUnknownColumnsChangeNothing adds what brokers may add one day to the samples of every
// importer: a column at every place, an attribute of every element, an element in every aggregate.
// The file is refused, or gives the same rows.
func TestUnknownColumnsChangeNothing(t *testing.T) {
	rows := func(file string, text string) []Row {
		imp, err := Read(file, []byte(text), sampleOptions(file))
		if err != nil {
			return nil
		}
		for i := range imp.Rows {
			imp.Rows[i].Source = Source{}
		}
		return imp.Rows
	}
	element, aggregate := regexp.MustCompile(`<([A-Za-z]+) `), regexp.MustCompile(`</?([A-Z0-9]+)>\s*<`)
	samples, err := filepath.Glob("testdata/samples/*")
	must.Succeed(t, err)
	changed, same := 0, 0
	for _, file := range samples {
		data, err := os.ReadFile(file)
		must.Succeed(t, err)
		text := string(data)
		want := rows(file, text)
		if want == nil {
			continue // refused as it is
		}
		var strange []string
		switch filepath.Ext(file) {
		case ".csv":
			for at := range 16 {
				strange = append(strange, withColumn(t, text, at))
			}
		case ".xml":
			strange = append(strange, element.ReplaceAllString(text, `<$1 strange="999.99" `))
		default:
			strange = append(strange, aggregate.ReplaceAllStringFunc(text, func(s string) string {
				return strings.TrimSuffix(s, "<") + "<X.STRANGE>999.99<"
			}))
		}
		for _, s := range strange {
			got := rows(file, s)
			if changed++; got == nil {
				continue
			}
			same++
			if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b Row) bool {
				a.ID, b.ID = "", "" // of the record's text, in some formats
				return describeRow(a) == describeRow(b)
			})); diff != "" {
				t.Errorf("%s, changed to\n%.300s\n%s", file, s, diff)
			}
		}
	}
	if changed < 100 || same < 40 {
		t.Errorf("%d files were tried and %d of them read: too few to show anything", changed, same)
	}
}

func describeRow(r Row) string { return describe(&Import{Rows: []Row{r}}, nil) }

// withColumn inserts a column into a table. Narrow records, which are not of the table, stay as they
// are.
func withColumn(t *testing.T, text string, at int) string {
	t.Helper()
	in := csv.NewReader(strings.NewReader(text))
	in.FieldsPerRecord = -1
	records, err := in.ReadAll()
	if err != nil {
		return text // UTF-16
	}
	var b strings.Builder
	out, field := csv.NewWriter(&b), "Strange"
	for _, fields := range records {
		if len(fields) > 4 && at <= len(fields) {
			fields = slices.Insert(fields, at, field)
			field = "999.99" // below the header
		}
		must.Succeed(t, out.Write(fields))
	}
	out.Flush()
	return b.String()
}
