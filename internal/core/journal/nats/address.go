package nats

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	natsgo "github.com/nats-io/nats.go"

	"signalbox"
	"signalbox/internal/core/journal/driver"
	"signalbox/internal/lazy"
)

// defaultName is the name of a box whose address has none.
const defaultName = "signalbox"

// passwordVariable is the environment variable with the password of a user whom an address names,
// as for the programs of NATS.
const passwordVariable = "NATS_PASSWORD"

// names are the names that a box may have. Names of other streams of the box have an underscore.
var names = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9-]{0,62}$`)

// address is a parsed address.
type address struct {
	servers  []string
	name     string
	replicas int // 0 means as many as are sensible
	options  []natsgo.Option
}

// parseAddress parses nats://HOST:PORT,HOST:PORT/NAME?PARAMETERS. Files are relative to dir. Its
// errors never contain the address, which may contain a password.
func parseAddress(text, dir string) (a address, err error) {
	invalid := func(why string) (address, error) {
		return a, signalbox.CodeUsage.Errorf(
			"write nats://HOST:PORT/NAME, or nats://HOST:PORT,HOST:PORT,HOST:PORT/NAME?credentials=FILE",
			"the address of the journal is not valid: %s", why)
	}
	scheme, rest, found := strings.Cut(text, "://")
	if !found || scheme != "nats" && scheme != "tls" {
		return invalid("it does not begin with nats://")
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, name, _ := strings.Cut(rest, "/")
	if a.name = strings.TrimSuffix(name, "/"); a.name == "" {
		a.name = defaultName
	}
	if !names().MatchString(a.name) {
		return invalid("the name of a box has letters, digits and hyphens, at most 63")
	}
	user, hosts := cutUser(hosts)
	if name, onlyName := strings.CutSuffix(user, "@"); onlyName && !strings.Contains(name, ":") {
		if name, err = url.PathUnescape(name); err != nil {
			return invalid("the name of the user cannot be read")
		}
		a.options = append(a.options, natsgo.UserInfo(name, os.Getenv(passwordVariable)))
		user = ""
	}
	for host := range strings.SplitSeq(hosts, ",") {
		server, err := url.Parse(scheme + "://" + user + host)
		if err != nil || server.Hostname() == "" {
			return invalid("a server is HOST or HOST:PORT")
		}
		a.servers = append(a.servers, server.String())
	}
	parameters, err := url.ParseQuery(query)
	if err != nil {
		return invalid("its parameters cannot be read")
	}
	if err := a.readParameters(parameters, dir); err != nil {
		return a, err
	}
	return a, nil
}

// cutUser splits USER:PASSWORD@HOSTS. The user is for all hosts.
func cutUser(text string) (user, hosts string) {
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		return text[:i+1], text[i+1:]
	}
	return "", text
}

func (a *address) readParameters(parameters url.Values, dir string) error {
	known := []string{"credentials", "ca", "cert", "key", "replicas"}
	for name := range parameters {
		if !slices.Contains(known, name) {
			return driver.UsageError(
				"the address of the journal has an unknown parameter %q; use %s", name,
				strings.Join(known, ", "))
		}
	}
	for _, name := range known[:4] {
		if file := parameters.Get(name); file != "" {
			if !filepath.IsAbs(file) {
				file = filepath.Join(dir, file)
				parameters.Set(name, file)
			}
			if _, err := os.Stat(file); err != nil {
				return signalbox.CodeFailed.Errorf("correct the address of the journal",
					"the file of %s cannot be read: %w", name, err)
			}
		}
	}
	if file := parameters.Get("credentials"); file != "" {
		a.options = append(a.options, natsgo.UserCredentials(file))
	}
	if file := parameters.Get("ca"); file != "" {
		a.options = append(a.options, natsgo.RootCAs(file))
	}
	if cert, key := parameters.Get("cert"), parameters.Get("key"); cert != "" || key != "" {
		if cert == "" || key == "" {
			return driver.UsageError(
				"the address of the journal needs both cert and key, or neither")
		}
		a.options = append(a.options, natsgo.ClientCert(cert, key))
	}
	if text := parameters.Get("replicas"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 5 {
			return driver.UsageError("replicas is %q; it is a number from 1 to 5", text)
		}
		a.replicas = n
	}
	return nil
}
