package contain

import (
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/internal/config"
	"signalbox/internal/durable"
	"signalbox/internal/lazy"
	"signalbox/internal/process"
)

// general are the variables that every program gets. A star at the end stands for any text.
var general = slices.Concat(certificates, []string{
	"PATH", "LANG", "LANGUAGE", "LC_*", "TZ", "TZDIR", "USER", "LOGNAME", "SHELL",
	"TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "FTP_PROXY",
	// How the usual toolchains build.
	"GOROOT", "GOFLAGS", "GOTOOLCHAIN", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOSUMDB",
	"GOINSECURE", "GOVCS", "GOEXPERIMENT", "CGO_ENABLED", "CC", "CXX", "CFLAGS", "CXXFLAGS",
	"LDFLAGS",
	"JAVA_HOME", makeflags, "SOURCE_DATE_EPOCH",
})

// makeflags are the arguments of make.
const makeflags = "MAKEFLAGS"

// places are variables that name folders of the user. A program that uses the user's home folder
// gets them.
var places = []string{
	"HOME", "TMPDIR", "XDG_*", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "GOPATH",
	"GOCACHE", "GOMODCACHE", "GOENV", "GOBIN", "GOPROXY",
	"CARGO_HOME", "RUSTUP_HOME", "NVM_DIR", "PYENV_ROOT", "RBENV_ROOT", "NODENV_ROOT", "ASDF_DIR",
	"ASDF_DATA_DIR", "MISE_DATA_DIR", "VOLTA_HOME",
	"BUN_INSTALL", "DENO_INSTALL", "DENO_DIR", "SDKMAN_DIR", "PNPM_HOME", "FNM_DIR", "DOTNET_ROOT",
	"GEM_HOME", "PYTHONUSERBASE", "VIRTUAL_ENV", "CONDA_PREFIX",
	"NPM_CONFIG_CACHE", "NPM_CONFIG_PREFIX", "PIP_CACHE_DIR", "UV_CACHE_DIR",
}

// containers are variables that a program which starts containers needs.
var containers = []string{"DOCKER_*", "CONTAINER_*", "PODMAN_*", "BUILDAH_*", "KUBECONFIG",
	"SSH_AUTH_SOCK"}

// certificates are variables that name files with certificates.
var certificates = []string{"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
	"CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "NIX_SSL_CERT_FILE"}

// keysOf returns the names of the variables that a preset needs: its own keys, and settings that
// belong to them. environ is the environment that it would have without a sandbox.
func (h Host) keysOf(a config.Agent, environ []string) []string {
	switch a.Preset {
	case config.PresetClaude:
		return []string{"ANTHROPIC_*", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_*",
			"CLAUDE_CODE_MAX_*", "IS_SANDBOX", "CLAUDE_CODE_BUBBLEWRAP"}
	case config.PresetCodex:
		return []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORGANIZATION",
			"OPENAI_PROJECT", "CODEX_API_KEY"}
	case config.PresetGemini:
		return []string{"GEMINI_API_KEY", "GEMINI_MODEL", "GOOGLE_*"}
	case config.PresetOpencode:
		return h.opencodeKeys(a, environ)
	}
	return nil
}

// providerKeys are the variables of opencode's best known providers. Those of others end with
// _API_KEY.
var providerKeys = map[string][]string{
	"google":     {"GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"},
	"openai":     {"OPENAI_API_KEY"},
	"anthropic":  {"ANTHROPIC_API_KEY"},
	"openrouter": {"OPENROUTER_API_KEY"},
	"opencode":   {"OPENCODE_API_KEY"},
}

