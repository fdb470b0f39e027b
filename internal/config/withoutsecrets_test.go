package config

import (
	"strings"
	"testing"
)

func TestWithoutSecrets(t *testing.T) {
	const postgres, nats = "postgres://ann@db:5432/shop?schema=a&sslmode=off",
		"nats://ann@a:4222,b:4222/shop?ca=/etc/ca.pem&credentials=/etc/shop.creds"
	for address, want := range map[string]string{
		"sqlite":                                 "sqlite",
		"cluster":                                "cluster",
		postgres:                                 postgres,
		nats:                                     nats,
		"postgres://ann:canary@db/shop?schema=a": "postgres://ann@db/shop?schema=a",
		"postgres://ann:can@ary@db/shop":         "postgres://ann@db/shop",
		"postgres://ann:@db/shop":                "postgres://ann@db/shop",
		"postgres://db/shop?password=canary&sslmode=off":                "postgres://db/shop?sslmode=off",
		"postgres://db/shop?sslkey=k&sslpassword=canary":                "postgres://db/shop?sslkey=k",
		"postgres://db/shop?SSLPassword=canary":                         "postgres://db/shop",
		"postgres://db/shop?pass%77ord=canary&a=b":                      "postgres://db/shop?a=b",
		"postgres://db/shop?%zz=canary&a=b":                             "postgres://db/shop?a=b",
		"postgres://db/shop?oauth_client_secret=canary":                 "postgres://db/shop",
		"postgres://db?scram_client_key=canary&scram_server_key=canary": "postgres://db",
		"postgres://ann:canary@a:1,b:2/shop":                            "postgres://ann@a:1,b:2/shop",
		"nats://ann:canary@a:4222,b:4222/shop?ca=x":                     "nats://ann@a:4222,b:4222/shop?ca=x",
		"nats://ann:canary@a,ann:canary@b":                              "nats://ann@b",
		"tls://a/shop?token=canary":                                     "tls://a/shop",
		"nats://a/shop?jwt=canary&nkey=canary&seed=canary&replicas=3":   "nats://a/shop?replicas=3",
	} {
		got := WithoutSecrets(address)
		if got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
		_, err := SetJournal([]byte(Template), address)
		if strings.Contains(address, "canary") &&
			(err == nil || strings.Contains(err.Error(), "canary")) {
			t.Errorf("%s as a setting: error %v", address, err)
		}
	}
}
