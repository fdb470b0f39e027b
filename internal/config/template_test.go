package config

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/testkit/must"
)

// uncomment removes the comment marks from all settings of the template. Prose has two marks.
func uncomment(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimPrefix(line, "# "))
	}
	return b.String()
}

func TestTemplateSetsNothing(t *testing.T) {
	c, err := Parse([]byte(Template))
	must.Succeed(t, err)
	if diff := cmp.Diff(Default(), c); diff != "" {
		t.Errorf("(-default +template):\n%s", diff)
	}
	if n := strings.Count(Template, "\n"); n > 282 {
		t.Errorf("%d lines are too many for a new user", n)
	}
}

// TestTemplateBlocks uncomments one block at a time. A block that is not marked as an example has
// the defaults. The block of agents names a model and is parsed together with the models.
func TestTemplateBlocks(t *testing.T) {
	defaults, examples := 0, 0
	blocks := strings.Split(Template, "\n\n")
	models := uncomment(blocks[slices.IndexFunc(blocks,
		func(block string) bool { return strings.Contains(block, "\n# models:\n") })])
	for _, block := range blocks {
		text, standard := uncomment(block)+"\n", Default()
		if strings.Contains(block, "\n# agents:\n") {
			text += models
			standard = mustParse(t, models)
		}
		c, err := Parse([]byte(text))
		if err != nil {
			t.Errorf("%v in:\n%s", err, text)
			continue
		}
		diff := cmp.Diff(standard, c)
		if strings.Contains(block, "Example:\n") {
			examples++
			if diff == "" {
				t.Errorf("this example changes nothing:\n%s", text)
			}
		} else {
			defaults++
			if diff != "" {
				t.Errorf("this is neither the default nor marked as an example:\n%s\n(-default +block):\n%s", text, diff)
			}
		}
	}
	if defaults < 5 || examples < 10 {
		t.Errorf("found %d blocks with defaults and %d with examples", defaults, examples)
	}
}

// TestTemplateIsComplete checks that the template has every setting, and the default of every role.
func TestTemplateIsComplete(t *testing.T) {
	text := uncomment(Template)
	c, places, wrong := parse([]byte(text))
	if wrong != nil {
		t.Fatalf("%v in:\n%s", places.locate("", "", wrong), text)
	}
	set := map[string]bool{}
	for at := range places {
		set[general(at)] = true
	}
	for _, name := range settings(reflect.TypeFor[Config](), "") {
		if !set[name] {
			t.Errorf("the template does not have %s", name)
		}
	}
	for _, role := range AgentRoles() {
		got := c.RoleOf(role)
		got.Agent, got.Prompt, got.Budget = nil, "", Budget{}
		if _, ok := c.Roles[role]; !ok || !cmp.Equal(got, defaultRole(role)) {
			t.Errorf("%s: the template has %+v, the default is %+v", role, got, defaultRole(role))
		}
	}
	want := Checkpoint{
		File:    "/mnt/audit/signalbox.checkpoint",
		Command: []string{"ssh", "audit@example.org", "receive-checkpoint"},
		Webhook: "https://audit.example.org/checkpoints",
	}
	if diff := cmp.Diff(want, c.Checkpoint); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := (Budget{Tokens: 2_000_000, CostMicros: 7_500_000,
		Time: 2 * time.Hour}); c.Budget.Task != want {
		t.Errorf("budget %+v, want %+v", c.Budget.Task, want)
	}
	if got, want := c.Experts[0].Instructions,
		"You know our PostgreSQL schema; it is described in docs/schema.md.\nSay "; !strings.HasPrefix(got, want) {
		t.Errorf("instructions %q, want %q", got, want)
	}
	if notes := c.Notes(); len(notes) > 0 {
		t.Errorf("notes %q", notes)
	}
}

