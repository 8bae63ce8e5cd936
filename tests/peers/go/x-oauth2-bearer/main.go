// Assertions of an issuer by golang.org/x/oauth2: its jwt package signs them (RFC 7523), its externalaccount package exchanges them (RFC 8693).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/url"
	"os"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google/externalaccount"
	"golang.org/x/oauth2/jwt"
)

type settings struct {
	Issuer, ClientID, ClientSecret string
	Key, KeyID, Audience           string
	Email, Subject, Jti            string
	SubjectToken, Scope            string
}

func refused(err error) string {
	var problem *oauth2.RetrieveError
	if errors.As(err, &problem) {
		return string(problem.Body)
	}
	return err.Error()
}

func main() {
	var given settings
	if err := json.Unmarshal([]byte(os.Args[1]), &given); err != nil {
		log.Fatal(err)
	}
	endpoint, err := url.Parse(given.Issuer + "/token")
	if err != nil {
		log.Fatal(err)
	}
	plain := endpoint.String()
	endpoint.User = url.UserPassword(given.ClientID, given.ClientSecret)
	config := jwt.Config{
		Email: given.Email, PrivateKey: []byte(given.Key), PrivateKeyID: given.KeyID, Subject: given.Subject,
		TokenURL: endpoint.String(), Audience: plain, Expires: 5 * time.Minute, PrivateClaims: map[string]any{"jti": given.Jti},
	}
	ctx := context.Background()
	token, err := config.TokenSource(ctx).Token()
	if err != nil {
		log.Fatal(refused(err))
	}
	_, again := config.TokenSource(ctx).Token()
	source, err := externalaccount.NewTokenSource(ctx, externalaccount.Config{
		Audience: given.Audience, SubjectTokenType: "urn:ietf:params:oauth:token-type:jwt", TokenURL: plain,
		ClientID: given.ClientID, ClientSecret: given.ClientSecret, Scopes: []string{given.Scope},
		CredentialSource: &externalaccount.CredentialSource{File: given.SubjectToken},
	})
	if err != nil {
		log.Fatal(err)
	}
	exchanged, err := source.Token()
	if err != nil {
		log.Fatal(refused(err))
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"token": token.AccessToken, "type": token.Type(), "refreshes": token.RefreshToken != "", "again": refused(again),
		"exchanged": exchanged.AccessToken,
	})
}
