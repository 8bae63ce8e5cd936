// oauth4webapi as a client of FAPI 2.0, and what it is refused: other algorithms, another audience, no key, no signed request.
import * as oauth from 'oauth4webapi'
import { browse, done, settings } from './browser.mjs'

const { issuer, client_id, redirect_uri, scope, signing, keys } = settings
const insecure = { [oauth.allowInsecureRequests]: true }
const self = { client_id }
const as = await oauth.processDiscoveryResponse(new URL(issuer), await oauth.discoveryRequest(new URL(issuer), insecure))
const algorithms = { PS256: { name: 'RSA-PSS', hash: 'SHA-256' }, RS256: { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' }, ES256: { name: 'ECDSA', namedCurve: 'P-256' } }
const load = async (alg) => ({ key: await crypto.subtle.importKey('jwk', keys[alg], algorithms[alg], false, ['sign']), kid: keys[alg].kid })
const [strong, weak, curve] = [await load('PS256'), await load('RS256'), await load('ES256')]
const naming = (aud) => ({ [oauth.modifyAssertion]: (_header, claims) => Object.assign(claims, { aud }) })
const good = oauth.PrivateKeyJwt(strong)
const DPoP = oauth.DPoP(self, await oauth.generateKeyPair('ES256'))
const weakDPoP = oauth.DPoP(self, await oauth.generateKeyPair('RS256'))

const verifier = oauth.generateRandomCodeVerifier()
const [state, nonce] = [oauth.generateRandomState(), oauth.generateRandomNonce()]
const code_challenge = await oauth.calculatePKCECodeChallenge(verifier)
const whole = { redirect_uri, scope, state, nonce, response_type: 'code', code_challenge, code_challenge_method: 'S256', ...(signing ? { response_mode: 'jwt' } : {}) }
const formed = async (asked = whole, by = curve) => (signing ? { request: await oauth.issueRequestObject(as, self, asked, by) } : asked)
const push = async (proof, form, options = { DPoP }) => {
  const answer = await oauth.pushedAuthorizationRequest(as, self, proof, form, { ...options, ...insecure })
  return oauth.processPushedAuthorizationResponse(as, self, answer)
}
const refusal = async (promise) => promise.then(() => 'accepted', ({ error, cause }) => error ?? cause?.[0]?.parameters?.error ?? `${cause}`)

const refused = {
  RS256: await refusal(push(oauth.PrivateKeyJwt(weak), await formed())),
  array: await refusal(push(oauth.PrivateKeyJwt(strong, naming([issuer])), await formed())),
  endpoint: await refusal(push(oauth.PrivateKeyJwt(strong, naming(as.token_endpoint)), await formed())),
  proof: await refusal(push(good, await formed(), { DPoP: weakDPoP })),
  ...(signing ? { unsigned: await refusal(push(good, whole)), object: await refusal(push(good, await formed(whole, weak))), plain: await refusal(push(good, await formed({ ...whole, response_mode: 'query' }))) } : {}),
}
const { request_uri } = await push(good, await formed())
const url = new URL(as.authorization_endpoint)
url.search = new URLSearchParams({ client_id, request_uri })
const back = new URL(await browse(url))
const answer = signing ? await oauth.validateJwtAuthResponse(as, self, back, state, insecure) : oauth.validateAuthResponse(as, self, back, state)
const redeem = async (options) => oauth.authorizationCodeGrantRequest(as, self, good, answer, redirect_uri, verifier, { ...options, ...insecure })
refused.bearer = (await (await redeem({})).json()).error
const redeemed = await redeem({ DPoP })
const tokens = await oauth.processAuthorizationCodeResponse(as, self, redeemed, { expectedNonce: nonce, requireIdToken: true })
await oauth.validateApplicationLevelSignature(as, redeemed, insecure)

done({ type: tokens.token_type, sub: oauth.getValidatedIdTokenClaims(tokens).sub, refused })
