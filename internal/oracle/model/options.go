package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Options are what a Client may be given.
type Options struct {
	// Key is the API key. Zero: none is sent, which the providers' own hosts do not take.
	Key string
	// KeyName is the environment variable that Key comes from; errors name it. Zero: OPENAI_API_KEY or ANTHROPIC_API_KEY.
	KeyName string
	// BaseURL is where the server is. Zero: the provider's own. A URL without a path gets the /v1 of OpenAI-compatible
	// servers; Anthropic's is taken with and without.
	BaseURL string
	// MaxTokens is how long a reply may be. Zero: 8,192 for Anthropic, which must be told, else what the server thinks best.
	MaxTokens int64
	// Price is what tokens cost. Zero: nothing.
	Price Price
	// Tries is how often a reply is asked for in all. Zero: 5. A server that cannot be reached is asked at most 3 times.
	Tries int
	// MaxWait is the longest wait before another try, whatever the server says. Zero: a minute.
	MaxWait time.Duration
	// Timeout is how long the server may be silent. A reply that keeps coming may take as long as it wants. Zero: 2 minutes.
	Timeout time.Duration
	// Sleep waits, or returns the context's error when that ends first. Zero: it really waits.
	Sleep func(context.Context, time.Duration) error
	// Proxy chooses a proxy for a request. Zero: none is used; http.ProxyFromEnvironment is what most programs want.
	Proxy func(*http.Request) (*url.URL, error)
	// Transport carries the requests. Zero: one of the client's own, with room for a thousand conversations; Proxy is for that.
	Transport http.RoundTripper
}

// Price is in US dollars for a million tokens.
type Price struct {
	Input, Output float64
	// Cached is for input that the server had seen before. Zero: as Input.
	Cached float64
}

func (p Price) cost(u Usage) float64 {
	fresh := float64(u.Input - u.Cached)
	return (fresh*p.Input + float64(u.Cached)*cmp.Or(p.Cached, p.Input) + float64(u.Output)*p.Output) / 1e6
}

// Client asks one model of one server. It is safe for concurrent use.
type Client struct {
	provider Provider
	model    string
	opts     Options
	base     *url.URL
	official bool // the base URL is the provider's own
	http     *http.Client
	protocol protocol
}

// idlePerHost lets a thousand conversations keep their connections between turns.
const idlePerHost = 1024

// New makes a client for a model. It asks nobody yet, but a key that is missing where one is needed is an *Error already.
func New(provider Provider, model string, opts *Options) (*Client, error) {
	c := &Client{provider: provider, model: model}
	if opts != nil {
		c.opts = *opts
	}
	own, keyName := "https://api.openai.com/v1", "OPENAI_API_KEY"
	switch provider {
	case OpenAI:
	case Anthropic:
		own, keyName = "https://api.anthropic.com", "ANTHROPIC_API_KEY"
	default:
		return nil, fmt.Errorf("model provider %q is not known: use %q or %q", provider, OpenAI, Anthropic)
	}
	if strings.TrimSpace(model) == "" {
		return nil, errors.New("no model is named: set one")
	}
	c.opts.KeyName = cmp.Or(c.opts.KeyName, keyName)
	c.opts.Tries = cmp.Or(c.opts.Tries, 5)
	c.opts.MaxWait = cmp.Or(c.opts.MaxWait, time.Minute)
	c.opts.Timeout = cmp.Or(c.opts.Timeout, 2*time.Minute)
	if c.opts.Tries < 0 || c.opts.MaxWait < 0 || c.opts.Timeout < 0 || c.opts.MaxTokens < 0 {
		return nil, errors.New("tries, waits, timeouts and tokens of a model cannot be negative")
	}
	if c.opts.Sleep == nil {
		c.opts.Sleep = sleep
	}
	if err := c.setBase(cmp.Or(c.opts.BaseURL, own)); err != nil {
		return nil, err
	}
	if c.official && c.opts.Key == "" {
		return nil, &Error{Kind: ErrorKey, Hint: "set " + c.opts.KeyName + " to your key, or a base URL if the model runs elsewhere",
			Err: fmt.Errorf("no key for %s: %s is not set", c.base.Host, c.opts.KeyName)}
	}
	c.setTransport()
	c.protocol = chat{}
	if provider == Anthropic {
		c.protocol = messages{}
	}
	return c, nil
}

// setBase reads the base URL, and puts right what people get wrong about its end.
func (c *Client) setBase(text string) error {
	base, err := url.Parse(text)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return fmt.Errorf("base URL %q of the model's server does not begin with http:// or https://: write it like http://localhost:8080/v1", text)
	}
	if base.RawQuery != "" || base.Fragment != "" {
		return fmt.Errorf("base URL %q of the model's server must end with its path", text)
	}
	base.Path = strings.TrimRight(base.Path, "/")
	switch {
	case c.provider == Anthropic:
		base.Path = strings.TrimSuffix(base.Path, "/v1")
	case base.Path == "":
		base.Path = "/v1"
	}
	host := base.Hostname()
	domain := map[Provider]string{OpenAI: "openai.com", Anthropic: "anthropic.com"}[c.provider]
	c.official = host == domain || strings.HasSuffix(host, "."+domain)
	c.base = base
	return nil
}

func (c *Client) setTransport() {
	transport := c.opts.Transport
	if transport == nil {
		transport = &http.Transport{
			Proxy:                 c.opts.Proxy,
			DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			ForceAttemptHTTP2:     true,
			MaxIdleConnsPerHost:   idlePerHost,
			IdleConnTimeout:       90 * time.Second,
			TLSHandshakeTimeout:   10 * time.Second,
			ExpectContinueTimeout: time.Second,
			// A compressed stream comes in lumps.
			DisableCompression: true,
		}
	}
	c.http = &http.Client{
		Transport: transport,
		// A redirect would carry the key, and the conversation, to a host that nobody named.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Close gives up the idle connections. Replies under way go on, and the client may still be used.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return ctx.Err()
	}
}
