package importer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// cp1252 holds the characters of the bytes 0x80 to 0x9f in Windows-1252; the five holes stay control characters.
const cp1252 = "€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ"

// decodeText makes UTF-8 of what brokers and spreadsheets write, with LF line ends. The note is not empty if the
// encoding had to be guessed.
func decodeText(data []byte) (text []byte, note string, err error) {
	if what := foreign(data); what != "" {
		return nil, "", errors.New(what)
	}
	switch order := withoutMark(data); {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		text = data[3:]
	case bytes.HasPrefix(data, []byte("\xff\xfe")):
		text, err = decodeUTF16(data[2:], binary.LittleEndian)
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		text, err = decodeUTF16(data[2:], binary.BigEndian)
	case order != nil:
		text, err = decodeUTF16(data, order)
		note = "the file does not name its encoding and was read as UTF-16"
	default:
		text = data
	}
	if err != nil {
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
		text = decode1252(text)
		note = "the file is not UTF-8 and was read as Windows-1252"
	}
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	return bytes.ReplaceAll(text, []byte("\r"), []byte("\n")), note, nil
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

// withoutMark knows UTF-16 that does not begin with its mark: of plain letters every second byte is zero.
func withoutMark(data []byte) binary.ByteOrder {
	head := data[:min(len(data)&^1, 64)]
	zeros := [2]int{}
	for i, b := range head {
		if b == 0 {
			zeros[i%2]++
		}
	}
	switch half := len(head) / 2; {
	case half < 4:
	case zeros == [2]int{0, half}:
		return binary.LittleEndian
	case zeros == [2]int{half, 0}:
		return binary.BigEndian
	}
	return nil
}

func decodeUTF16(data []byte, order binary.ByteOrder) ([]byte, error) {
	if len(data)%2 != 0 {
		return nil, fmt.Errorf("is UTF-16 with half a character at its end: it was cut off")
	}
	units := make([]uint16, len(data)/2)
	for i := range units {
		units[i] = order.Uint16(data[2*i:])
	}
	return []byte(string(utf16.Decode(units))), nil
}

func decode1252(data []byte) []byte {
	high := []rune(cp1252)
	var out bytes.Buffer
	for _, b := range data {
		if b >= 0x80 && b <= 0x9f {
			out.WriteRune(high[b-0x80])
		} else {
			out.WriteRune(rune(b))
		}
	}
	return out.Bytes()
}

// oneLine makes a record printable: no line breaks, at most 160 characters.
func oneLine(s string) string {
	r := []rune(strings.Join(strings.Fields(s), " "))
	if len(r) > 160 {
		return string(r[:159]) + "…"
	}
	return string(r)
}
