// oauth4webapi with a key (RFC 9449), and whoever holds its access token, or its requests, without the key: at UserInfo and at an API.
import * as oauth from 'oauth4webapi'
import { serve } from './api.mjs'
import { browse, done, settings } from './browser.mjs'

const { issuer, client_id, client_secret, redirect_uri, scope, resource } = settings
const insecure = { [oauth.allowInsecureRequests]: true }
const self = { client_id }
const proof = oauth.ClientSecretPost(client_secret)
const as = await oauth.processDiscoveryResponse(new URL(issuer), await oauth.discoveryRequest(new URL(issuer), insecure))
const key = async (alg) => oauth.DPoP(self, await oauth.generateKeyPair(alg))
const [DPoP, other] = [await key('ES256'), await key('PS256')]

const verifier = oauth.generateRandomCodeVerifier()
const state = oauth.generateRandomState()
const url = new URL(as.authorization_endpoint)
const code_challenge = await oauth.calculatePKCECodeChallenge(verifier)
const asked = { client_id, redirect_uri, scope, state, response_type: 'code', code_challenge, code_challenge_method: 'S256' }
url.search = new URLSearchParams(asked)
for (const one of [issuer, resource]) url.searchParams.append('resource', one)
const answer = oauth.validateAuthResponse(as, self, new URL(await browse(url)), state)

// This client is registered with dpop_bound_access_tokens: without a proof there is nothing, and the code stays good.
const redeem = async (options) => {
  const response = await oauth.authorizationCodeGrantRequest(as, self, proof, answer, redirect_uri, verifier, { ...insecure, ...options })
  return oauth.processAuthorizationCodeResponse(as, self, response)
}
const unbound = await redeem({}).catch(({ error }) => error)
const tokens = await redeem({ DPoP })
const again = await oauth.refreshTokenGrantRequest(as, self, proof, tokens.refresh_token, { DPoP, ...insecure })
const { access_token: another } = await oauth.processRefreshTokenResponse(as, self, again)

/** The headers of a request that is never sent. */
const headersOf = async (token, method, url, handle) => {
  let headers
  const instead = async (_, options) => ((headers = new Headers(options.headers)), new Response(''))
  await oauth.protectedResourceRequest(token, method, new URL(url), undefined, undefined, { DPoP: handle, [oauth.customFetch]: instead, ...insecure })
  return Object.fromEntries(headers)
}
const token = tokens.access_token
const tried = async (url) => {
  const status = async (headers, method = 'GET') => (await fetch(url, { method, headers })).status
  const sent = await headersOf(token, 'GET', url, DPoP)
  const authorization = sent.authorization
  return {
    good: await status(sent),
    replayed: await status(sent),
    'as Bearer': await status({ authorization: `Bearer ${token}` }),
    'as Bearer with a proof': await status({ ...(await headersOf(token, 'GET', url, DPoP)), authorization: `Bearer ${token}` }),
    'no proof': await status({ authorization }),
    'another key': await status(await headersOf(token, 'GET', url, other)),
    'the ath of another token': await status({ ...(await headersOf(another, 'GET', url, DPoP)), authorization }),
    'another method': await status(await headersOf(token, 'GET', url, DPoP), 'POST'),
    'another URL': await status(await headersOf(token, 'GET', `${url}/other`, DPoP)),
  }
}

const api = await serve(resource, as, insecure)
const [atUserinfo, atApi] = [await tried(as.userinfo_endpoint), await tried(resource)]
const about = await oauth.introspectionRequest(as, self, proof, token, insecure)
const introspected = await oauth.processIntrospectionResponse(as, self, about)

api.close()
done({ unbound, type: tokens.token_type, jkt: await DPoP.calculateThumbprint(), introspected, atUserinfo, atApi })
