package toolbox

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSecretNames(t *testing.T) {
	closed := strings.Fields(`.env .ENV .env.local .envrc .env~ .env-prod .env_old .env.bak .env.swp #.env# .#.env ._.env .env.~1~ .env.2 .env.gz prod.env app.env.production .envs/x
		server.pem tls.KEY tls.key.bak server.key.pem server.key.der store.p12 store.pfx a.jks a.kdbx a.p8 a.ppk id_rsa id_rsa.old id_rsa~ .id_rsa.swp id_ed25519 deploy_rsa
		.netrc _netrc .npmrc .pypirc .pgpass .my.cnf .git-credentials .gitconfig .htpasswd .vault-token .dockercfg .ssh .ssh/config .gnupg/secring.gpg .aws/credentials .kube/config
		.docker/config.json .DOCKER/Config.JSON .docker/config.json.bak .cargo/credentials.toml .config/gcloud/x gh/hosts.yml repo.git/config auth.json
		terraform.tfstate terraform.tfstate.backup terraform.tfstate.1700000000.backup prod.tfvars prod.auto.tfvars prod.tfvars.json prod.tfvars~
		credentials credentials.json .credentials.json google-credentials.json Credentials.JSON.old client_secret_1.apps.json service-account.json my-service-account-prod.json service_account_key.json
		secrets.yml secrets.yaml Secrets.YAML secrets.json app-secrets.yaml secrets.prod.yml secrets.toml .secrets kubeconfig prod.kubeconfig .bash_history
		.env2 .env,v .env;1 .env=old .env20240101 .envfile .flaskenv .dev.vars .netrc-work .npmrc.ci server.pem.txt prod.tfvars.old.1 main.tfvars.prod credentials-prod.json credentials.json.enc
		gcp-creds.json secrets.txt passwords.txt deploy_key kubeconfig-prod id_rsa;1 tls.key,v
		.env. .env.. .env::$DATA .\u200denv .e\ufe0fnv ．ｅｎｖ credential\u017f.json .\u212aube/config`)
	for _, name := range append(closed, ".env ", ".env copy", ".env (1)", ".env.local ",
		".env - Copy", "tls.key copy 2", "secrets.json - Copy (2)", "credentials (1).json",
		"credentials - Copy.json",
		".docker/config copy.json") {
		name = strings.NewReplacer(`\u200d`, "\u200d", `\ufe0f`, "\ufe0f", `\u017f`, "\u017f",
			`\u212a`, "\u212a").Replace(name)
		if allowed(name, name) == nil {
			t.Errorf("%q can be read", name)
		}
	}
	for _, name := range strings.Fields(`.env.example .env.sample .env.template .env.dist .env-example example.env id_rsa.pub server.key.pub env environment.go environment.ts key key.go pem keys.md
		monkey keyboard.go secret.go secrets.go secrets/secret.go credentials.go credentials_test.go token.go config.json docker/config.json .docker/Dockerfile main.tf variables.tf tfvars.go
		auth.go auth/json.go .github/workflows/ci.yml .gitignore .gitattributes history.md old.go backup.go a.bak README.md service_account.go dsa.go rsa.go vite-env.d.ts kube/config .well-known/x git/config password/hash.go
		kubeconfig_test.go pem.go deploy.go`) {
		if err := allowed(name, name); err != nil {
			t.Errorf("%s cannot be read: %v", name, err)
		}
	}
	for _, name := range []string{".git/config", ".GIT/config", ".git./config", ".g\u200cit/config",
		".signalbox/key", ".Signalbox /key"} {
		if allowed(name, name) == nil {
			t.Errorf("%q can be read", name)
		}
	}
}

