// openid-client as a public client with a key (RFC 9449) and an API of its own (RFC 8707): pushed request, UserInfo, API, refresh.
import * as oauth from 'oauth4webapi'
import * as client from 'openid-client'
import { serve } from './api.mjs'
import { browse, done, settings } from './browser.mjs'

const { issuer, client_id, redirect_uri, scope, resource } = settings
const insecure = { execute: [client.allowInsecureRequests] }
const config = await client.discovery(new URL(issuer), client_id, undefined, client.None(), insecure)
const key = async () => client.getDPoPHandle(config, await client.randomDPoPKeyPair('ES256'))
const [DPoP, other] = [await key(), await key()]

const pkceCodeVerifier = client.randomPKCECodeVerifier()
const expectedState = client.randomState()
const code_challenge = await client.calculatePKCECodeChallenge(pkceCodeVerifier)
const asked = new URLSearchParams({ redirect_uri, scope, state: expectedState, code_challenge, code_challenge_method: 'S256' })
for (const one of [issuer, resource]) asked.append('resource', one)
const url = await client.buildAuthorizationUrlWithPAR(config, asked, { DPoP })
const checks = { pkceCodeVerifier, expectedState, idTokenExpected: true }
const tokens = await client.authorizationCodeGrant(config, new URL(await browse(url)), checks, undefined, { DPoP })

const api = await serve(resource, config.serverMetadata(), { [oauth.allowInsecureRequests]: true })
const get = async (token, options) => (await client.fetchProtectedResource(config, token, new URL(resource), 'GET', null, undefined, options)).json()
const { sub } = tokens.claims()
const userinfo = await client.fetchUserInfo(config, tokens.access_token, sub, { DPoP })
const found = await get(tokens.access_token, { DPoP })
const stolen = await client.refreshTokenGrant(config, tokens.refresh_token, {}, { DPoP: other }).catch(({ error }) => error)
const refreshed = await client.refreshTokenGrant(config, tokens.refresh_token, { resource }, { DPoP })
const narrow = await get(refreshed.access_token, { DPoP })
const { dpop_signing_alg_values_supported } = config.serverMetadata()

api.close()
done({ type: tokens.token_type, jkt: await DPoP.calculateThumbprint(), sub, userinfo, found, stolen, narrow, algs: dpop_signing_alg_values_supported })
