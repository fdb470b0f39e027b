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

// Options configure a Client.
type Options struct {
	// Key is the API key. If empty, none is sent; the providers' own hosts require one.
	Key string
	// KeyName is the environment variable that Key comes from, for hints. The default is
	// OPENAI_API_KEY or ANTHROPIC_API_KEY.
	KeyName string
	// BaseURL is the URL of the server. The default is the provider's own. An OpenAI-compatible URL
	// without a path gets /v1; an Anthropic URL may end with /v1 or not.
	BaseURL string
	// MaxTokens limits the length of a reply. The default is 8,192 for Anthropic, whose protocol
	// requires a limit, else the server's own.
	MaxTokens int64
	// LimitName is the name of MaxTokens in requests. Empty means the one that works with most
	// servers of the provider. Anthropic's protocol has only LimitMaxTokens.
	LimitName LimitName
	// Price is what tokens cost. The zero value means nothing.
	Price Price
	// Tries is the number of attempts per reply. The default is 5. A server that cannot be reached
	// is tried at most 3 times.
	Tries int
	// MaxWait is the longest pause before another attempt, whatever the server requests. The
	// default is a minute.
	MaxWait time.Duration
	// Timeout is how long the server may send nothing; a reply as a whole may take longer. The
	// default is 2 minutes.
	Timeout time.Duration
	// Sleep waits for a duration or returns the context's error when that ends first. Nil means a
	// real timer.
	Sleep func(context.Context, time.Duration) error
	// Proxy returns the proxy for a request. Nil means no proxy; most programs want
	// http.ProxyFromEnvironment.
	Proxy func(*http.Request) (*url.URL, error)
	// Transport sends the requests. Nil means one of the client's own, which uses Proxy.
	Transport http.RoundTripper
}

// LimitName is the name that a server has for the limit of a reply.
type LimitName string

const (
	LimitMaxTokens           LimitName = "max_tokens"
	LimitMaxCompletionTokens LimitName = "max_completion_tokens"
	LimitNone                LimitName = "none" // no limit is sent
)

// Price is in US dollars per million tokens.
type Price struct {
	Input, Output float64
	// Cached is the price of input that the server had cached.
	Cached float64
}

func (p Price) cost(u Usage) float64 {
	uncached := float64(u.Input - u.Cached)
	return (uncached*p.Input + float64(u.Cached)*p.Cached + float64(u.Output)*p.Output) / 1e6
}

// Client requests replies from one model of one server. It is safe for concurrent use.
type Client struct {
	provider Provider
	model    string
	opts     Options
	base     *url.URL
	official bool // the base URL is the provider's own
	http     *http.Client
	protocol protocol
}

// New returns a client for a model. It does not connect. A missing key is an *Error.
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
		return nil, fmt.Errorf("model provider %q is not known: use %q or %q", provider, OpenAI,
			Anthropic)
	}
	if strings.TrimSpace(model) == "" {
		return nil, errors.New("the name of the model is empty: set one")
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
	if err := c.setLimitName(); err != nil {
		return nil, err
	}
	if c.official && c.opts.Key == "" {
		return nil, &Error{Kind: ErrorKey, Hint: "set " + c.opts.KeyName +
			" to your key, or a base URL if the model runs elsewhere",
			Err: fmt.Errorf("no key for %s: %s is not set", c.base.Host, c.opts.KeyName)}
	}
	c.setTransport()
	c.protocol = chat{}
	if provider == Anthropic {
		c.protocol = messages{}
	}
	return c, nil
}

// setLimitName validates LimitName and sets its default.
func (c *Client) setLimitName() error {
	if c.opts.LimitName == "" {
		c.opts.LimitName = LimitMaxTokens
		// OpenAI's newer models accept only the new name, most other servers only the old one.
		if c.provider == OpenAI && c.official {
			c.opts.LimitName = LimitMaxCompletionTokens
		}
	}
	switch name := c.opts.LimitName; {
	case name == LimitMaxTokens:
	case c.provider == Anthropic:
		return fmt.Errorf("the token limit of Anthropic's protocol cannot be %q: it is always %q",
			name, LimitMaxTokens)
	case name != LimitMaxCompletionTokens && name != LimitNone:
		return fmt.Errorf("the token limit cannot be called %q: use %q, %q or %q", name,
			LimitMaxTokens, LimitMaxCompletionTokens, LimitNone)
	}
	return nil
}

// setBase parses the base URL and accepts the usual variants of its path.
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
			Proxy: c.opts.Proxy,
			DialContext: (&net.Dialer{Timeout: 10 * time.Second,
				KeepAlive: 30 * time.Second}).DialContext,
			ForceAttemptHTTP2: true,
			// lets a thousand conversations keep their connections between turns
			MaxIdleConnsPerHost:   1024,
			IdleConnTimeout:       90 * time.Second,
			TLSHandshakeTimeout:   10 * time.Second,
			ExpectContinueTimeout: time.Second,
			// A compressed stream arrives in large pieces.
			DisableCompression: true,
		}
	}
	c.http = &http.Client{
		Transport: transport,
		// A redirect would send the key and the conversation to a host that is not configured.
		CheckRedirect: func(*http.Request,
			[]*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

// Close closes idle connections. Replies in progress continue, and the client may still be used.
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
