// openid-client decrypts (RFC 7516) the ID token, UserInfo, introspection and the answer of /authorize (JARM), and checks each signature in them.
import * as client from 'openid-client'
import { browse, done, settings } from './browser.mjs'

const { issuer, client_id, client_secret, redirect_uri, scope, key: jwk } = settings
const insecure = { execute: [client.allowInsecureRequests, client.useJwtResponseMode, client.enableNonRepudiationChecks] }
const metadata = { userinfo_signed_response_alg: 'ES256', introspection_signed_response_alg: 'ES256' }
const config = await client.discovery(new URL(issuer), client_id, metadata, client.ClientSecretBasic(client_secret), insecure)
const key = await crypto.subtle.importKey('jwk', jwk, { name: 'ECDH', namedCurve: 'P-256' }, false, ['deriveBits'])
client.enableDecryptingResponses(config, ['A128CBC-HS256', 'A256GCM'], { key, kid: jwk.kid, alg: 'ECDH-ES' })

const pkceCodeVerifier = client.randomPKCECodeVerifier()
const [expectedState, expectedNonce] = [client.randomState(), client.randomNonce()]
const code_challenge = await client.calculatePKCECodeChallenge(pkceCodeVerifier)
const asked = { redirect_uri, scope, state: expectedState, nonce: expectedNonce, code_challenge, code_challenge_method: 'S256' }
const back = new URL(await browse(client.buildAuthorizationUrl(config, asked)))
const tokens = await client.authorizationCodeGrant(config, back, { pkceCodeVerifier, expectedState, expectedNonce, idTokenExpected: true })
const { sub } = tokens.claims()
const userinfo = await client.fetchUserInfo(config, tokens.access_token, sub)
const introspected = await client.tokenIntrospection(config, tokens.access_token)
const parts = [tokens.id_token, back.searchParams.get('response')].map((text) => text.split('.').length)

done({ sub, userinfo, introspected, parts })
