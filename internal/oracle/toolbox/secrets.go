package toolbox

import (
	"path"
	"slices"
	"strings"
	"sync"
	"unicode"

	"signalbox/internal/lazy"
)

// secretNames are patterns for names of files and folders that usually hold passwords or keys.
// Tools never read them, because what a tool finds is sent to a model's server.
func secretNames() []string {
	return []string{
		// environments
		".env*", ".flaskenv", ".dev.vars*", "*.env", "*.env.local", "*.env.prod*", "*.env.dev*",
		"*.env.stag*", "*.env.test",
		// keys
		"*.pem", "*.pem.*", "*.key", "*.key.*", "*.p8", "*.p12", "*.pfx", "*.pkcs12", "*.ppk",
		"*.jks", "*.jceks", "*.bks", "*.keystore", "*.keytab", "*.kdb", "*.kdbx",
		"*.agekey", "*.ovpn", "wg[0-9].conf", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*",
		"*_rsa", "*_dsa", "*_ecdsa", "*_ed25519",
		"private_key", "private-key", "privatekey", "deploy_key", ".ssh", ".gnupg",
		".password-store",
		// passwords and tokens of programs
		".netrc*", "_netrc*", ".npmrc*", ".yarnrc.yml", ".pypirc", ".pgpass", "pgpass.conf",
		".my.cnf", ".mylogin.cnf", ".git-credentials*", ".gitcookies", ".gitconfig",
		".htpasswd", "htpasswd", ".htdigest", ".dockercfg", ".dockerconfigjson", ".s3cfg", ".boto",
		".curlrc", ".wgetrc", ".vault-token", ".vault-pass*", ".vault_pass*",
		".terraformrc", "terraform.rc", "*.tfrc.json", "rclone.conf", ".rclone.conf",
		"sftp-config.json", "sitemanager.xml", "settings-security.xml",
		"auth.json", "token.json", "local.settings.json", "wp-config.php", ".*_history", ".aws",
		".azure", ".kube", "kubeconfig", "kubeconfig.*", "kubeconfig-*", "*.kubeconfig",
		// infrastructure
		"*.tfvars", "*.tfvars.*", "*.tfstate", "*.tfstate.*",
		// credentials
		"credentials", "*credentials*.json*", "*creds.json", "credentials*.y*ml",
		"credentials.toml", "credentials.ini", "credentials.xml", "credentials.csv",
		"credentials.txt",
		"credentials.properties", "client_secret*.json", "*service-account*.json",
		"*service_account*.json", "*serviceaccount*.json", "*firebase-adminsdk*.json",
		"*secrets.y*ml", "secrets.*.y*ml", "secret.y*ml", "*.secret.y*ml", "*secrets.json",
		"secret.json", "*secrets.toml", "*secrets.ini", "*secrets.properties",
		".secrets", ".secret", "*.secrets", "*.secret", "secrets.txt", "password.txt",
		"passwords.txt",
	}
}

// secretPaths are patterns for a file and the folder that contains it.
func secretPaths() []string {
	return []string{".docker/config*.json", ".cargo/credentials*", ".gem/credentials",
		".config/gcloud", "gh/hosts.yml", ".m2/settings.xml", ".gradle/gradle.properties",
		".vscode/sftp.json", "age/keys.txt", "*.git/config"}
}

// plainNames are patterns for names that match secretNames but hold no secrets.
func plainNames() []string {
	return []string{".env[._\\-]example", ".env[._\\-]sample", ".env[._\\-]template",
		".env[._\\-]dist", "example.env", "sample.env", "template.env", "id_*.pub", "*.key.pub"}
}

// isSecret reports whether a name, in a folder with the name parent, usually holds secrets. Copies
// and backups of such a file do too.
func isSecret(parent, name string) bool {
	return slices.ContainsFunc(originals(fold(name)), func(name string) bool {
		return secrets().match(name) && !plain().match(name) ||
			secretFiles().match(fold(parent)+"/"+name)
	})
}

