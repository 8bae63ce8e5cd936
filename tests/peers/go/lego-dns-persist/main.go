// A client made of lego 5: registers, and gets a certificate by dns-persist-01 where names are given.
//
//	lego-dns-persist DIRECTORY KEY RESOLVER [CHAIN NAME...]
//
// The account key is kept in the file KEY, the account's URL is the last line printed, the chain is written to CHAIN.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/go-acme/lego/v5/certcrypto"
	"github.com/go-acme/lego/v5/certificate"
	"github.com/go-acme/lego/v5/challenge/dnspersist01"

	"greatseal.example/peers/internal/legos"
)

func main() {
	directory, key, resolver := os.Args[1], os.Args[2], os.Args[3]
	ctx := context.Background()
	client, account := legos.Register(ctx, directory, key)
	fmt.Println(account)
	if len(os.Args) == 4 {
		return
	}

	options := dnspersist01.NewOptions()
	options.RecursiveNameservers = []string{resolver}
	dnspersist01.SetDefaultClient(dnspersist01.NewClient(options))
	legos.Must(0, client.Challenge.SetDNSPersist01(dnspersist01.DisableAuthoritativeNssPropagationRequirement()))
	request := certificate.ObtainRequest{Domains: os.Args[5:], Bundle: true, KeyType: certcrypto.EC256}
	legos.Must(0, os.WriteFile(os.Args[4], legos.Must(client.Certificate.Obtain(ctx, request)).Certificate, 0o600))
}
