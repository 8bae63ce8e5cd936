// A client made of lego 5: gets a certificate, and another when the renewal information (RFC 9773) says so.
//
//	lego-ari DIRECTORY KEY PORT CHAIN NAME
//
// The account key is kept in the file KEY, http-01 is answered on PORT of 127.0.0.1, the chain is in CHAIN. The window
// is printed to the standard output, what lego logs to the standard error.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-acme/lego/v5/acme/api"
	"github.com/go-acme/lego/v5/certcrypto"
	"github.com/go-acme/lego/v5/certificate"
	"github.com/go-acme/lego/v5/challenge/http01"
	legolog "github.com/go-acme/lego/v5/log"

	"greatseal.example/peers/internal/legos"
)

func main() {
	directory, key, port, chain, name := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	ctx := context.Background()
	legolog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	client, _ := legos.Register(ctx, directory, key)
	legos.Must(0, client.Challenge.SetHTTP01Provider(http01.NewProviderServer("127.0.0.1", port)))
	request := certificate.ObtainRequest{Domains: []string{name}, Bundle: true, KeyType: certcrypto.EC256}
	if old, err := os.ReadFile(chain); err == nil {
		leaf := legos.Must(certcrypto.ParsePEMBundle(old))[0]
		info := legos.Must(client.Certificate.GetRenewalInfo(ctx, leaf))
		fmt.Println(info.SuggestedWindow.Start.UTC().Format(time.RFC3339), info.SuggestedWindow.End.UTC().Format(time.RFC3339))
		if info.ShouldRenewAt(time.Now(), 0) == nil {
			return
		}
		request.ReplacesCertID = legos.Must(api.MakeARICertID(leaf))
	}
	legos.Must(0, os.WriteFile(chain, legos.Must(client.Certificate.Obtain(ctx, request)).Certificate, 0o600))
}
