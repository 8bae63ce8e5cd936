// openid-client with a signed request (RFC 9101), pushed and not, a signed answer (JARM), signed UserInfo and signed introspection (RFC 9701).
import * as client from 'openid-client'
import { browse, done, settings } from './browser.mjs'

const { issuer, client_id, client_secret, redirect_uri, scope, key: jwk } = settings
const insecure = { execute: [client.allowInsecureRequests, client.useJwtResponseMode, client.enableNonRepudiationChecks] }
const metadata = { userinfo_signed_response_alg: 'ES256', introspection_signed_response_alg: 'ES256' }
const config = await client.discovery(new URL(issuer), client_id, metadata, client.ClientSecretBasic(client_secret), insecure)
const key = { key: await crypto.subtle.importKey('jwk', jwk, { name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign']), kid: jwk.kid }

const pkceCodeVerifier = client.randomPKCECodeVerifier()
const code_challenge = await client.calculatePKCECodeChallenge(pkceCodeVerifier)
const signIn = async (push) => {
  const [state, nonce] = [client.randomState(), client.randomNonce()]
  const asked = { redirect_uri, scope, state, nonce, max_age: '600', code_challenge, code_challenge_method: 'S256' }
  const signed = await client.buildAuthorizationUrlWithJAR(config, asked, key)
  const url = push ? await client.buildAuthorizationUrlWithPAR(config, signed.searchParams) : signed
  const back = new URL(await browse(url))
  const checks = { pkceCodeVerifier, expectedState: state, expectedNonce: nonce, maxAge: 600, idTokenExpected: true }
  const tokens = await client.authorizationCodeGrant(config, back, checks)
  return { sent: [...url.searchParams.keys()].sort(), back: [...back.searchParams.keys()], tokens }
}

const [plain, pushed] = [await signIn(false), await signIn(true)]
const { tokens } = pushed
const { sub } = tokens.claims()
const userinfo = await client.fetchUserInfo(config, tokens.access_token, sub)
const introspected = await client.tokenIntrospection(config, tokens.access_token)

done({ plain: { ...plain, tokens: undefined }, pushed: { ...pushed, tokens: undefined }, sub, userinfo, introspected })
