// Package certificate makes the certificate of a server that other machines reach and that has none
// of its own.
package certificate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox/internal/durable"
)

const (
	fileName = "serve.pem"
	life     = 825 * 24 * time.Hour // the longest that browsers accept
	renewal  = 30 * 24 * time.Hour  // before the end
)

// SelfSigned returns a self-signed certificate for some names and addresses. It keeps it in a
// folder, so that the fingerprint that a user has checked stays the same; it makes a new one if a
// name is missing or if it soon expires.
func SelfSigned(folder string, names []string) (tls.Certificate, error) {
	name := filepath.Join(folder, fileName)
	kept, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return tls.Certificate{}, err
	}
	if pair, err := tls.X509KeyPair(kept, kept); err == nil && usable(pair, names, time.Now()) {
		return pair, nil
	}
	made, err := generate(names, time.Now())
	if err != nil {
		return tls.Certificate{}, err
	}
	if err := durable.Replace(name, made, 0o600); err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(made, made)
}

// usable reports whether a certificate is for some names and does not soon expire.
func usable(pair tls.Certificate, names []string, now time.Time) bool {
	leaf := pair.Leaf
	return leaf != nil && now.Add(renewal).Before(leaf.NotAfter) && now.After(leaf.NotBefore) &&
		!slices.ContainsFunc(names,
			func(name string) bool { return leaf.VerifyHostname(name) != nil && !isUnspecified(name) })
}

// isUnspecified reports whether an address stands for all addresses of the machine.
func isUnspecified(name string) bool {
	ip := net.ParseIP(name)
	return ip != nil && ip.IsUnspecified()
}

// generate returns a new certificate and its key, in PEM.
func generate(names []string, now time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: "signalbox"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(life),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true}
	for _, name := range append([]string{"localhost", "127.0.0.1", "::1"}, names...) {
		if ip := net.ParseIP(name); ip == nil {
			template.DNSNames = append(template.DNSNames, name)
		} else if !ip.IsUnspecified() {
			template.IPAddresses = append(template.IPAddresses, ip)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	pem.Encode(&buf, &pem.Block{Type: "CERTIFICATE", Bytes: der})
	pem.Encode(&buf, &pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
	return buf.Bytes(), nil
}

// Fingerprint returns the SHA-256 of a certificate as browsers show it.
func Fingerprint(pair tls.Certificate) string {
	sum := sha256.Sum256(pair.Certificate[0])
	parts := make([]string, len(sum))
	for i, b := range sum {
		parts[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(parts, ":")
}