var (
	secrets     = sync.OnceValue(func() *patterns { return newPatterns(secretNames()) })
	secretFiles = sync.OnceValue(func() *patterns { return newPatterns(secretPaths()) })
	plain       = sync.OnceValue(func() *patterns { return newPatterns(plainNames()) })
)

// patterns are sorted by how they are matched. A search asks for every file, and path.Match for
// each pattern would take longer than reading the file.
type patterns struct {
	exact              map[string]bool
	prefixes, suffixes []string
	others             []glob
}

// glob is a pattern for path.Match, and a text that is in every name that it matches.
type glob struct{ pattern, part string }

func newPatterns(all []string) *patterns {
	p := &patterns{exact: map[string]bool{}}
	for _, pattern := range all {
		prefix, isPrefix := strings.CutSuffix(pattern, "*")
		suffix, isSuffix := strings.CutPrefix(pattern, "*")
		const special = `*?[\`
		switch {
		case !strings.ContainsAny(pattern, special):
			p.exact[pattern] = true
		case isPrefix && !strings.ContainsAny(prefix, special):
			p.prefixes = append(p.prefixes, prefix)
		case isSuffix && !strings.ContainsAny(suffix, special):
			p.suffixes = append(p.suffixes, suffix)
		default:
			part := strings.TrimLeft(pattern, "*")
			p.others = append(p.others, glob{pattern, part[:strings.IndexAny(part, special)]})
		}
	}
	return p
}

func (p *patterns) match(name string) bool {
	return p.exact[name] ||
		slices.ContainsFunc(p.prefixes,
			func(prefix string) bool { return strings.HasPrefix(name, prefix) }) ||
		slices.ContainsFunc(p.suffixes,
			func(suffix string) bool { return strings.HasSuffix(name, suffix) }) ||
		slices.ContainsFunc(p.others, func(g glob) bool {
			matched := false
			if strings.Contains(name, g.part) {
				matched, _ = path.Match(g.pattern, name)
			}
			return matched
		})
}

// backupMark matches what editors, people and programs add to the name of a copy.
var backupMark = lazy.Regexp(
	`^(\.#|\._|#)|(~|#|\.~[0-9]+~| \([0-9]+\)|( - |[ ._-])(copy|bak|backup|old|orig|save|saved) ?[0-9]*|,v|;[0-9]+|` +
		`\.(sw[a-z]|tmp|temp|rej|dpkg-old|dpkg-dist|rpmsave|rpmnew|gz|bz2|xz|zst|zip|7z|tar|tgz|[0-9]+))$`)

// originals returns a name, and the names of the files that it may be a copy of.
func originals(name string) []string {
	all := []string{name}
	if file, _, found := strings.Cut(name, ":"); found { // the name of a stream on Windows
		all = append(all, file)
	}
	for range 8 { // more marks than anyone adds
		at := backupMark().FindStringIndex(name)
		if at == nil {
			break
		}
		name = name[:at[0]] + name[at[1]:]
		// vim adds a dot to the name of a swap file
		all = append(all, name, strings.TrimPrefix(name, "."))
	}
	return all
}

// fold returns a name as the most tolerant file system sees it: in lower case, without invisible
// characters, and without dots and spaces at the end.
func fold(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case unicode.In(r, unicode.Cf, unicode.Cc, unicode.Variation_Selector):
			return -1
		case r >= '！' && r <= '～': // the full-width forms of ASCII
			r -= '！' - '!'
		case r == '․' || r == '﹒':
			return '.'
		}
		for next := unicode.SimpleFold(r); next != r &&
			r > unicode.MaxASCII; next = unicode.SimpleFold(next) {
			if next < r { // such as the long s, or the sign of the Kelvin
				r = next
			}
		}
		return unicode.ToLower(r)
	}, name)
	return strings.TrimRight(name, ". ")
}
