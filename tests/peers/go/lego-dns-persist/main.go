// A client made of lego 5: registers, and gets a certificate by dns-persist-01 where names are given.
//
//	lego-dns-persist DIRECTORY KEY RESOLVER [CHAIN NAME...]
//
// The account key is kept in the file KEY, the account's URL is the last line printed, the chain is written to CHAIN.
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
	"os"

	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/certcrypto"
	"github.com/go-acme/lego/v5/certificate"
	"github.com/go-acme/lego/v5/challenge/dnspersist01"
	"github.com/go-acme/lego/v5/lego"
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
	directory, key, resolver := os.Args[1], os.Args[2], os.Args[3]
	ctx := context.Background()
	me := &user{key: keyOf(key)}
	config := lego.NewConfig(me)
	config.CADirURL = directory
	me.account = must(must(lego.NewClient(config)).Registration.Register(ctx, registration.RegisterOptions{TermsOfServiceAgreed: true}))
	fmt.Println(me.account.Location)
	if len(os.Args) == 4 {
		return
	}

	options := dnspersist01.NewOptions()
	options.RecursiveNameservers = []string{resolver}
	dnspersist01.SetDefaultClient(dnspersist01.NewClient(options))
	client := must(lego.NewClient(config))
	must(0, client.Challenge.SetDNSPersist01(dnspersist01.DisableAuthoritativeNssPropagationRequirement()))
	request := certificate.ObtainRequest{Domains: os.Args[5:], Bundle: true, KeyType: certcrypto.EC256}
	must(0, os.WriteFile(os.Args[4], must(client.Certificate.Obtain(ctx, request)).Certificate, 0o600))
}
