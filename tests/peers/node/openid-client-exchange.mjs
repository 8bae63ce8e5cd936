// openid-client: a frontend signs a person in and calls a service, which exchanges the token and is refused what it may not have.
import * as client from 'openid-client'
import { browse, done, settings } from './browser.mjs'

const { issuer, client_id, client_secret, redirect_uri, scope, resource, service } = settings
const insecure = { execute: [client.allowInsecureRequests] }
const config = await client.discovery(new URL(issuer), client_id, undefined, client.ClientSecretPost(client_secret), insecure)
const backend = await client.discovery(new URL(issuer), service.client_id, undefined, client.ClientSecretPost(client_secret), insecure)

const pkceCodeVerifier = client.randomPKCECodeVerifier()
const code_challenge = await client.calculatePKCECodeChallenge(pkceCodeVerifier)
const expectedState = client.randomState()
const url = client.buildAuthorizationUrl(config, { redirect_uri, scope, code_challenge, code_challenge_method: 'S256', state: expectedState })
const tokens = await client.authorizationCodeGrant(config, new URL(await browse(url)), { pkceCodeVerifier, expectedState })

const type = (name) => `urn:ietf:params:oauth:token-type:${name}`
const grant = 'urn:ietf:params:oauth:grant-type:token-exchange'
const own = await client.clientCredentialsGrant(backend)
const exchange = (as, more) =>
  client.genericGrantRequest(as, grant, { subject_token: tokens.access_token, subject_token_type: type('access_token'), ...more })
const refused = async (as, more) => exchange(as, more).catch(({ status, error }) => [status, error])

const actor = { actor_token: own.access_token, actor_token_type: type('access_token') }
const exchanged = await exchange(backend, { ...actor, audience: resource, scope: 'profile' })
const introspected = await client.tokenIntrospection(backend, exchanged.access_token)
const acted = await exchange(backend, { target_service: 'HTTP/files.example.org@EXAMPLE.ORG' })
const identity = await exchange(backend, { requested_token_type: type('id_token') })

done({
  exchanged,
  introspected,
  acted: acted.scope,
  identity: { type: identity.issued_token_type, token_type: identity.token_type },
  sub: tokens.claims().sub,
  refused: {
    'another audience': await refused(backend, { audience: 'https://elsewhere.example/' }),
    'another scope': await refused(backend, { scope: 'email' }),
    'a service that no rule lists': await refused(backend, { target_service: 'HTTP/stock.example' }),
    'a frontend': await refused(config, {}),
  },
})
