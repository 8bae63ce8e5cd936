// Sign in with the device flow of golang.org/x/oauth2: the link goes out as a line, and the tokens when they are there.
package main

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"os"
	"strings"

	"golang.org/x/oauth2"
)

func main() {
	issuer, client, scope := os.Args[1], os.Args[2], os.Args[3]
	config := oauth2.Config{
		ClientID: client,
		Scopes:   strings.Fields(scope),
		Endpoint: oauth2.Endpoint{DeviceAuthURL: issuer + "/device_authorization", TokenURL: issuer + "/token", AuthStyle: oauth2.AuthStyleInParams},
	}
	ctx := context.Background()
	out := json.NewEncoder(os.Stdout)
	asked, err := config.DeviceAuth(ctx)
	if err != nil {
		log.Fatal(err)
	}
	out.Encode(map[string]any{"open": asked.VerificationURIComplete, "interval": asked.Interval, "code": asked.UserCode})
	token, err := config.DeviceAccessToken(ctx, asked)
	if err != nil {
		log.Fatal(err)
	}
	answer, err := config.Client(ctx, token).Get(issuer + "/userinfo")
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	var person map[string]any
	if err := json.NewDecoder(answer.Body).Decode(&person); err != nil || answer.StatusCode != http.StatusOK {
		log.Fatal(answer.Status, err)
	}
	_, err = config.DeviceAccessToken(ctx, asked)
	out.Encode(map[string]any{"person": person, "type": token.Type(), "refreshes": token.RefreshToken != "", "again": err.Error()})
}
