package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Origin is where a setting comes from.
type Origin string

// Origins of settings.
const (
	OriginDefault Origin = "default"
	OriginTeam    Origin = "team"
	OriginLocal   Origin = "local"
)

// Setting is one setting that has a value.
type Setting struct {
	// Name is like checks[0].command.
	Name   string `json:"name"`
	Value  string `json:"value"` // JSON
	Origin Origin `json:"origin"`
}

// Show returns the settings that count for a box, with the team's under those of the box, in the
// order of the reference. Settings without a value are omitted. A nil team is none.
func Show(dir string, team *Team) ([]Setting, error) {
	c, places, err := load(dir, team)
	if err != nil {
		return nil, err
	}
	return flatten(c, places), nil
}

// ShowTeam returns the settings that a team's configuration sets.
func ShowTeam(text []byte) ([]Setting, error) {
	c := Default()
	places, faults := read(text, c)
	if err := places.locate(FileName, "", faults); err != nil {
		return nil, err
	}
	for at, place := range places {
		place.team = true
		places[at] = place
	}
	return slices.DeleteFunc(flatten(c, places),
		func(s Setting) bool { return s.Origin != OriginTeam }), nil
}

// origin returns where a setting comes from. A null sets nothing, unless it is the name of a member
// of a group that users name.
func (ps places) origin(at settingPath, member bool) Origin {
	switch place, found := ps[at]; {
	case !found || place.value == nil && !member:
		return OriginDefault
	case place.team:
		return OriginTeam
	}
	return OriginLocal
}

// flatten returns the settings of a configuration that have a value.
func flatten(c *Config, set places) (all []Setting) {
	var walk func(v reflect.Value, at settingPath, name string, dollars bool)
	walk = func(v reflect.Value, at settingPath, name string, dollars bool) {
		if scalar, ok := showScalar(v, dollars); ok {
			if from := set.origin(at, false); !v.IsZero() || from != OriginDefault {
				all = append(all, Setting{name, scalar, from})
			}
			return
		}
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem(), at, name, dollars)
			}
		case reflect.Struct:
			for i, field := range fieldNames(v.Type()) {
				walk(v.Field(i), at.field(field), strings.TrimPrefix(name+"."+field, "."),
					v.Type().Field(i).Tag.Get("unit") == "dollars")
			}
		case reflect.Map:
			keys := v.MapKeys()
			slices.SortFunc(keys,
				func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
			for _, key := range keys {
				at, name, before := at.field(key.String()), name+"."+key.String(), len(all)
				walk(v.MapIndex(key), at, name, false)
				if len(all) == before { // that it exists can be a setting, as for roles
					all = append(all, Setting{name, "{}", set.origin(at, true)})
				}
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i), at.item(i), fmt.Sprintf("%s[%d]", name, i), false)
			}
		}
	}
	walk(reflect.ValueOf(c).Elem(), "", "", false)
	return all
}

// showScalar returns a value that is shown as a whole as JSON: everything that is not a group, or a
// list of groups.
func showScalar(v reflect.Value, dollars bool) (string, bool) {
	switch value := v.Interface().(type) {
	case json.RawMessage:
		return orDefault(string(value), "null"), true
	case AgentList:
		if len(value) == 1 { // as it is written
			return encode(value[0]), true
		}
	case time.Duration, Size, Cores:
		return encode(fmt.Sprint(value)), true
	}
	switch v.Kind() {
	case reflect.String:
		return encode(v.String()), true
	case reflect.Bool:
		return strconv.FormatBool(v.Bool()), true
	case reflect.Int, reflect.Int64:
		if dollars {
			return strconv.FormatFloat(float64(v.Int())/1e6, 'f', -1, 64), true
		}
		return strconv.FormatInt(v.Int(), 10), true
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.String {
			return encode(v.Interface()), true
		}
	}
	return "", false
}

// encode returns a text, or a list of texts, as JSON.
func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("config: a setting does not encode: " + err.Error())
	}
	return strings.TrimSpace(b.String())
}
