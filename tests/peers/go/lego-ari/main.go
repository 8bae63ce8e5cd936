// A client made of lego 5: gets a certificate, and another when the renewal information (RFC 9773) says so.
//
//	lego-ari DIRECTORY KEY PORT CHAIN NAME
//
// The account key is kept in the file KEY, http-01 is answered on PORT of 127.0.0.1, the chain is in CHAIN. The window
// is printed to the standard output, what lego logs to the standard error.
package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/acme/api"
	"github.com/go-acme/lego/v5/certcrypto"
	"github.com/go-acme/lego/v5/certificate"
	"github.com/go-acme/lego/v5/challenge/http01"
	"github.com/go-acme/lego/v5/lego"
	legolog "github.com/go-acme/lego/v5/log"
	"github.com/go-acme/lego/v5/registration"
)

type user struct {
	key     crypto.Signer
	account *acme.ExtendedAccount
}

func (u *user) GetEmail() string                       { return "someone@example.test" }
func (u *user) GetRegistration() *acme.ExtendedAccount { return u.account }
func (u *user) GetPrivateKey() crypto.Signer           { return u.key }

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func keyOf(path string) crypto.Signer {
	der, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
		der, err = must(x509.MarshalECPrivateKey(key)), nil
		must(0, os.WriteFile(path, der, 0o600))
	}
	return must(x509.ParseECPrivateKey(must(der, err)))
}

func main() {
	directory, key, port, chain, name := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	ctx := context.Background()
	legolog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	me := &user{key: keyOf(key)}
	config := lego.NewConfig(me)
	config.CADirURL = directory
	me.account = must(must(lego.NewClient(config)).Registration.Register(ctx, registration.RegisterOptions{TermsOfServiceAgreed: true}))
	client := must(lego.NewClient(config))
	must(0, client.Challenge.SetHTTP01Provider(http01.NewProviderServer("127.0.0.1", port)))
	request := certificate.ObtainRequest{Domains: []string{name}, Bundle: true, KeyType: certcrypto.EC256}
	if old, err := os.ReadFile(chain); err == nil {
		leaf := must(certcrypto.ParsePEMBundle(old))[0]
		info := must(client.Certificate.GetRenewalInfo(ctx, leaf))
		fmt.Println(info.SuggestedWindow.Start.UTC().Format(time.RFC3339), info.SuggestedWindow.End.UTC().Format(time.RFC3339))
		if info.ShouldRenewAt(time.Now(), 0) == nil {
			return
		}
		request.ReplacesCertID = must(api.MakeARICertID(leaf))
	}
	must(0, os.WriteFile(chain, must(client.Certificate.Obtain(ctx, request)).Certificate, 0o600))
}
