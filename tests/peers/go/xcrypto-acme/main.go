// A client made of golang.org/x/crypto/acme: registers, puts the account under another key, gets a certificate and revokes it.
//
//	xcrypto-acme DIRECTORY PORT HOW CHAIN NAME
//
// http-01 is answered on PORT of 127.0.0.1. HOW is "account" or "key": who revokes. The chain is written to CHAIN.
package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log"
	"net/http"
	"os"

	"golang.org/x/crypto/acme"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func newKey() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) }

func prove(ctx context.Context, client *acme.Client, order *acme.Order, port string) {
	for _, url := range order.AuthzURLs {
		authorization := must(client.GetAuthorization(ctx, url))
		for _, challenge := range authorization.Challenges {
			if challenge.Type != "http-01" {
				continue
			}
			answer := must(client.HTTP01ChallengeResponse(challenge.Token))
			mux := http.NewServeMux()
			mux.HandleFunc(client.HTTP01ChallengePath(challenge.Token), func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) })
			server := &http.Server{Addr: "127.0.0.1:" + port, Handler: mux}
			go server.ListenAndServe()
			must(client.Accept(ctx, challenge))
			must(client.WaitAuthorization(ctx, url))
			must(0, server.Close())
		}
	}
}

func main() {
	directory, port, how, chain, name := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	ctx := context.Background()
	client := &acme.Client{DirectoryURL: directory, Key: newKey()}
	account := must(client.Register(ctx, &acme.Account{Contact: []string{"mailto:someone@example.test"}}, acme.AcceptTOS))
	must(0, client.AccountKeyRollover(ctx, newKey()))
	if found := must(client.GetReg(ctx, "")); found.URI != account.URI {
		log.Fatalf("the account %s is %s after the key change", account.URI, found.URI)
	}

	order := must(client.AuthorizeOrder(ctx, acme.DomainIDs(name)))
	prove(ctx, client, order, port)
	key := newKey()
	csr := must(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{name}}, key))
	ready := must(client.WaitOrder(ctx, order.URI))
	ders, _, err := client.CreateOrderCert(ctx, ready.FinalizeURL, csr, true)
	var text bytes.Buffer
	for _, der := range must(ders, err) {
		must(0, pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	must(0, os.WriteFile(chain, text.Bytes(), 0o600))

	var signer crypto.Signer
	if how == "key" {
		signer = key
	}
	must(0, client.RevokeCert(ctx, signer, ders[0], acme.CRLReasonSuperseded))
}
