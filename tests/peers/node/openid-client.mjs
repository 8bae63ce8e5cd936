// openid-client: pushed authorization request, PKCE, verification, UserInfo, introspection, refresh, client_credentials, revocation, logout.
import * as client from 'openid-client'
import { browse, done, settings } from './browser.mjs'

const { issuer, client_id, client_secret, redirect_uri, post_logout_redirect_uri, scope } = settings
const insecure = { execute: [client.allowInsecureRequests] }
const config = await client.discovery(new URL(issuer), client_id, {}, client.ClientSecretBasic(client_secret), insecure)

const pkceCodeVerifier = client.randomPKCECodeVerifier()
const [state, nonce] = [client.randomState(), client.randomNonce()]
const code_challenge = await client.calculatePKCECodeChallenge(pkceCodeVerifier)
const asked = { redirect_uri, scope, state, nonce, code_challenge, code_challenge_method: 'S256' }
const url = await client.buildAuthorizationUrlWithPAR(config, asked)
const checks = { pkceCodeVerifier, expectedState: state, expectedNonce: nonce, idTokenExpected: true }
const tokens = await client.authorizationCodeGrant(config, new URL(await browse(url)), checks)

// What was pushed is in no URL.
const pushed = [...url.searchParams.keys()].sort()
const claims = tokens.claims()
const userinfo = await client.fetchUserInfo(config, tokens.access_token, claims.sub)
const introspected = await client.tokenIntrospection(config, tokens.access_token)
const refreshed = await client.refreshTokenGrant(config, tokens.refresh_token)
const own = await client.clientCredentialsGrant(config)
await client.tokenRevocation(config, refreshed.refresh_token)
const revoked = await client.tokenIntrospection(config, refreshed.access_token)
const logout = client.buildEndSessionUrl(config, { id_token_hint: refreshed.id_token, post_logout_redirect_uri, state })

done({ pushed, claims, userinfo, introspected, own, revoked, state, rotated: refreshed.refresh_token !== tokens.refresh_token, left: await browse(logout) })
