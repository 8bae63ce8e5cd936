// A client made of golang.org/x/crypto/acme: binds an account to an external one, and gets a certificate by http-01.
//
//	x-crypto-eab DIRECTORY KID HMAC PORT CHAIN NAME...
//
// HMAC is base64url, PORT is where http-01 is answered, the chain is written to CHAIN; the account's URL is the last line printed.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
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

func newKey() *ecdsa.PrivateKey {
	return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
}

func main() {
	directory, kid, hmac, port, chain, names := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6:]
	ctx := context.Background()
	client := &acme.Client{Key: newKey(), DirectoryURL: directory}
	account := &acme.Account{ExternalAccountBinding: &acme.ExternalAccountBinding{KID: kid, Key: must(base64.RawURLEncoding.DecodeString(hmac))}}
	made := must(client.Register(ctx, account, acme.AcceptTOS))

	go func() {
		log.Fatal(http.ListenAndServe("127.0.0.1:"+port, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			token := r.URL.Path[len("/.well-known/acme-challenge/"):]
			fmt.Fprint(w, must(client.HTTP01ChallengeResponse(token)))
		})))
	}()
	order := must(client.AuthorizeOrder(ctx, acme.DomainIDs(names...)))
	for _, url := range order.AuthzURLs {
		for _, challenge := range must(client.GetAuthorization(ctx, url)).Challenges {
			if challenge.Type == "http-01" {
				must(client.Accept(ctx, challenge))
			}
		}
		must(client.WaitAuthorization(ctx, url))
	}
	order = must(client.WaitOrder(ctx, order.URI))
	csr := must(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: names}, newKey()))
	ders, _, err := client.CreateOrderCert(ctx, order.FinalizeURL, csr, true)
	must(0, err)
	out := must(os.Create(chain))
	for _, der := range ders {
		must(0, pem.Encode(out, &pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	must(0, out.Close())
	fmt.Println(made.URI)
}
