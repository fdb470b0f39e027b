package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"signalbox/internal/lazy"

	"signalbox"
)

// JournalSQLite is the value of Config.Journal for a ledger in the folder of the box.
const JournalSQLite = "sqlite"

// JournalCluster is the value of Config.Journal if the machines of the box run the database
// themselves, as the setting cluster says. All other values are addresses.
const JournalCluster = "cluster"

// DefaultSchema is the schema in a PostgreSQL database if an address names none.
const DefaultSchema = "signalbox"

// ReadJournal returns the setting journal of the box in a folder. It ignores faults of other
// settings and, if neither journal nor cluster is set, even a text that is not YAML, so that the
// ledger can be read before the configuration is valid.
func ReadJournal(dir string) (string, error) {
	c, err := readPlace(dir)
	if err != nil {
		return "", err
	}
	return c.Journal, nil
}

// fillJournal sets journal for a box that has only cluster. If both are set, journal wins: the
// ledger is not in the cluster yet, or no longer.
func (c *Config) fillJournal(set places) {
	if c.Cluster.isSet() && !set.has(setting("journal")) {
		c.Journal = JournalCluster
	}
}

// ReadCluster returns the setting cluster of the box in a folder, as ReadJournal does.
func ReadCluster(dir string) (*Cluster, error) {
	c, err := readPlace(dir)
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(c.Cluster.SecretFile) {
		c.Cluster.SecretFile = filepath.Join(dir, c.Cluster.SecretFile)
	}
	return &c.Cluster, nil
}

// readPlace returns a configuration in which only journal and cluster are valid.
func readPlace(dir string) (*Config, error) {
	name := filepath.Join(dir, FileName)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Default(), nil
	}
	if err != nil {
		return nil, signalbox.CodeFailed.Errorf("check that it is a file that you may read",
			"cannot read the configuration: %w", err)
	}
	if !mayPlace().Match(comments().ReplaceAll(text, nil)) { // most boxes, without parsing
		return Default(), nil
	}
	c := Default()
	places, all := read(text, c)
	var own faults
	for _, fault := range all {
		if fault.at == "" || strings.HasPrefix(string(fault.at), string(setting("journal"))) ||
			strings.HasPrefix(string(fault.at), string(setting("cluster"))) {
			own.add(fault)
		}
	}
	if len(own) > 0 && !setsPlace().Match(text) { // the word is in a comment, or in a value
		return Default(), nil
	}
	c.fillJournal(places)
	c.checkJournal(&own)
	c.checkCluster(&own)
	return c, places.locate(name, "", own)
}

// mayPlace matches texts that may set where the ledger is, and setsPlace those that do so in block
// style.
var (
	mayPlace  = lazy.Regexp(`journal|cluster`)
	setsPlace = lazy.Regexp(`(?m)^["']?(journal|cluster)["']?[ \t]*:.*$`)
)

// comments matches lines that are comments.
var comments = lazy.Regexp(`(?m)^[ \t]*#.*$`)

// setsJournal matches the setting in block style.
var setsJournal = lazy.Regexp(`(?m)^["']?journal["']?[ \t]*:.*$`)

// templateJournal is the line of the template that shows the setting.
var templateJournal = lazy.Regexp(`(?m)^# journal:.*$`)

// SetJournal returns a configuration with another value of journal. It changes only that line.
func SetJournal(text []byte, journal string) ([]byte, error) {
	line := []byte(fmt.Sprintf("journal: %q", journal))
	for _, known := range []*regexp.Regexp{setsJournal(), templateJournal()} {
		if found := known.FindIndex(text); found != nil {
			return verifyJournal(bytes.Join([][]byte{text[:found[0]], line, text[found[1]:]}, nil),
				journal)
		}
	}
	return verifyJournal(bytes.Join([][]byte{line, text}, []byte("\n")), journal)
}

// setsCluster matches the setting cluster in block style, with its fields.
var setsCluster = lazy.Regexp(`(?m)^["']?cluster["']?[ \t]*:.*(\n([ \t]+.*|[ \t]*#.*)?$)*`)

