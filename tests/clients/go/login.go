package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Login is a Login of groupd.testing.security, over TLS always.
type Login struct {
	User      string `json:"user"`
	Password  string `json:"password"`
	Mechanism string `json:"mechanism"`
	CaFile    string `json:"ca_file"`
	CertFile  string `json:"cert_file"`
	KeyFile   string `json:"key_file"`
	Token     string `json:"token"`
}

func readLogin(path string) *Login {
	text, err := os.ReadFile(path)
	made := &Login{}
	if err == nil {
		err = json.Unmarshal(text, made)
	}
	if err != nil {
		log.Fatal(err)
	}
	return made
}

func (l *Login) franz() []kgo.Opt {
	made := []kgo.Opt{kgo.DialTLSConfig(l.tls())}
	mechanism := map[string]func() sasl.Mechanism{
		"PLAIN":         func() sasl.Mechanism { return plain.Auth{User: l.User, Pass: l.Password}.AsMechanism() },
		"SCRAM-SHA-256": func() sasl.Mechanism { return scram.Auth{User: l.User, Pass: l.Password}.AsSha256Mechanism() },
		"SCRAM-SHA-512": func() sasl.Mechanism { return scram.Auth{User: l.User, Pass: l.Password}.AsSha512Mechanism() },
		"OAUTHBEARER":   func() sasl.Mechanism { return oauth.Auth{Token: l.Token}.AsMechanism() },
	}[l.Mechanism]
	if mechanism != nil {
		made = append(made, kgo.SASL(mechanism()))
	}
	return made
}

func (l *Login) tls() *tls.Config {
	trusted, err := os.ReadFile(l.CaFile)
	if err != nil {
		log.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(trusted)
	made := &tls.Config{RootCAs: roots}
	if l.CertFile != "" {
		own, err := tls.LoadX509KeyPair(l.CertFile, l.KeyFile)
		if err != nil {
			log.Fatal(err)
		}
		made.Certificates = []tls.Certificate{own}
	}
	return made
}
