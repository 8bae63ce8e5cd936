// A client made of acmez: gets a certificate by dns-account-01.
//
//	acmez-dns-account DIRECTORY HOOK CHAIN NAME...
//
// HOOK is called with the name and the value of each TXT record, the chain is written to CHAIN.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"log"
	"os"
	"os/exec"

	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"
)

type solver struct {
	hook    string
	account acme.Account
}

func (s *solver) Present(ctx context.Context, challenge acme.Challenge) error {
	return exec.CommandContext(ctx, s.hook, challenge.DNSAccount01TXTRecordName(s.account), challenge.DNS01KeyAuthorization()).Run()
}

func (s *solver) CleanUp(context.Context, acme.Challenge) error { return nil }

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	directory, hook, chain, names := os.Args[1], os.Args[2], os.Args[3], os.Args[4:]
	ctx := context.Background()
	s := &solver{hook: hook}
	client := acmez.Client{
		Client:           &acme.Client{Directory: directory},
		ChallengeSolvers: map[string]acmez.Solver{acme.ChallengeTypeDNSAccount01: s},
	}
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	s.account = must(client.NewAccount(ctx, acme.Account{TermsOfServiceAgreed: true, PrivateKey: key}))
	certificateKey := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	certificates := must(client.ObtainCertificateForSANs(ctx, s.account, certificateKey, names))
	must(0, os.WriteFile(chain, certificates[0].ChainPEM, 0o600))
}
