package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/oracle/model"
	"signalbox/internal/process"
	"signalbox/internal/run/crew"
	"signalbox/internal/tree"
	"signalbox/internal/tree/luatree"
)

// checkup looks at what the configuration has beside programs: models, the oracle, its servers, and trees that are agents.
type checkup struct {
	config *config.Config
	// dial opens a connection, lookup is the environment.
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	lookup func(string) (string, bool)
	proxy  func(*http.Request) (*url.URL, error)
}

func newCheckup(c *config.Config) *checkup {
	return &checkup{config: c, dial: (&net.Dialer{Timeout: reachTime}).DialContext, lookup: os.LookupEnv, proxy: http.ProxyFromEnvironment}
}

// reachTime is how long a server may take to take a connection before it counts as not there.
const reachTime = 2 * time.Second

// checks are made all at once, since a server that is not there takes its time.
func (u *checkup) checks(ctx context.Context) []box.Check {
	var look []func() box.Check
	for _, name := range slices.Sorted(maps.Keys(u.config.Models)) {
		look = append(look, func() box.Check { return u.model(ctx, name) })
	}
	for _, name := range u.treeAgents() {
		look = append(look, func() box.Check { return u.treeAgent(ctx, name) })
	}
	if len(u.config.Models) > 0 {
		look = append(look, func() box.Check { return u.oracle(ctx) })
	}
	for _, name := range slices.Sorted(maps.Keys(u.config.Oracle.Servers)) {
		look = append(look, func() box.Check { return u.server(ctx, name) })
	}
	found := make([]box.Check, len(look))
	var all sync.WaitGroup
	for i := range look {
		all.Go(func() { found[i] = look[i]() })
	}
	all.Wait()
	for _, note := range u.config.Notes() {
		found = append(found, box.Check{Name: "settings", Health: box.Warning, Detail: note})
	}
	return found
}

// treeAgents are the names of the agents with a tree that play a role.
func (u *checkup) treeAgents() []string {
	var names []string
	for _, played := range playedAgents(u.config) {
		if played.Agent.Tree != "" {
			names = append(names, played.Name)
		}
	}
	return names
}

// model is a problem if somebody needs it: an agent, or the oracle.
func (u *checkup) model(ctx context.Context, name string) box.Check {
	m := u.config.Models[name]
	wrong := box.Warning
	if used, _, err := u.config.OracleModel(""); err == nil && used == name {
		wrong = box.Problem
	}
	for _, agent := range u.treeAgents() {
		if used, _, err := u.config.OracleModel(u.config.Agents[agent].Model); err == nil && used == name {
			wrong = box.Problem
		}
	}
	check := box.Check{Name: "model " + name, Health: wrong}
	key, _ := u.lookup(m.KeyEnv)
	client, err := model.New(model.Provider(m.Provider), m.Model, &model.Options{Key: key, KeyName: m.KeyEnv, BaseURL: m.BaseURL})
	if err != nil {
		check.Detail, check.Fix = err.Error(), "correct models."+name+" in "+config.FileName
		if known := (*model.Error)(nil); errors.As(err, &known) && known.Hint != "" {
			check.Fix = known.Hint
		}
		return check
	}
	client.Close()
	if m.BaseURL == "" {
		return box.Check{Name: check.Name, Health: box.Healthy, Detail: fmt.Sprintf("%s of %s; %s is set", m.Model, m.Provider, m.KeyEnv)}
	}
	how, err := u.reach(ctx, m.BaseURL)
	if err != nil {
		check.Detail = fmt.Sprintf("cannot reach %s: %v", m.BaseURL, err)
		check.Fix = fmt.Sprintf("start the server, or correct models.%s.base_url in %s", name, config.FileName)
		return check
	}
	return box.Check{Name: check.Name, Health: box.Healthy, Detail: fmt.Sprintf("%s at %s%s", m.Model, m.BaseURL, how)}
}

// reach opens a connection to a server and closes it: nothing is asked. Behind a proxy that would tell nothing.
func (u *checkup) reach(ctx context.Context, address string) (how string, err error) {
	target, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	if through, err := u.proxy(&http.Request{URL: target}); err == nil && through != nil {
		return ", through the proxy " + through.Host, nil
	}
	port := target.Port()
	if port == "" {
		port = map[string]string{"http": "80"}[target.Scheme]
	}
	conn, err := u.dial(ctx, "tcp", net.JoinHostPort(target.Hostname(), cmp.Or(port, "443")))
	if err != nil {
		return "", cause(err)
	}
	return "", conn.Close()
}

