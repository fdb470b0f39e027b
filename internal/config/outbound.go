package config

import (
	"net/url"
	"slices"
)

// Webhook is a server that gets the events of the ledger. In the text it may be only the address.
type Webhook struct {
	URL string `yaml:"url"`
	// SecretEnv and SecretFile name the secret that signs the requests, as in NotifyWebhook.
	SecretEnv  string `yaml:"secret_env"`
	SecretFile string `yaml:"secret_file"`
	// Types are the types of the events that it gets; nil means all.
	Types []string `yaml:"types"`
}

// Traces configures where traces are sent. In the text it may be only the address.
type Traces struct {
	// Endpoint is the address of an OpenTelemetry collector that accepts OTLP over HTTP. Empty
	// means that there are no traces.
	Endpoint string `yaml:"endpoint"`
	// HeadersEnv is the environment variable with headers for the requests, such as a token:
	// NAME=VALUE, separated by commas. Empty means none.
	HeadersEnv string `yaml:"headers_env"`
}

func (Webhook) mainField() string { return "url" }
func (Traces) mainField() string  { return "endpoint" }

func (Webhook) unknownHint(name string) string { return secretHint(name, "secret_env") }
func (Traces) unknownHint(name string) string  { return secretHint(name, "headers_env") }

// checkOutbound checks where the ledger and traces are sent.
func (c *Config) checkOutbound(f *faults) {
	for i, w := range c.Webhooks {
		at := setting("webhooks").item(i)
		if w.URL == "" {
			f.fail(at, "add the address that gets the events", "needs url")
		}
		f.add(checkWebhook(at.field("url"), w.URL))
		f.add(checkSecretEnv(at.field("secret_env"), w.SecretEnv))
		if first := slices.IndexFunc(c.Webhooks,
			func(other Webhook) bool { return other.URL == w.URL }); first < i && w.URL != "" {
			f.fail(at.field("url"), "list all types under one of them",
				"is the address of another webhook")
		}
	}
	at := setting("traces")
	f.add(checkAddress(at.field("endpoint"), c.Traces.Endpoint))
	if u, err := url.Parse(c.Traces.Endpoint); err == nil && u.User != nil {
		f.fail(at.field("endpoint"),
			"do not write secrets here; set headers_env to the name of the environment variable that has the headers", "has a password")
	}
	if c.Traces.HeadersEnv != "" {
		f.add(checkSecretEnv(at.field("headers_env"), c.Traces.HeadersEnv))
	}
	if c.Traces.Endpoint == "" && c.Traces.HeadersEnv != "" {
		f.fail(at, "add endpoint, or remove traces", "needs endpoint")
	}
}
