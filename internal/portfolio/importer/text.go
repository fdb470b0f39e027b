package importer

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"signalbox/internal/text"
)

// decodeText converts the encodings that brokers and spreadsheets write to UTF-8 with LF line ends.
// The note is not empty if the encoding had to be guessed.
func decodeText(data []byte) (text []byte, note string, err error) {
	if what := otherFormat(data); what != "" {
		return nil, "", errors.New(what)
	}
	if text, note, err = decodeBOM(data); err != nil {
		return nil, "", err
	}
	if i := bytes.IndexByte(text, 0); i >= 0 {
		at := position{1 + bytes.Count(text[:i], []byte("\n")),
			i - bytes.LastIndexByte(text[:i], '\n')}
		return nil, "", positionError{at,
			fmt.Errorf("contains a zero byte and is damaged or not text: download it again, or save it as UTF-8")}
	}
	if what := otherTextFormat(text); what != "" {
		return nil, "", errors.New(what)
	}
	if !utf8.Valid(text) {
		text = decodeWindows1252(text)
		note = "the file is not UTF-8 and was read as Windows-1252"
	}
	return normalizeLineEnds(text), note, nil
}

// otherFormat recognises binary files by their first bytes. It returns "" for all others.
func otherFormat(data []byte) string {
	const wanted = ": ask the broker for CSV, OFX or Flex XML"
	for _, f := range []struct{ begins, has, is string }{
		{"PK\x03\x04", "[Content_Types].xml",
			"is an Excel workbook (XLSX): save it as CSV, or download CSV from the broker"},
		{"PK\x03\x04", "xl/",
			"is an Excel workbook (XLSX): save it as CSV, or download CSV from the broker"},
		{"PK\x03\x04", "", "is a zip file: unpack it, and save a spreadsheet in it as CSV"},
		{"\xd0\xcf\x11\xe0", "",
			"is an old Excel workbook (XLS): save it as CSV, or download CSV from the broker"},
		{"\x1f\x8b", "", "is compressed with gzip: unpack it"},
		{"%PDF", "", "is a PDF" + wanted},
		{"{\\rtf", "", "is an RTF document" + wanted},
		{"\x89PNG", "", "is an image" + wanted},
		{"\xff\xd8\xff", "", "is an image" + wanted},
	} {
		if bytes.HasPrefix(data, []byte(f.begins)) && bytes.Contains(data[:min(len(data), 1<<16)],
			[]byte(f.has)) {
			return f.is
		}
	}
	return ""
}

// otherTextFormat recognises text files that cannot be imported. It returns "" for all others.
func otherTextFormat(text []byte) string {
	start := bytes.ToLower(bytes.TrimSpace(text[:min(len(text), 2048)]))
	begins := func(s string) bool { return bytes.HasPrefix(start, []byte(s)) }
	switch {
	case begins("<!doctype html"), begins("<html"), begins("<") &&
		bytes.Contains(start, []byte("<html")):
		return "is a web page (HTML), perhaps the sign-in page: sign in and download the export again, as CSV, OFX or Flex XML"
	case begins("<") && bytes.Contains(start,
		[]byte("urn:schemas-microsoft-com:office:spreadsheet")):
		return "is a spreadsheet in XML: save it as CSV"
	case begins("{\""), begins("[{"), begins("{") && bytes.HasPrefix(bytes.TrimSpace(start[1:]),
		[]byte("\"")):
		return "is JSON: download CSV from the broker"
	case begins("!type:"), begins("!account"), begins("!option:"):
		return "is QIF: download CSV, OFX or QFX from the broker"
	}
	return ""
}

// oneLine returns a record on one line of at most 160 characters, for messages.
func oneLine(s string) string { return text.Shorten(text.OneLine(s), 160) }

// recordText returns a record on one line. It is long enough for the tickers that it names.
func recordText(s string) string { return text.Shorten(text.OneLine(s), 500) }
