// openid-client with authorization_details (RFC 9396): pushed, redeemed, narrowed by a refresh; what no type declares is refused.
import * as client from 'openid-client'
import { browse, done, settings } from './browser.mjs'

const { issuer, client_id, client_secret, redirect_uri, scope, resource } = settings
const insecure = { execute: [client.allowInsecureRequests] }
const config = await client.discovery(new URL(issuer), client_id, undefined, client.ClientSecretBasic(client_secret), insecure)
const details = JSON.parse(resource)
const pkceCodeVerifier = client.randomPKCECodeVerifier()
const code_challenge = await client.calculatePKCECodeChallenge(pkceCodeVerifier)
const ask = (authorization_details) => ({
  redirect_uri, scope, code_challenge, code_challenge_method: 'S256', authorization_details: JSON.stringify(authorization_details),
})
const refusal = ({ error, error_description }) => [error, error_description]
const url = await client.buildAuthorizationUrlWithPAR(config, ask(details))
const tokens = await client.authorizationCodeGrant(config, new URL(await browse(url)), { pkceCodeVerifier, idTokenExpected: true })
const introspected = await client.tokenIntrospection(config, tokens.access_token)
const less = await client.refreshTokenGrant(config, tokens.refresh_token, { authorization_details: JSON.stringify(details.slice(0, 1)) })
const more = { authorization_details: JSON.stringify([...details, ...details]) }
const widened = await client.refreshTokenGrant(config, less.refresh_token, more).catch(refusal)
const unknown = await client.buildAuthorizationUrlWithPAR(config, ask([{ type: 'unknown' }])).catch(refusal)

done({
  types: config.serverMetadata().authorization_details_types_supported,
  granted: tokens.authorization_details,
  introspected: introspected.authorization_details,
  less: less.authorization_details,
  widened,
  unknown,
})
