// oauth4webapi with a signed request (RFC 9101) and a signed answer (JARM), refusals too, and keys that it does not have.
import * as oauth from 'oauth4webapi'
import { browse, done, settings } from './browser.mjs'

const { issuer, client_id, client_secret, redirect_uri, scope, key: jwk } = settings
const insecure = { [oauth.allowInsecureRequests]: true }
const self = { client_id, authorization_signed_response_alg: 'RS256' }
const proof = oauth.ClientSecretPost(client_secret)
const as = await oauth.processDiscoveryResponse(new URL(issuer), await oauth.discoveryRequest(new URL(issuer), insecure))
const key = { key: await crypto.subtle.importKey('jwk', jwk, { name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign']), kid: jwk.kid }
const { privateKey: another } = await oauth.generateKeyPair('ES256')

const verifier = oauth.generateRandomCodeVerifier()
const state = oauth.generateRandomState()
const code_challenge = await oauth.calculatePKCECodeChallenge(verifier)
const whole = { redirect_uri, scope, state, response_type: 'code', response_mode: 'jwt', code_challenge, code_challenge_method: 'S256' }
const ask = async (asked, by, outside = {}) => {
  const url = new URL(as.authorization_endpoint)
  url.search = new URLSearchParams({ client_id, request: await oauth.issueRequestObject(as, self, asked, by), ...outside })
  return new URL(await browse(url))
}
const read = async (url) => oauth.validateJwtAuthResponse(as, self, url, state, insecure)

const answer = await read(await ask(whole, key))
const redeemed = await oauth.authorizationCodeGrantRequest(as, self, proof, answer, redirect_uri, verifier, insecure)
const tokens = await oauth.processAuthorizationCodeResponse(as, self, redeemed, { requireIdToken: true })
await oauth.validateApplicationLevelSignature(as, redeemed, insecure)
const refused = await read(await ask({ ...whole, prompt: 'none consent' }, key)).catch(({ error }) => error)
const forged = await read(await ask(whole, another, { redirect_uri, state, response_mode: 'jwt' })).catch(({ error }) => error)
const form = { request: await oauth.issueRequestObject(as, self, whole, another) }
const pushed = await oauth.pushedAuthorizationRequest(as, self, proof, form, insecure)
const atPar = await oauth.processPushedAuthorizationResponse(as, self, pushed).catch(({ error }) => error)

done({ claims: oauth.getValidatedIdTokenClaims(tokens), refused, forged, atPar })
