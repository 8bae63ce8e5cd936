// oauth4webapi: registers a program that proves itself by its key, and gets a token for it; then reads, changes and deletes it (RFC 7592).
import * as oauth from 'oauth4webapi'
import { done, settings } from './browser.mjs'

const { issuer, token } = settings
const options = { [oauth.allowInsecureRequests]: true }
const as = await oauth.processDiscoveryResponse(new URL(issuer), await oauth.discoveryRequest(new URL(issuer), options))
const keys = await oauth.generateKeyPair('ES256', { extractable: true })
const { kty, crv, x, y } = await crypto.subtle.exportKey('jwk', keys.publicKey)
const metadata = { grant_types: ['client_credentials'], token_endpoint_auth_method: 'private_key_jwt', scope: 'groups', jwks: { keys: [{ kty, crv, x, y, kid: 'k' }] } }
const answer = await oauth.dynamicClientRegistrationRequest(as, metadata, { ...options, initialAccessToken: token })
const client = await oauth.processDynamicClientRegistrationResponse(answer)
const proof = oauth.PrivateKeyJwt({ key: keys.privateKey, kid: 'k' })
const tokens = await oauth.processClientCredentialsResponse(as, client, await oauth.clientCredentialsGrantRequest(as, client, proof, {}, options))

const own = (method, token, body) =>
  oauth.protectedResourceRequest(token, method, new URL(client.registration_client_uri), new Headers({ 'content-type': 'application/json' }), body && JSON.stringify(body), options)
const read = await (await own('GET', client.registration_access_token)).json()
const { registration_access_token, registration_client_uri, client_id_issued_at, ...whole } = read
const changed = await (await own('PUT', registration_access_token, { ...whole, client_name: 'Renamed' })).json()
const again = await own('GET', registration_access_token).catch((error) => error)
const gone = (await own('DELETE', changed.registration_access_token)).status

done({ client_id: client.client_id, type: tokens.token_type, read: read.client_id, renamed: changed.client_name, again: again.status, gone })
