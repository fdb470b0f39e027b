package importer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unicode/utf16"
)

// cp1252 holds the characters of the bytes 0x80 to 0x9f in Windows-1252. Five bytes have no
// character and stay control characters.
const cp1252 = "€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ"

// decodeBOM removes the byte order mark and converts UTF-16 to UTF-8. Text without a mark may still
// be in another encoding. The note is not empty if the encoding had to be guessed.
func decodeBOM(data []byte) (text []byte, note string, err error) {
	switch order := guessUTF16(data); {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return data[3:], "", nil
	case bytes.HasPrefix(data, []byte("\xff\xfe")):
		text, err = decodeUTF16(data[2:], binary.LittleEndian)
		return text, "", err
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		text, err = decodeUTF16(data[2:], binary.BigEndian)
		return text, "", err
	case order != nil:
		text, err = decodeUTF16(data, order)
		return text, "the file does not name its encoding and was read as UTF-16", err
	}
	return data, "", nil
}

// normalizeLineEnds replaces CR LF and CR by LF.
func normalizeLineEnds(text []byte) []byte {
	if bytes.IndexByte(text, '\r') < 0 {
		return text
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"),
		[]byte("\n"))
}

// guessUTF16 recognises UTF-16 without a byte order mark: in plain English text every second byte
// is zero. It returns nil for other text.
func guessUTF16(data []byte) binary.ByteOrder {
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
		return nil, fmt.Errorf(
			"is UTF-16 and ends with half a character: it was cut off; download it again")
	}
	units := make([]uint16, len(data)/2)
	for i := range units {
		units[i] = order.Uint16(data[2*i:])
	}
	return []byte(string(utf16.Decode(units))), nil
}

// decodeWindows1252 converts Windows-1252 to UTF-8.
func decodeWindows1252(data []byte) []byte {
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
