package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"signalbox"
	"signalbox/brief"
	"signalbox/internal/lazy"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/serve/access"
)

// The types below are the parts of an OpenAPI 3.1 document that this API needs. Its schemas are
// JSON Schema.
type (
	document struct {
		OpenAPI    string                              `json:"openapi"`
		Info       info                                `json:"info"`
		Servers    []server                            `json:"servers"`
		Tags       []tag                               `json:"tags"`
		Paths      map[string]map[string]*documentedOp `json:"paths"`
		Components components                          `json:"components"`
	}
	info struct {
		Title       string  `json:"title"`
		Version     string  `json:"version"`
		Description string  `json:"description"`
		License     license `json:"license"`
	}
	license struct {
		Name       string `json:"name"`
		Identifier string `json:"identifier"`
	}
	server struct {
		URL string `json:"url"`
	}
	tag struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	documentedOp struct {
		OperationID string          `json:"operationId"`
		Summary     string          `json:"summary"`
		Description string          `json:"description"`
		Tags        []string        `json:"tags"`
		Parameters  []parameter     `json:"parameters,omitempty"`
		RequestBody *body           `json:"requestBody,omitempty"`
		Responses   map[string]body `json:"responses"`
		Security    []requirement   `json:"security"`
	}
	parameter struct {
		Name        string             `json:"name"`
		In          string             `json:"in"`
		Required    bool               `json:"required"`
		Description string             `json:"description,omitempty"`
		Schema      *jsonschema.Schema `json:"schema"`
	}
	body struct {
		Description string           `json:"description,omitempty"`
		Required    bool             `json:"required,omitempty"`
		Content     map[string]media `json:"content,omitempty"`
	}
	media struct {
		Schema *jsonschema.Schema `json:"schema,omitempty"`
	}
	components struct {
		Schemas         map[string]*jsonschema.Schema `json:"schemas"`
		SecuritySchemes map[string]securityScheme     `json:"securitySchemes"`
	}
	// requirement has the scope for each of its schemes. OpenAPI 3.1 allows it for every type of
	// scheme, not only for OAuth.
	requirement    map[string][]access.Scope
	securityScheme struct {
		Type        string `json:"type"`
		Description string `json:"description"`
		Scheme      string `json:"scheme,omitempty"`
		In          string `json:"in,omitempty"`
		Name        string `json:"name,omitempty"`
	}
)

// Names of the security schemes.
const (
	schemeToken  = "token"
	schemeCookie = "cookie"
)

// scopesText explains the scopes that operations need.
const scopesText = "It has a scope: read, answer, which includes read, or operate, which includes " +
	"all others. " +
	"session:ID, the scope of a lease's secret, is for the operations of one session."

// scopeOfSession is how the document names the scope of the session in the path.
var scopeOfSession = access.Session("ID")

// documentOf returns the OpenAPI document of some operations. cookie is the name of the cookie that
// browsers send.
func documentOf(operations []operation, version, cookie string) ([]byte, error) {
	d := document{
		OpenAPI: "3.1.0",
		Info: info{Title: "signalbox", Version: version,
			License:     license{"Apache License 2.0", "Apache-2.0"},
			Description: "Reads and controls a box. Every request needs a token. Times are in RFC 3339. Costs are in millionths of a dollar."},
		Servers: []server{{Prefix}},
		Paths:   map[string]map[string]*documentedOp{},
		Components: components{Schemas: map[string]*jsonschema.Schema{},
			SecuritySchemes: map[string]securityScheme{
				schemeToken: {Type: "http", Scheme: "bearer",
					Description: "A token that signalbox token create " +
						"prints, or the secret of a lease. " + scopesText},
				schemeCookie: {Type: "apiKey", In: "cookie", Name: cookie,
					Description: "The cookie of a browser that has logged in. " + scopesText}}},
	}
	for name, t := range map[string]reflect.Type{"Problem": reflect.TypeFor[Problem](),
		"Event": reflect.TypeFor[documentedEvent]()} {
		schema, err := d.schema(t)
		if err != nil {
			return nil, err
		}
		d.Components.Schemas[name] = schema
	}
	groups := map[string]bool{}
	for i := range operations {
		o := &operations[i]
		documented, err := d.operation(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.name, err)
		}
		path := wildcard().ReplaceAllString(o.path, "{$1}")
		if d.Paths[path] == nil {
			d.Paths[path] = map[string]*documentedOp{}
		}
		d.Paths[path][strings.ToLower(o.method)] = documented
		groups[o.group] = true
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		if groupDescriptions[name] == "" {
			return nil, fmt.Errorf("the group %s has no description", name)
		}
		d.Tags = append(d.Tags, tag{name, groupDescriptions[name]})
	}
	return json.MarshalIndent(d, "", "  ")
}

