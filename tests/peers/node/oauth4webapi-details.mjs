// oauth4webapi with authorization_details (RFC 9396), without a scope: less in the token request, and more of it refused.
import * as oauth from 'oauth4webapi'
import { browse, done, settings } from './browser.mjs'

const { issuer, client_id, client_secret, redirect_uri, resource } = settings
const insecure = { [oauth.allowInsecureRequests]: true }
const self = { client_id }
const proof = oauth.ClientSecretPost(client_secret)
const as = await oauth.processDiscoveryResponse(new URL(issuer), await oauth.discoveryRequest(new URL(issuer), insecure))
const details = JSON.parse(resource)
const verifier = oauth.generateRandomCodeVerifier()
const code_challenge = await oauth.calculatePKCECodeChallenge(verifier)
const asked = { client_id, redirect_uri, response_type: 'code', code_challenge, code_challenge_method: 'S256' }

const pushed = await oauth.pushedAuthorizationRequest(as, self, proof, { ...asked, authorization_details: resource }, insecure)
const { request_uri } = await oauth.processPushedAuthorizationResponse(as, self, pushed)
const url = new URL(as.authorization_endpoint)
url.search = new URLSearchParams({ client_id, request_uri })
const answer = oauth.validateAuthResponse(as, self, new URL(await browse(url)), oauth.expectNoState)
const redeem = async (wanted) => {
  const additionalParameters = { authorization_details: JSON.stringify(wanted) }
  const sent = oauth.authorizationCodeGrantRequest(as, self, proof, answer, redirect_uri, verifier, { ...insecure, additionalParameters })
  return oauth.processAuthorizationCodeResponse(as, self, await sent)
}
const widened = await redeem([...details, details[0]]).catch(({ error }) => error)
const tokens = await redeem(details.slice(1))
const about = await oauth.introspectionRequest(as, self, proof, tokens.access_token, insecure)
const introspected = await oauth.processIntrospectionResponse(as, self, about)

done({ widened, granted: tokens.authorization_details, introspected: introspected.authorization_details, scope: tokens.scope })
