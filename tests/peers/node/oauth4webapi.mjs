// oauth4webapi: discovery, PKCE, verification with the signature of the ID token, UserInfo, introspection, refresh, revocation.
import * as oauth from 'oauth4webapi'
import { browse, done, settings } from './browser.mjs'

const { issuer, client_id, client_secret, redirect_uri, scope } = settings
const insecure = { [oauth.allowInsecureRequests]: true }
const self = { client_id }
const proof = oauth.ClientSecretPost(client_secret)
const as = await oauth.processDiscoveryResponse(new URL(issuer), await oauth.discoveryRequest(new URL(issuer), insecure))

const verifier = oauth.generateRandomCodeVerifier()
const [state, nonce] = [oauth.generateRandomState(), oauth.generateRandomNonce()]
const url = new URL(as.authorization_endpoint)
const code_challenge = await oauth.calculatePKCECodeChallenge(verifier)
const asked = { client_id, redirect_uri, scope, state, nonce, response_type: 'code', code_challenge, code_challenge_method: 'S256' }
url.search = new URLSearchParams(asked)
const answer = oauth.validateAuthResponse(as, self, new URL(await browse(url)), state)
const redeemed = await oauth.authorizationCodeGrantRequest(as, self, proof, answer, redirect_uri, verifier, insecure)
const tokens = await oauth.processAuthorizationCodeResponse(as, self, redeemed, { expectedNonce: nonce, requireIdToken: true })
await oauth.validateApplicationLevelSignature(as, redeemed, insecure)

const claims = oauth.getValidatedIdTokenClaims(tokens)
const shown = await oauth.userInfoRequest(as, self, tokens.access_token, insecure)
const userinfo = await oauth.processUserInfoResponse(as, self, claims.sub, shown)
const again = await oauth.refreshTokenGrantRequest(as, self, proof, tokens.refresh_token, insecure)
const refreshed = await oauth.processRefreshTokenResponse(as, self, again)
await oauth.validateApplicationLevelSignature(as, again, insecure)
const about = async (token) =>
  oauth.processIntrospectionResponse(as, self, await oauth.introspectionRequest(as, self, proof, token, insecure))
const introspected = await about(refreshed.access_token)
await oauth.processRevocationResponse(await oauth.revocationRequest(as, self, proof, refreshed.access_token, insecure))
const revoked = await about(refreshed.access_token)

// A token that was presented twice ends its family; the application hears of it as invalid_grant.
const replayed = await oauth.refreshTokenGrantRequest(as, self, proof, tokens.refresh_token, insecure)
const replay = await oauth.processRefreshTokenResponse(as, self, replayed).catch(({ error }) => error)

done({ claims, userinfo, introspected, revoked, replay, rotated: refreshed.refresh_token !== tokens.refresh_token })