// Secrets, and what a .gitignore excludes, cannot be reached by any path.
func TestInaccessiblePaths(t *testing.T) {
	dir := folderOf(t, `
-- .gitignore --
*.log
/out/
!kept.log
-- .env --
needle
-- .env.example --
needle
-- a.log --
needle
-- kept.log --
needle
-- deploy/tls.key --
needle
-- deploy/.gitignore --
local.yaml
-- deploy/local.yaml --
needle
-- deploy/all.yaml --
needle
-- out/kept.log --
needle
-- .ssh/config --
needle
-- .docker/config.json --
needle
-- .docker/Dockerfile --
needle
-- deploy/prod.tfvars --
needle
-- deploy/.env~ --
needle
`)
	link(t, dir, "plain.txt", ".env")
	link(t, dir, "docker", ".docker")
	link(t, dir, "linked.txt", "deploy/local.yaml")
	search, read := SearchCode(dir), ReadFile(dir)
	for _, path := range []string{".env", "a.log", "deploy/tls.key", "deploy/local.yaml", "out",
		"out/kept.log", ".ssh", ".ssh/config", "plain.txt", "linked.txt",
		"./deploy/../.env", ".docker/config.json", "docker/config.json", ".docker//config.json",
		"deploy/prod.tfvars", "deploy/.env~", "deploy/./.env~"} {
		fails(t, read, args{"path": path}, "not accessible to tools", "continue without it")
		fails(t, search, args{"query": "needle", "path": path}, "not accessible to tools")
	}
	// the error does not reveal whether it exists
	fails(t, read, args{"path": ".env.local"}, "not accessible to tools")
	for _, path := range []string{".env.example", "kept.log", "deploy/all.yaml",
		".docker/Dockerfile"} {
		has(t, ok(t, read, args{"path": path}), "needle")
	}
	for _, in := range []args{{"query": "needle"}, {"query": "needle", "path": "**/*"},
		{"query": "needle", "path": ".e*"}, {"query": "some needle"}} {
		for _, s := range use(t, search, in).Sources {
			if s.Path != ".env.example" && s.Path != "kept.log" && s.Path != "deploy/all.yaml" &&
				s.Path != ".docker/Dockerfile" {
				t.Errorf("%v finds %s", in, s.Path)
			}
		}
	}
	want := ". is a folder with 12 entries:\n.docker/\n.env (7 bytes) (not accessible to tools)\n.env.example (7 bytes)\n.gitignore (22 bytes)\n.ssh/ (not accessible to tools)\na.log (7 bytes) (not accessible to tools)\n" +
		"deploy/\ndocker (link)\nkept.log (7 bytes)\nlinked.txt (link)\nout/ (not accessible to tools)\nplain.txt (link)\n"
	if diff := cmp.Diff(want, ok(t, read, args{"path": "."})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	has(t, ok(t, read, args{"path": "deploy"}), "all.yaml (7 bytes)\n",
		"local.yaml (7 bytes) (not accessible to tools)\n",
		"tls.key (7 bytes) (not accessible to tools)\n")
}

func TestPick(t *testing.T) {
	tools := []Tool{{Name: "read_file", ReadOnly: true}, {Name: "write"},
		{Name: "files__get", ReadOnly: true}, {Name: "files__put"}}
	for name, c := range map[string]struct {
		names, kept, unknown []string
	}{
		"none":       {[]string{}, nil, nil},
		"names":      {[]string{"write", "read_file"}, []string{"read_file", "write"}, nil},
		"all of one": {[]string{"files__*"}, []string{"files__get", "files__put"}, nil},
		"read-only": {[]string{ReadOnlyTools, "write"},
			[]string{"read_file", "write", "files__get"}, nil},
		"unknown": {[]string{"wrote", "mail__*", "wrote"}, nil, []string{"wrote", "mail__*"}},
	} {
		kept, unknown := Pick(tools, c.names)
		var names []string
		for _, tool := range kept {
			names = append(names, tool.Name)
		}
		if diff := cmp.Diff([][]string{c.kept, c.unknown}, [][]string{names, unknown}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if _, unknown := Pick(nil, []string{ReadOnlyTools}); unknown != nil {
		t.Errorf("no tool is read-only, and %q is unknown", unknown)
	}
	for name, want := range map[string]string{"wrote": "; did you mean write?",
		"readfile": "; did you mean read_file?", "sing_a_song": ""} {
		if got := Suggest(name, tools); got != want {
			t.Errorf("suggestion for %s: %q, want %q", name, got, want)
		}
	}
}
