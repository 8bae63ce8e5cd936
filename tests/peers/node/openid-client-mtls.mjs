// openid-client as a client with a certificate (RFC 8705): pushed request, bound tokens, UserInfo, refresh, introspection.
import * as client from 'openid-client'
import { browse, done, settings } from './browser.mjs'
import { showing } from './certificate.mjs'

const { issuer, client_id, redirect_uri, scope, own, other, authority } = settings
const fetching = (one) => ({ [client.customFetch]: showing({ ...one, authority }) })
const configured = (one) => client.discovery(new URL(issuer), client_id, { use_mtls_endpoint_aliases: true }, client.TlsClientAuth(), fetching(one))
const [config, stranger, nobody] = await Promise.all([own, other, {}].map(configured))
const refused = ({ error, cause }) => error ?? cause?.[0]?.parameters?.error ?? `${cause}`

const pkceCodeVerifier = client.randomPKCECodeVerifier()
const expectedState = client.randomState()
const code_challenge = await client.calculatePKCECodeChallenge(pkceCodeVerifier)
const asked = { redirect_uri, scope, state: expectedState, code_challenge, code_challenge_method: 'S256' }
const url = await client.buildAuthorizationUrlWithPAR(config, asked)
const checks = { pkceCodeVerifier, expectedState, idTokenExpected: true }
const tokens = await client.authorizationCodeGrant(config, new URL(await browse(url)), checks)
const { sub } = tokens.claims()
const userinfo = await client.fetchUserInfo(config, tokens.access_token, sub)
const stolen = []
for (const one of [stranger, nobody]) stolen.push(await client.fetchUserInfo(one, tokens.access_token, sub).catch(refused))
const { cnf } = await client.tokenIntrospection(config, tokens.access_token)
const refreshed = await client.refreshTokenGrant(config, tokens.refresh_token)
const again = await client.fetchUserInfo(config, refreshed.access_token, sub)
const unproven = []
for (const one of [stranger, nobody]) unproven.push(await client.clientCredentialsGrant(one, {}).catch(refused))

done({ sub, userinfo, again, cnf, stolen, unproven, metadata: config.serverMetadata() })
