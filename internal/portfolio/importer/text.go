package importer

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// decodeText makes UTF-8 of what brokers and spreadsheets write, with LF line ends. The note is not empty if the
// encoding had to be guessed.
func decodeText(data []byte) (text []byte, note string, err error) {
	if what := foreign(data); what != "" {
		return nil, "", errors.New(what)
	}
	if text, note, err = stripMark(data); err != nil {
		return nil, "", err
	}
	if i := bytes.IndexByte(text, 0); i >= 0 {
		at := place{1 + bytes.Count(text[:i], []byte("\n")), i - bytes.LastIndexByte(text[:i], '\n')}
		return nil, "", placedError{at, fmt.Errorf("has a zero byte and is no text, or is damaged: download it again, or save it as UTF-8")}
	}
	if what := foreignText(text); what != "" {
		return nil, "", errors.New(what)
	}
	if !utf8.Valid(text) {
		text = decodeWindows1252(text)
		note = "the file is not UTF-8 and was read as Windows-1252"
	}
	return normalizeLineEnds(text), note, nil
}

// foreign names a file that is no text at all, by its first bytes.
func foreign(data []byte) string {
	const wanted = ": ask the broker for CSV, OFX or Flex XML"
	for _, f := range []struct{ begins, has, is string }{
		{"PK\x03\x04", "[Content_Types].xml", "is an Excel workbook (XLSX): save it as CSV, or export CSV at the broker"},
		{"PK\x03\x04", "xl/", "is an Excel workbook (XLSX): save it as CSV, or export CSV at the broker"},
		{"PK\x03\x04", "", "is a zip file: unpack it, and if it is a spreadsheet export that as CSV"},
		{"\xd0\xcf\x11\xe0", "", "is an old Excel workbook (XLS): save it as CSV, or export CSV at the broker"},
		{"\x1f\x8b", "", "is compressed with gzip: unpack it"},
		{"%PDF", "", "is a PDF" + wanted},
		{"{\\rtf", "", "is a text document (RTF)" + wanted},
		{"\x89PNG", "", "is a picture" + wanted},
		{"\xff\xd8\xff", "", "is a picture" + wanted},
	} {
		if bytes.HasPrefix(data, []byte(f.begins)) && bytes.Contains(data[:min(len(data), 1<<16)], []byte(f.has)) {
			return f.is
		}
	}
	return ""
}

// foreignText names a text that is of another kind than those that can be read.
func foreignText(text []byte) string {
	start := bytes.ToLower(bytes.TrimSpace(text[:min(len(text), 2048)]))
	begins := func(s string) bool { return bytes.HasPrefix(start, []byte(s)) }
	switch {
	case begins("<!doctype html"), begins("<html"), begins("<") && bytes.Contains(start, []byte("<html")):
		return "is a web page (HTML), perhaps the broker's sign-in: sign in and download the export again, as CSV, OFX or Flex XML"
	case begins("<") && bytes.Contains(start, []byte("urn:schemas-microsoft-com:office:spreadsheet")):
		return "is a spreadsheet in XML: save it as CSV"
	case begins("{\""), begins("[{"), begins("{") && bytes.HasPrefix(bytes.TrimSpace(start[1:]), []byte("\"")):
		return "is JSON: export CSV at the broker"
	case begins("!type:"), begins("!account"), begins("!option:"):
		return "is QIF: export CSV, OFX or QFX at the broker"
	}
	return ""
}

// oneLine makes a record printable: no line breaks, at most 160 characters.
func oneLine(s string) string {
	r := []rune(strings.Join(strings.Fields(s), " "))
	if len(r) > 160 {
		return string(r[:159]) + "…"
	}
	return string(r)
}