// WithoutJournal returns a configuration for a ledger in the folder of the box. Settings that say
// otherwise become comments.
func WithoutJournal(text []byte) ([]byte, error) {
	comment := func(lines []byte) []byte {
		return bytes.TrimSuffix(regexp.MustCompile(`(?m)^`).ReplaceAll(lines, []byte("# ")),
			[]byte("# "))
	}
	local := setsCluster().ReplaceAllFunc(setsJournal().ReplaceAllFunc(text, comment), comment)
	c, places, wrong := parse(local)
	if err := places.locate(FileName, "", wrong); err != nil {
		return nil, err
	}
	if c.Journal != JournalSQLite || c.Cluster.isSet() {
		return nil, signalbox.CodeFailed.Errorf("write it on a line of its own: journal: ADDRESS",
			"the setting journal cannot be changed automatically")
	}
	return local, nil
}

// verifyJournal returns text if its journal is the one given.
func verifyJournal(text []byte, journal string) ([]byte, error) {
	c, places, wrong := parse(text)
	if err := places.locate(FileName, "", wrong); err != nil {
		return nil, err
	}
	if c.Journal != journal {
		return nil, signalbox.CodeFailed.Errorf("write it on a line of its own: journal: ADDRESS",
			"the setting journal cannot be changed automatically")
	}
	return text, nil
}

// ManyMachines reports whether several machines can share the ledger, each with a folder of its own
// for the rest of the box.
func (c *Config) ManyMachines() bool {
	scheme := JournalScheme(c.Journal)
	return scheme != "" && (scheme != JournalCluster || len(c.Cluster.Nodes) > 1)
}

// JournalScheme returns the scheme of an address of a journal, "" for JournalSQLite.
func JournalScheme(journal string) string {
	scheme, _, _ := strings.Cut(journal, "://")
	switch scheme {
	case JournalSQLite:
		return ""
	case "postgresql":
		return "postgres"
	case "tls":
		return "nats"
	}
	return scheme
}

func (c *Config) checkJournal(f *faults) {
	const forms = "write sqlite, postgres://USER@HOST/DATABASE, nats://HOST:PORT/NAME, or cluster"
	at := setting("journal")
	fail := func(fault, hint string) { f.fail(at, hint, "%s", fault) }
	switch JournalScheme(c.Journal) {
	case "":
		if c.Journal != JournalSQLite {
			fail("an address is missing", forms)
		}
	case "postgres":
		if address, err := url.Parse(c.Journal); err != nil {
			fail("the address is not valid", "write postgres://USER@HOST/DATABASE")
		} else if WithoutSecrets(c.Journal) != c.Journal {
			fail("the address contains a password",
				"put the password into the file ~/.pgpass, or into the environment variable PGPASSWORD")
		} else if address.Query().Has("servicefile") { // changing that file would change the server
			fail("the address names a service file",
				"name the file with the environment variable PGSERVICEFILE, or write the server into the address")
		}
	case "nats":
		_, rest, _ := strings.Cut(c.Journal, "://")
		hosts, _, _ := strings.Cut(rest, "?")
		hosts, _, _ = strings.Cut(hosts, "/")
		if hosts == "" {
			fail("the address has no server", "write nats://HOST:PORT/NAME")
		} else if WithoutSecrets(c.Journal) != c.Journal {
			fail("the address contains a password",
				"put the password into the environment variable NATS_PASSWORD, or use a credentials file: nats://HOST:PORT/NAME?credentials=FILE")
		}
	case JournalCluster:
		if c.Journal != JournalCluster {
			fail("a cluster has no address here",
				"write journal: cluster, and the addresses of the machines into cluster.nodes")
		} else if !c.Cluster.isSet() {
			fail("the setting cluster is missing", "set cluster.node and cluster.nodes")
		}
	default:
		fail("neither sqlite nor the address of a database", forms)
	}
}

// secretParameters are parameters of addresses that are secrets, besides those whose names end with
// password or secret: libpq's, and what clients of NATS use.
var secretParameters = []string{"passwd", "pass", "scram_client_key", "scram_server_key", "token",
	"auth_token", "jwt", "nkey", "seed"}

