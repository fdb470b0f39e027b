package rules

import (
	"reflect"

	"signalbox"
)

// Blobs returns the digests of the blobs that an event refers to: all fields of type signalbox.Hash
// in its data that are set, except those with the tag `blob:"-"`. A new field is a reference unless
// its tag says otherwise, so none can be forgotten. The error is ErrNewer.
func Blobs(e *signalbox.Event) ([]signalbox.Hash, error) {
	if _, known := decoders[e.Type]; known && !mayHaveDigest(e.Data) {
		return nil, nil
	}
	b, err := decode(e)
	if err != nil {
		return nil, err
	}
	return appendBlobs(nil, reflect.ValueOf(b)), nil
}

// mayHaveDigest reports whether JSON may contain a digest. Most events contain none, and need not
// be decoded to know it. Any character of a digest may be written as an escape.
func mayHaveDigest(data []byte) bool {
	digits := 0
	for _, c := range data {
		switch {
		case c == '\\':
			return true
		case '0' <= c && c <= '9' || 'a' <= c && c <= 'f':
			if digits++; digits == 2*len(signalbox.Hash{}) {
				return true
			}
		default:
			digits = 0
		}
	}
	return false
}

func appendBlobs(found []signalbox.Hash, v reflect.Value) []signalbox.Hash {
	if digest, ok := v.Interface().(signalbox.Hash); ok {
		if digest != (signalbox.Hash{}) {
			found = append(found, digest)
		}
		return found
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("blob") != "-" {
				found = appendBlobs(found, v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			found = appendBlobs(found, v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			found = appendBlobs(found, v.Elem())
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			found = appendBlobs(found, entries.Value())
		}
	}
	return found
}
