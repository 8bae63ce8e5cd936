// openid-client as a client of FAPI 2.0: PAR, PKCE, a key or a certificate, bound tokens; with Message Signing JAR, JARM and signed introspection.
import * as client from 'openid-client'
import { browse, done, settings } from './browser.mjs'
import { showing } from './certificate.mjs'

const { issuer, client_id, redirect_uri, scope, alg, key: jwk, signing, authority, own } = settings
const algorithm = { PS256: { name: 'RSA-PSS', hash: 'SHA-256' }, ES256: { name: 'ECDSA', namedCurve: 'P-256' } }[alg]
const key = { key: await crypto.subtle.importKey('jwk', jwk, algorithm, false, ['sign']), kid: jwk.kid }
const execute = [...(authority ? [] : [client.allowInsecureRequests]), ...(signing ? [client.useJwtResponseMode] : [])]
const options = { execute, ...(authority ? { [client.customFetch]: showing({ ...own, authority }) } : {}) }
const metadata = signing ? { introspection_signed_response_alg: 'ES256' } : {}
const proof = authority ? client.TlsClientAuth() : client.PrivateKeyJwt(key)
const config = await client.discovery(new URL(issuer), client_id, metadata, proof, options)
const pair = async () => (authority ? undefined : { DPoP: client.getDPoPHandle(config, await client.randomDPoPKeyPair('ES256')) })
const [bound, stranger] = [await pair(), await pair()]
const refused = ({ error, cause }) => error ?? cause?.[0]?.parameters?.error ?? `${cause}`

const pkceCodeVerifier = client.randomPKCECodeVerifier()
const [state, nonce] = [client.randomState(), client.randomNonce()]
const code_challenge = await client.calculatePKCECodeChallenge(pkceCodeVerifier)
const asked = { redirect_uri, scope, state, nonce, code_challenge, code_challenge_method: 'S256' }
const signed = signing ? (await client.buildAuthorizationUrlWithJAR(config, asked, key)).searchParams : asked
const url = await client.buildAuthorizationUrlWithPAR(config, signed, bound)
const back = new URL(await browse(url))
const checks = { pkceCodeVerifier, expectedState: state, expectedNonce: nonce, idTokenExpected: true }
const tokens = await client.authorizationCodeGrant(config, back, checks, undefined, bound)
const { sub } = tokens.claims()
const userinfo = await client.fetchUserInfo(config, tokens.access_token, sub, bound)
const stolen = stranger ? await client.fetchUserInfo(config, tokens.access_token, sub, stranger).catch(refused) : null
const refreshed = await client.refreshTokenGrant(config, tokens.refresh_token, {}, bound)
const again = await client.fetchUserInfo(config, refreshed.access_token, sub, bound)
const introspected = await client.tokenIntrospection(config, refreshed.access_token)
const unpushed = new URL(await browse(client.buildAuthorizationUrl(config, asked)))

done({
  type: tokens.token_type,
  sent: [...url.searchParams.keys()].sort(),
  back: [...back.searchParams.keys()].sort(),
  userinfo,
  stolen,
  rotated: (refreshed.refresh_token ?? tokens.refresh_token) !== tokens.refresh_token,
  again,
  cnf: introspected.cnf,
  unpushed: unpushed.searchParams.get('error'),
  answered: [...unpushed.searchParams.keys()].sort(),
})