// groupDescriptions says what the operations of each group do.
var groupDescriptions = map[string]string{
	"inspect":   "Shows what is going on.",
	"work":      "Opens and claims work, and submits exit signals.",
	"decide":    "Takes the decisions of the human.",
	"ledger":    "Verifies the ledger and proves events.",
	"events":    "Reads and follows the events of the ledger.",
	"portfolio": "Answers questions about the portfolio.",
	"oracle":    "Asks the oracle, and reads its conversations.",
}

// documentedEvent has the fields of the JSON form of a signalbox.Event.
type documentedEvent struct {
	Seq     uint64         `json:"seq"`
	Time    time.Time      `json:"time"`
	Type    string         `json:"type"`
	Work    string         `json:"work"`
	Session string         `json:"session"`
	Actor   string         `json:"actor"`
	Data    map[string]any `json:"data"`
	Prev    signalbox.Hash `json:"prev"`
	Hash    signalbox.Hash `json:"hash"`
	Exact   string         `json:"data_base64,omitempty" jsonschema:"the bytes of data, in base64, if they cannot be recovered from the field data"`
}

// wildcard matches a wildcard of http.ServeMux.
var wildcard = lazy.Regexp(`\{([a-z]+)(\.\.\.)?\}`)

func (d *document) operation(o *operation) (*documentedOp, error) {
	problem := map[string]media{mediaJSON: {component("Problem")}}
	op := &documentedOp{OperationID: o.name, Summary: o.summary, Tags: []string{o.group},
		Responses: map[string]body{
			"4XX": {Description: "The request is wrong, not allowed or refused.", Content: problem},
			"5XX": {Description: "The server is busy or failed.", Content: problem}}}
	op.Description, op.Security = o.requirements()
	answer := media{}
	if o.output != nil {
		schema, err := d.schema(o.output)
		if err != nil {
			return nil, err
		}
		if items := schema.Properties["items"]; items != nil {
			items.Type, items.Types = "array", nil // listOf makes it an array, if only an empty one
		}
		answer.Schema = schema
	} else if o.media == mediaText || o.media == mediaLines {
		answer.Schema = &jsonschema.Schema{Type: "string"}
	}
	op.Responses["200"] = body{Description: "The answer.", Content: map[string]media{cmp.Or(o.media, mediaJSON): answer}}
	hasBody := false
	for i := range o.input.NumField() {
		field := o.input.Field(i)
		where, name := inPath, field.Tag.Get(inPath)
		if name == "" {
			where, name = inQuery, field.Tag.Get(inQuery)
		}
		if name == "" {
			hasBody = true
			continue
		}
		schema, err := jsonschema.ForType(field.Type,
			&jsonschema.ForOptions{TypeSchemas: textTypes()})
		if err != nil {
			return nil, err
		}
		op.Parameters = append(op.Parameters,
			parameter{Name: name, In: where, Required: where == inPath,
				Description: field.Tag.Get("jsonschema"), Schema: schema})
	}
	if hasBody && o.writes() {
		schema, err := d.schema(o.input)
		if err != nil {
			return nil, err
		}
		op.RequestBody = &body{Required: len(schema.Required) > 0, Content: map[string]media{mediaJSON: {schema}}}
	}
	return op, nil
}

// requirements returns what a caller of an operation needs, in words and for programs.
func (o *operation) requirements() (description string, security []requirement) {
	if o.ofSession {
		return "Needs a token with the scope session:ID of this session, or operate.",
			[]requirement{{schemeToken: {scopeOfSession}},
				{schemeToken: {access.Operate}}, {schemeCookie: {access.Operate}}}
	}
	scope := o.scope.OfToken()
	description = "Needs a token with the scope " + string(scope)
	if o.scope == access.Read {
		description += ", unless the server was started with --anonymous-read"
	}
	return description + ".", []requirement{{schemeToken: {scope}}, {schemeCookie: {scope}}}
}

// schema returns the schema of a type. Fields that come from the URL have the JSON name "-", so
// they are not part of it.
func (d *document) schema(t reflect.Type) (*jsonschema.Schema, error) {
	return jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: textTypes()})
}

// textTypes returns the schemas of types that JSON has as text or as a number.
func textTypes() map[reflect.Type]*jsonschema.Schema {
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
		reflect.TypeFor[signalbox.Hash]():  {Type: "string", Pattern: "^[0-9a-f]{64}$"},
		reflect.TypeFor[signalbox.Event](): component("Event"),
		reflect.TypeFor[json.RawMessage](): {},
		reflect.TypeFor[answer.Amount]():   {Type: "number"},
		reflect.TypeFor[brief.Number]():    {Type: "number"},
	}
}

// component returns a reference to a schema under components.
func component(name string) *jsonschema.Schema {
	return &jsonschema.Schema{Ref: "#/components/schemas/" + name}
}

// serveDocument serves the OpenAPI document.
func (a *API) serveDocument(w http.ResponseWriter, r *http.Request) {
	// It names the box and the version of the program.
	if _, err := a.guard.Check(r, access.Read, false); err != nil {
		a.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", mediaJSON)
	w.Write(a.document)
}