func (u *checkup) treeAgent(ctx context.Context, name string) box.Check {
	a := u.config.Agents[name]
	check := box.Check{Name: "agent " + name, Health: box.Problem}
	used, _, err := u.config.OracleModel(a.Model)
	if err == nil {
		err = loads(ctx, a.Tree)
	}
	if err != nil {
		return withFault(check, err)
	}
	tools := "read-only tools"
	if len(a.Tools) > 0 {
		tools += " and " + strings.Join(a.Tools, ", ")
	}
	return box.Check{Name: check.Name, Health: box.Healthy, Detail: fmt.Sprintf("tree %s, model %s, %s", filepath.Base(a.Tree), used, tools)}
}

func (u *checkup) oracle(ctx context.Context) box.Check {
	o := u.config.Oracle
	used, _, err := u.config.OracleModel("")
	if err != nil { // which is no problem for who says --model
		return withFault(box.Check{Name: "oracle", Health: box.Warning}, err)
	}
	check := box.Check{Name: "oracle", Health: box.Problem}
	trees := []string{o.Tree}
	for _, name := range slices.Sorted(maps.Keys(o.Subagents)) {
		trees = append(trees, o.Subagents[name].Tree)
	}
	for _, name := range trees {
		if name == "" {
			continue
		}
		if err := loads(ctx, name); err != nil {
			return withFault(check, err)
		}
	}
	detail := "model " + used
	for _, folder := range []struct{ name, dir string }{{"code", o.Code}, {"notes", o.Notes}, {"portfolio", o.Portfolio}} {
		if folder.dir != "" {
			detail += fmt.Sprintf(", %s in %s", folder.name, folder.dir)
		}
	}
	return box.Check{Name: check.Name, Health: box.Healthy, Detail: detail}
}

// server does not start it: that may take long, and does what nobody asked for. Without it the oracle goes on.
func (u *checkup) server(ctx context.Context, name string) box.Check {
	check := box.Check{Name: "server " + name, Health: box.Problem}
	s, err := u.config.Oracle.Servers[name].Resolved(u.lookup)
	if err != nil {
		return withFault(check, err)
	}
	check.Health = box.Warning
	if s.URL != "" {
		how, err := u.reach(ctx, s.URL)
		if err != nil {
			check.Detail = fmt.Sprintf("cannot reach %s: %v", s.URL, err)
			check.Fix = "start it, or correct oracle.servers." + name + " in " + config.FileName
			return check
		}
		return box.Check{Name: check.Name, Health: box.Healthy, Detail: s.URL + how}
	}
	file, err := process.Find(s.Command[0], u.config.Oracle.Code, nil)
	if err != nil {
		return withFault(check, err)
	}
	return box.Check{Name: check.Name, Health: box.Healthy, Detail: file}
}

func withFault(check box.Check, err error) box.Check {
	check.Detail, check.Fix = err.Error(), "correct it in "+config.FileName
	if known := (*signalbox.Error)(nil); errors.As(err, &known) && known.Hint != "" {
		check.Fix = known.Hint
	}
	return check
}

// loads tells whether a file is a tree that a conversation can use.
func loads(ctx context.Context, name string) error {
	source, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	file, err := luatree.Load(ctx, name, source, treeOptions())
	if err == nil {
		file.Close()
		return nil
	}
	hint := "signalbox tree check " + name + " says all that is wrong"
	if faults := tree.Faults(err); len(faults) > 0 {
		err = faults[0]
	}
	return &signalbox.Error{Code: signalbox.CodeUsage, Err: err, Hint: hint}
}

// refuseAgents makes a problem of each agent that was found and that a run would not start all the same.
func refuseAgents(c *config.Config, checks []box.Check) {
	for _, played := range playedAgents(c) {
		i := slices.IndexFunc(checks, func(check box.Check) bool { return check.Name == "agent "+played.Name && check.Health == box.Healthy })
		if i < 0 || played.Agent.Tree != "" {
			continue
		}
		a := played.Agent
		a.BaseURL = "" // for which some presets write settings
		command, err := crew.CommandOf(a)
		if err == nil {
			err = command.Check()
		}
		if err != nil {
			checks[i].Health = box.Problem
			checks[i] = withFault(checks[i], err)
		}
	}
}
