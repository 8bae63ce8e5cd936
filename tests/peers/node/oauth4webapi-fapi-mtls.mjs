// oauth4webapi as a client of FAPI 2.0 with a certificate (RFC 8705), and what it is refused with another one, or with none.
import * as oauth from 'oauth4webapi'
import { browse, done, settings } from './browser.mjs'
import { showing } from './certificate.mjs'

const { issuer, client_id, redirect_uri, scope, own, other, authority } = settings
const self = { client_id, use_mtls_endpoint_aliases: true }
const by = (one) => ({ [oauth.customFetch]: showing({ ...one, authority }) })
const proof = oauth.TlsClientAuth()
const as = await oauth.processDiscoveryResponse(new URL(issuer), await oauth.discoveryRequest(new URL(issuer), by({})))
const refusal = async (promise) => promise.then(() => 'accepted', ({ error, cause }) => error ?? cause?.[0]?.parameters?.error ?? `${cause}`)
const refused = async (attempt) => [await refusal(attempt(other)), await refusal(attempt({}))]

const verifier = oauth.generateRandomCodeVerifier()
const [state, nonce] = [oauth.generateRandomState(), oauth.generateRandomNonce()]
const code_challenge = await oauth.calculatePKCECodeChallenge(verifier)
const asked = { redirect_uri, scope, state, nonce, response_type: 'code', code_challenge, code_challenge_method: 'S256' }
const push = async (one, parameters = asked) =>
  oauth.processPushedAuthorizationResponse(as, self, await oauth.pushedAuthorizationRequest(as, self, proof, parameters, by(one)))
const pushed = await refused(push)
const { code_challenge: _challenge, code_challenge_method: _method, ...without } = asked
const unchallenged = await refusal(push(own, without))
const { request_uri } = await push(own)
const url = new URL(as.authorization_endpoint)
url.search = new URLSearchParams({ client_id, request_uri })
const answer = oauth.validateAuthResponse(as, self, new URL(await browse(url)), state)

const redeem = async (one) => {
  const redeemed = await oauth.authorizationCodeGrantRequest(as, self, proof, answer, redirect_uri, verifier, by(one))
  return oauth.processAuthorizationCodeResponse(as, self, redeemed, { expectedNonce: nonce, requireIdToken: true })
}
const redeemed = await refused(redeem)
const tokens = await redeem(own)
const { sub } = oauth.getValidatedIdTokenClaims(tokens)

const ask = async (one) => oauth.processUserInfoResponse(as, self, sub, await oauth.userInfoRequest(as, self, tokens.access_token, by(one)))
const userinfo = await ask(own)
const stolen = await refused(ask)
const renew = async (one) =>
  oauth.processRefreshTokenResponse(as, self, await oauth.refreshTokenGrantRequest(as, self, proof, tokens.refresh_token, by(one)))
const refreshed = await refused(renew)
const { access_token } = await renew(own)
const about = await oauth.introspectionRequest(as, self, proof, access_token, by(own))
const { cnf } = await oauth.processIntrospectionResponse(as, self, about)

done({ type: tokens.token_type, userinfo, cnf, unchallenged, refused: { pushed, redeemed, stolen, refreshed } })
