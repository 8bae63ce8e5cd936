// oauth4webapi: a program's own token is no person's; whoever may not act for others is refused.
import * as oauth from 'oauth4webapi'
import { browse, done, settings } from './browser.mjs'

const { issuer, client_id, client_secret, redirect_uri, scope } = settings
const insecure = { [oauth.allowInsecureRequests]: true }
const self = { client_id }
const proof = oauth.ClientSecretPost(client_secret)
const as = await oauth.processDiscoveryResponse(new URL(issuer), await oauth.discoveryRequest(new URL(issuer), insecure))
const verifier = oauth.generateRandomCodeVerifier()
const state = oauth.generateRandomState()
const url = new URL(as.authorization_endpoint)
const code_challenge = await oauth.calculatePKCECodeChallenge(verifier)
url.search = new URLSearchParams({ client_id, redirect_uri, scope, state, response_type: 'code', code_challenge, code_challenge_method: 'S256' })
const answer = oauth.validateAuthResponse(as, self, new URL(await browse(url)), state)
const redeemed = await oauth.authorizationCodeGrantRequest(as, self, proof, answer, redirect_uri, verifier, insecure)
const tokens = await oauth.processAuthorizationCodeResponse(as, self, redeemed)

const type = (name) => `urn:ietf:params:oauth:token-type:${name}`
const grant = 'urn:ietf:params:oauth:grant-type:token-exchange'
const exchange = async (parameters) =>
  oauth.processGenericTokenEndpointResponse(as, self, await oauth.genericTokenEndpointRequest(as, self, proof, grant, parameters, insecure))
const refused = async (parameters) => exchange(parameters).catch(({ status, error }) => [status, error])
const mine = { subject_token: tokens.id_token, subject_token_type: type('id_token') }

done({
  exchanged: await exchange({ ...mine, requested_token_type: type('jwt') }),
  refused: {
    'an actor': await refused({ ...mine, actor_token: tokens.access_token, actor_token_type: type('access_token') }),
    'a refresh token': await refused({ ...mine, requested_token_type: type('refresh_token') }),
    'no token': await refused({ subject_token: 'x', subject_token_type: type('access_token') }),
  },
})