// opencodeKeys returns the key of the provider in the name of the model, and without a model those
// that the user's settings of opencode name. If they name none, opencode chooses a provider by the
// keys that it finds, so it gets all.
func (h Host) opencodeKeys(a config.Agent, environ []string) (keys []string) {
	if a.BaseURL != "" {
		return providerKeys["openai"] // see agent.PresetAt
	}
	if provider, _, named := strings.Cut(a.Model, "/"); named {
		return keysOfProvider(provider)
	}
	for _, settings := range presets[config.PresetOpencode] {
		for _, name := range settings.settings {
			if !strings.HasPrefix(filepath.Ext(name), ".json") {
				continue
			}
			text, err := durable.ReadRegular(filepath.Join(settings.folderOf(h.Home, environ),
				name), maxSettings)
			if err != nil {
				continue
			}
			for _, found := range opencodeModel().FindAllSubmatch(text, -1) {
				keys = append(keys, keysOfProvider(string(found[1]))...)
			}
			for _, found := range opencodeVariable().FindAllSubmatch(text, -1) {
				keys = append(keys, string(found[1]))
			}
		}
	}
	if len(keys) == 0 {
		keys = slices.Concat(slices.Collect(maps.Values(providerKeys))...)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// What settings of opencode name: the provider of a model, and a variable.
var (
	opencodeModel    = lazy.Regexp(`"(?:small_)?model"\s*:\s*"([A-Za-z0-9._-]+)/`)
	opencodeVariable = lazy.Regexp(`\{env:([A-Za-z_][A-Za-z0-9_]*)\}`)
)

func keysOfProvider(provider string) []string {
	if keys := providerKeys[provider]; keys != nil {
		return keys
	}
	return []string{strings.ToUpper(strings.ReplaceAll(provider, "-", "_")) + "_API_KEY"}
}

// treeKeys returns the variables that an agent with a tree needs: the keys of its model and of its
// sub-agents' models, and what the settings of MCP servers refer to. Its tools do not get them.
func treeKeys(c *config.Config, a config.Agent) (names []string) {
	models := []string{a.Model}
	for _, sub := range c.Oracle.Subagents {
		models = append(models, sub.Model)
	}
	for _, name := range models {
		if _, m, err := c.OracleModel(name); err == nil && m.KeyEnv != "" {
			names = append(names, m.KeyEnv)
		}
	}
	for _, server := range c.Oracle.Servers {
		names = append(names, server.Variables()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// filterEnviron returns the variables whose names match one of the patterns. Names of proxies may
// be in lower case.
func filterEnviron(environ, patterns []string) (kept []string) {
	for _, entry := range environ {
		name := nameOf(entry)
		if name == makeflags && (process.Getenv(environ, "MAKELEVEL") != "" ||
			strings.Contains(entry, "--jobserver")) {
			continue // of a make that started this program: they name its descriptors
		}
		if slices.ContainsFunc(patterns,
			func(pattern string) bool { return matches(name, pattern) }) {
			kept = append(kept, entry)
		}
	}
	return kept
}

// nameOf returns the name of the variable in an entry of an environment.
func nameOf(entry string) string {
	name, _, _ := strings.Cut(entry, "=")
	return name
}

func matches(name, pattern string) bool {
	if prefix, star := strings.CutSuffix(pattern, "*"); star {
		return strings.HasPrefix(name, prefix)
	}
	return name == pattern || (strings.HasSuffix(pattern, "_PROXY") ||
		strings.HasPrefix(pattern, "NPM_CONFIG_")) && strings.EqualFold(name, pattern)
}

// pathFolders returns the folders on PATH.
func (h Host) pathFolders() (folders []string) {
	for _, folder := range filepath.SplitList(process.Getenv(h.Environ, "PATH")) {
		if filepath.IsAbs(folder) {
			folders = append(folders, folder)
		}
	}
	return folders
}

// desktop are variables that a program needs to reach the desktop of the user. XDG_* is one of
// places.
var desktop = []string{"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS"}

// OutsideEnviron returns the environment of a program of the user that runs outside of the sandbox,
// such as one that notifies the user. It has no keys of agents and models. pass are the names of
// more variables.
func OutsideEnviron(environ []string, pass ...string) []string {
	return filterEnviron(environ, slices.Concat(general, places, desktop, pass))
}

// proxyVariables are addresses of proxies, and moduleVariables those of servers for Go modules.
// Both may have a password.
var (
	proxyVariables  = []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY"}
	moduleVariables = []string{"GOPROXY", "GOSUMDB"}
)

// withoutPasswords removes users and passwords from addresses in an environment, and notes the
// variables that had some. A program that runs what agents wrote must not have them. Only one for
// which the configuration names exactly the variable gets it as it is. An agent keeps those of its
// proxies, because it may need them to reach its model.
func (b *builder) withoutPasswords(environ []string) []string {
	if !b.restricted() && !b.Nested {
		return environ
	}
	var kept []string
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		is := func(variable string) bool { return matches(name, variable) }
		proxy := slices.ContainsFunc(proxyVariables, is) && !b.keepsProxies
		if (proxy || slices.ContainsFunc(moduleVariables, is)) && !slices.Contains(b.pass, name) {
			if bare := withoutUserinfo(value); bare != value {
				entry = name + "=" + bare
				if !slices.Contains(b.p.stripped, name) {
					b.p.stripped = append(b.p.stripped, name)
				}
			}
		}
		kept = append(kept, entry)
	}
	return kept
}

// withoutUserinfo removes the users and passwords from a list of addresses, as GOPROXY, GOSUMDB and
// variables for proxies have it.
func withoutUserinfo(list string) string {
	return address().ReplaceAllStringFunc(list, func(one string) string {
		scheme, rest, found := strings.Cut(one, "://")
		if !found {
			return one[strings.LastIndexByte(one, '@')+1:]
		}
		if strings.EqualFold(scheme, "file") {
			return one // it has none, and a path may have an @
		}
		// such as a password with characters that should be escaped
		if _, err := url.Parse(one); err != nil {
			return scheme + "://" + rest[strings.LastIndexByte(rest, '@')+1:]
		}
		host, _, _ := strings.Cut(rest, "/")
		return scheme + "://" + rest[strings.LastIndexByte(host, '@')+1:]
	})
}

// address is an element of a list of addresses.
var address = lazy.Regexp(`[^,|\s]+`)
