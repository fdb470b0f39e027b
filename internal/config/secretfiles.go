package config

import (
	"net/url"
	"path/filepath"
	"strings"
)

// SecretFiles returns the files with passwords, keys and other secrets that the settings name, with
// absolute paths. dir is the folder of the box. Programs that agents write must not read them.
func (c *Config) SecretFiles(dir string) (files []string) {
	add := func(base, name string) {
		if name == "" {
			return
		}
		if !filepath.IsAbs(name) && base != "" {
			name = filepath.Join(base, name)
		}
		if name, err := filepath.Abs(name); err == nil {
			files = append(files, name)
		}
	}
	add(dir, c.Cluster.SecretFile)
	add(dir, c.Notify.Webhook.SecretFile)
	for _, w := range c.Webhooks {
		add(dir, w.SecretFile)
	}
	_, text, _ := strings.Cut(c.Journal, "?")
	parameters, _ := url.ParseQuery(text) // parameters that cannot be parsed name no file
	switch JournalScheme(c.Journal) {
	case "postgres":
		add("", parameters.Get("passfile"))
		add("", parameters.Get("sslkey"))
	case "nats":
		add(dir, parameters.Get("credentials"))
		add(dir, parameters.Get("key"))
	}
	return files
}
