package rules

import (
	"crypto/sha256"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// notBlobs are the digests in events that are not those of blobs.
var notBlobs = []string{"PolicySet.Policy.CheckSet", "LeaseGranted.Secret", "LossAccepted.Hash",
	"LedgerRepaired.Kept", "ChecksRan.Change",
	"PolicySet.Policy.AgentSettings[0].Settings", "PolicySet.Policy.AgentSettings[1].Settings"}

// TestBlobsFindsEveryDigest sets every digest of every type of event, wherever it is. Blobs must
// return all except notBlobs. A new event with a digest needs no change here, unless the digest is
// not that of a blob.
func TestBlobsFindsEveryDigest(t *testing.T) {
	total := 0
	var excluded []string
	for name, read := range decoders {
		empty, err := read([]byte("{}"), true)
		must.Succeed(t, err)
		full := reflect.New(reflect.TypeOf(empty)).Elem()
		set := map[string]signalbox.Hash{}
		setDigests(t, name, full, set)
		data, err := json.Marshal(full.Interface())
		must.Succeed(t, err)
		found, err := Blobs(&signalbox.Event{Type: name, Data: data})
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		for path, digest := range set {
			switch isFound := slices.Contains(found, digest); {
			case slices.Contains(notBlobs, path):
				excluded = append(excluded, path)
				if isFound {
					t.Errorf("%s counts as a blob", path)
				}
			case !isFound:
				t.Errorf("%s is not found in %s", path, data)
			default:
				total++
			}
		}
	}
	if total < 20 || len(excluded) != len(notBlobs) {
		t.Errorf("%d references found, and %v excluded", total, excluded)
	}
}

// setDigests fills lists with two elements, and sets every digest to the hash of its path.
func setDigests(t *testing.T, path string, v reflect.Value, set map[string]signalbox.Hash) {
	if v.Type() == reflect.TypeFor[signalbox.Hash]() {
		set[path] = sha256.Sum256([]byte(path))
		v.Set(reflect.ValueOf(set[path]))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				setDigests(t, path+"."+f.Name, v.Field(i), set)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		setDigests(t, path+"[0]", v.Index(0), set)
		setDigests(t, path+"[1]", v.Index(1), set)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		setDigests(t, path, v.Elem(), set)
	case reflect.Map:
		element := reflect.New(v.Type().Elem()).Elem()
		setDigests(t, path+"[key]", element, set)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.Zero(v.Type().Key()), element)
	case reflect.Interface, reflect.Chan, reflect.Func:
		t.Errorf("%s is of kind %v, which may hide a digest", path, v.Kind())
	}
}

// A digest with escapes is a digest for the rules.
func TestBlobsFindsEscapedDigest(t *testing.T) {
	data := []byte(`{"epoch":1,"exit":0,"output":"\u0061` + strings.Repeat("b", 63) + `"}`)
	found, err := Blobs(&signalbox.Event{Seq: 1, Type: TypeAgentTurnEnded, Data: data})
	if err != nil || len(found) != 1 || found[0].String() != "a"+strings.Repeat("b", 63) {
		t.Errorf("%s: found %v, %v", data, found, err)
	}
}

func TestBlobsOfUnknownEvent(t *testing.T) {
	for _, e := range []signalbox.Event{
		{Seq: 1, Type: "FromTheFuture", Data: []byte(`{"blob":"aa"}`)},
		{Seq: 1, Type: TypeSignalHeard, Data: []byte(`{"new":"` + strings.Repeat("a", 64) + `"}`)},
	} {
		if found, err := Blobs(&e); err == nil {
			t.Errorf("%s: %v, want an error", e.Type, found)
		}
	}
}
