package nats

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"math/big"
	"net"
	"time"
)

// minSecret is the minimum size of the secret of a cluster.
const minSecret = 32

// NewSecret returns a new secret for a cluster, as a line of text.
func NewSecret() []byte {
	secret := make([]byte, 32)
	rand.Read(secret) // never fails
	return fmt.Appendf(nil, "%s\n", hex.EncodeToString(secret))
}

// certificateStart and certificateEnd are far apart, so that clocks that are wrong do not keep
// nodes from connecting. The secret decides who belongs to the cluster, and a node makes a new
// certificate at each start.
var (
	certificateStart = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	certificateEnd   = time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC)
)

// secrets returns the lines of a secret. A machine identifies itself with its first line, and
// accepts others that use any of its lines, so that a secret can be changed on one machine after
// the other.
func secrets(text []byte) (lines [][]byte) {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

// authority returns the certificate authority of a secret. Its key is derived from the secret, so
// only machines with the secret can make a certificate that the others accept.
func authority(secret []byte) (*x509.Certificate, ed25519.PrivateKey, error) {
	seed, err := hkdf.Key(sha256.New, secret, []byte("signalbox cluster"), "certificate authority",
		ed25519.SeedSize)
	if err != nil {
		return nil, nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "signalbox cluster"},
		NotBefore: certificateStart, NotAfter: certificateEnd,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return certificate, key, err
}

// nodeTLS returns the TLS configuration of a node or client, for both ends of a connection. The
// certificate is for all hosts.
func nodeTLS(secret []byte, hosts []string) (*tls.Config, error) {
	pool := x509.NewCertPool()
	var (
		issuer *x509.Certificate
		signer ed25519.PrivateKey
	)
	for _, line := range secrets(secret) {
		certificate, key, err := authority(line)
		if err != nil {
			return nil, err
		}
		pool.AddCert(certificate)
		if issuer == nil {
			issuer, signer = certificate, key
		}
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "signalbox node"},
		NotBefore: certificateStart, NotAfter: certificateEnd,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, issuer, public, signer)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}},
		RootCAs:      pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}
