// Package legos holds what every client made of lego 5 does first: it reads or makes an account key, and registers.
package legos

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"log"
	"os"

	"github.com/go-acme/lego/v5/acme"
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

// Must gives the value, or ends the program with the error.
func Must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// Register gives a client of the account at the directory whose key is kept in the file, and the URL of that account.
// It makes the key and the account where there are none.
func Register(ctx context.Context, directory, file string) (*lego.Client, string) {
	me := &user{key: keyOf(file)}
	config := lego.NewConfig(me)
	config.CADirURL = directory
	me.account = Must(Must(lego.NewClient(config)).Registration.Register(ctx, registration.RegisterOptions{TermsOfServiceAgreed: true}))
	return Must(lego.NewClient(config)), me.account.Location
}

func keyOf(path string) crypto.Signer {
	der, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		key := Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
		der, err = Must(x509.MarshalECPrivateKey(key)), nil
		Must(0, os.WriteFile(path, der, 0o600))
	}
	return Must(x509.ParseECPrivateKey(Must(der, err)))
}
