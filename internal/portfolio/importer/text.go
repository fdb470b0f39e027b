package importer

import (
	"bytes"
	"encoding/binary"
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
	switch {
	case bytes.HasPrefix(data, []byte("PK\x03\x04")):
		return nil, "", fmt.Errorf("is a spreadsheet or zip file: export it as CSV")
	case bytes.HasPrefix(data, []byte("%PDF")):
		return nil, "", fmt.Errorf("is a PDF: ask the broker for CSV, OFX or Flex XML")
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		text = data[3:]
	case bytes.HasPrefix(data, []byte("\xff\xfe")):
		text, err = decodeUTF16(data[2:], binary.LittleEndian)
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		text, err = decodeUTF16(data[2:], binary.BigEndian)
	default:
		text = data
	}
	if err != nil {
		return nil, "", err
	}
	if bytes.IndexByte(text, 0) >= 0 {
		return nil, "", fmt.Errorf("has zero bytes and is no text: save it as UTF-8")
	}
	if !utf8.Valid(text) {
		text = decode1252(text)
		note = "the file is not UTF-8 and was read as Windows-1252"
	}
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	return bytes.ReplaceAll(text, []byte("\r"), []byte("\n")), note, nil
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