// settings returns the names of all settings in a type, as in the reference.
func settings(group reflect.Type, prefix string) []string {
	var names []string
	for i, name := range fieldNames(group) {
		name, inner := prefix+name, group.Field(i).Type
		switch inner.Kind() {
		case reflect.Map:
			if inner = inner.Elem(); inner.Kind() == reflect.Struct {
				name += ".NAME"
			}
		case reflect.Slice, reflect.Pointer:
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			names = append(names, settings(inner, name+".")...)
		} else {
			names = append(names, name)
		}
	}
	return names
}

// general returns the name of a setting, with NAME in place of names that users choose.
func general(at settingPath) string {
	names := strings.Split(at.String(), ".")
	chosen := 1
	if names[0] == "oracle" || names[0] == "mcp" {
		chosen = 2
	}
	if len(names) > chosen &&
		slices.Contains([]string{"agents", "roles", "models", "prices", "oracle.servers",
			"oracle.tools", "oracle.subagents", "mcp.clients"},
			strings.Join(names[:chosen], ".")) {
		names[chosen] = "NAME"
	}
	return strings.Join(names, ".")
}

func document(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/configuration.md")
	must.Succeed(t, err)
	return string(text)
}

// TestReferenceIsComplete checks that each setting has a row in the reference, with the right
// default.
func TestReferenceIsComplete(t *testing.T) {
	rows := map[string]string{}
	text, roles, _ := strings.Cut(document(t), "\n`NAME` is one of these roles:\n")
	roles, rest, _ := strings.Cut(roles, "\n```yaml\n")
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\|")
	for _, row := range row.FindAllStringSubmatch(text+rest, -1) {
		if _, twice := rows[row[1]]; twice {
			t.Errorf("%s has two rows", row[1])
		}
		rows[row[1]] = row[2]
	}
	names := settings(reflect.TypeFor[Config](), "")
	for _, name := range names {
		if rows[name] == "" {
			t.Errorf("%s has no row", name)
		}
	}
	for name := range rows {
		if !slices.Contains(names, name) {
			t.Errorf("there is no setting %s", name)
		}
	}
	described := row.FindAllStringSubmatch(roles, -1)
	for _, role := range described {
		r := defaultRole(signalbox.Role(role[1]))
		if want := fmt.Sprint(r.Slots); role[2] != want {
			t.Errorf("the role %s: %s slots, want %s", role[1], role[2], want)
		}
		if got, err := time.ParseDuration(strings.Trim(rows["roles.NAME.timeout"],
			"`")); err != nil || got != r.Timeout {
			t.Errorf("the timeout of the role %s is %s", role[1], r.Timeout)
		}
	}
	for _, role := range AgentRoles() {
		if !slices.ContainsFunc(described,
			func(row []string) bool { return row[1] == string(role) }) {
			t.Errorf("the role %s has no row", role)
		}
	}
	eachDefault(reflect.ValueOf(*Default()), "", func(name, standard string) {
		if want := "`" + standard + "`"; rows[name] != want {
			t.Errorf("%s: the document has the default %s, want %s", name, rows[name], want)
		}
	})
}

// eachDefault calls f for every default that is a single value.
func eachDefault(group reflect.Value, prefix string, f func(name, standard string)) {
	for i, name := range fieldNames(group.Type()) {
		field := group.Field(i)
		switch d, isTime := field.Interface().(time.Duration); {
		case field.Kind() == reflect.Struct:
			eachDefault(field, prefix+name+".", f)
		case field.IsZero() || field.Kind() == reflect.Slice:
		case isTime:
			f(prefix+name, short(d))
		default:
			f(prefix+name, fmt.Sprint(field.Interface()))
		}
	}
}

// short formats 15m0s as 15m.
func short(d time.Duration) string {
	if text, whole := strings.CutSuffix(d.String(), "m0s"); whole {
		return text + "m"
	}
	return d.String()
}

// TestReferenceExamples checks that every example in the reference is valid.
func TestReferenceExamples(t *testing.T) {
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(document(t), -1)
	if len(examples) < 8 {
		t.Errorf("found %d examples", len(examples))
	}
	for _, example := range examples {
		if _, err := Parse([]byte(example[1])); err != nil {
			t.Errorf("%v in:\n%s", err, example[1])
		}
	}
}
