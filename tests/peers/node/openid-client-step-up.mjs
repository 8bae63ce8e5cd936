// openid-client: what a sign-in is worth, and a stronger one by acr_values (RFC 9470) and by an essential acr.
import * as client from 'openid-client'
import { browse, done, settings } from './browser.mjs'

const { issuer, client_id, client_secret, redirect_uri, strong } = settings
const insecure = { execute: [client.allowInsecureRequests] }
const config = await client.discovery(new URL(issuer), client_id, {}, client.ClientSecretBasic(client_secret), insecure)

async function signIn(asked) {
  const pkceCodeVerifier = client.randomPKCECodeVerifier()
  const [state, nonce] = [client.randomState(), client.randomNonce()]
  const code_challenge = await client.calculatePKCECodeChallenge(pkceCodeVerifier)
  const parameters = { redirect_uri, scope: 'openid', state, nonce, code_challenge, code_challenge_method: 'S256', ...asked }
  const answer = new URL(await browse(client.buildAuthorizationUrl(config, parameters)))
  return client.authorizationCodeGrant(config, answer, { pkceCodeVerifier, expectedState: state, expectedNonce: nonce, idTokenExpected: true })
}

const essential = (value) => JSON.stringify({ id_token: { acr: { essential: true, values: [value] } } })
const supported = config.serverMetadata().acr_values_supported
const weak = (await signIn({})).claims()
const tokens = await signIn({ acr_values: strong })
const [stepped, introspected] = [tokens.claims(), await client.tokenIntrospection(config, tokens.access_token)]
const silent = (await signIn({ prompt: 'none', claims: essential(strong) })).claims()
const unmet = await signIn({ prompt: 'none', claims: essential('urn:example:nobody') }).then(() => '', (problem) => problem.error)

done({ supported, weak, stepped, introspected, silent, unmet })