func isSecret(parameter string) bool {
	name := strings.ToLower(parameter)
	return strings.HasSuffix(name, "password") || strings.HasSuffix(name, "secret") ||
		slices.Contains(secretParameters, name)
}

// WithoutSecrets returns the address of a journal without passwords and other secrets, so that it
// can be shown and recorded.
func WithoutSecrets(journal string) string {
	scheme, rest, found := strings.Cut(journal, "://")
	if !found {
		return journal
	}
	rest, query, hasQuery := strings.Cut(rest, "?")
	hosts, path, hasPath := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(hosts, '@'); at >= 0 {
		user, _, _ := strings.Cut(hosts[:at], ":")
		hosts = user + hosts[at:]
	}
	clean := scheme + "://" + hosts
	if hasPath {
		clean += "/" + path
	}
	parameters := slices.DeleteFunc(strings.Split(query, "&"), func(parameter string) bool {
		name, _, _ := strings.Cut(parameter, "=")
		plain, err := url.QueryUnescape(name)
		return err != nil || isSecret(plain)
	})
	if hasQuery && len(parameters) > 0 {
		clean += "?" + strings.Join(parameters, "&")
	}
	return clean
}

// PostgresAddress returns the address of the database without the parameter schema, which is ours,
// and its value.
func PostgresAddress(journal string) (address, schema string, err error) {
	parsed, err := url.Parse(journal)
	if err != nil {
		return "", "", errors.New("the address is not valid")
	}
	query := parsed.Query()
	schema = query.Get("schema")
	if schema == "" {
		schema = DefaultSchema
	}
	query.Del("schema")
	parsed.RawQuery = query.Encode()
	return parsed.String(), schema, nil
}

// SetJournalUser returns the address of a journal in a database with another user.
func SetJournalUser(journal, user string) (string, error) {
	fail := func(fault, hint string) (string, error) {
		return "", signalbox.CodeUsage.Errorf(hint, "%s", fault)
	}
	without, _, parameters := cutUser(journal)
	switch JournalScheme(journal) {
	case "postgres":
	case "nats":
		if len(parameters) > 0 {
			return fail("the address names a credentials file, which determines the user",
				"leave --user out, and give the other machine a credentials file of its own")
		}
	default:
		return fail("this ledger has no users", "leave --user out")
	}
	return addUser(without, url.User(user).String(), nil), nil
}

// WithUserOf returns the address of a journal with the user of another address, or without a user
// if the other one has none or is of another kind.
func WithUserOf(journal, other string) string {
	without, _, _ := cutUser(journal)
	if JournalScheme(journal) != JournalScheme(other) {
		return without
	}
	_, user, parameters := cutUser(WithoutSecrets(other))
	return addUser(without, user, parameters)
}

// cutUser takes the user out of the address of a journal: the one in front of the servers, and
// parameters that name the user.
func cutUser(journal string) (without, user string, parameters []string) {
	scheme, rest, found := strings.Cut(journal, "://")
	if !found {
		return journal, "", nil
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, hasPath := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(hosts, '@'); at >= 0 {
		user, hosts = hosts[:at], hosts[at+1:]
	}
	without = scheme + "://" + hosts
	if hasPath {
		without += "/" + path
	}
	var others []string
	for _, parameter := range strings.Split(query, "&") {
		name, _, _ := strings.Cut(parameter, "=")
		if decoded, err := url.QueryUnescape(name); err == nil {
			name = decoded
		}
		switch name {
		case "":
		case "user", "credentials": // of PostgreSQL, where it counts before the one in front of the servers, and of NATS
			parameters = append(parameters, parameter)
		default:
			others = append(others, parameter)
		}
	}
	return addUser(without, "", others), user, parameters
}

// addUser adds a user in front of the servers of an address that has none, and parameters.
func addUser(journal, user string, parameters []string) string {
	if scheme, rest, _ := strings.Cut(journal, "://"); user != "" {
		journal = scheme + "://" + user + "@" + rest
	}
	if len(parameters) == 0 {
		return journal
	}
	separator := "?"
	if strings.Contains(journal, "?") {
		separator = "&"
	}
	return journal + separator + strings.Join(parameters, "&")
}
