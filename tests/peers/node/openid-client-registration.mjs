// openid-client: registers itself with the initial access token, signs a person in, refreshes.
import * as client from 'openid-client'
import { browse, done, settings } from './browser.mjs'

const { issuer, redirect_uri, scope, token } = settings
const options = { execute: [client.allowInsecureRequests] }
const metadata = { redirect_uris: [redirect_uri], client_name: 'Registered by itself', scope, grant_types: ['authorization_code', 'refresh_token'], token_endpoint_auth_method: 'client_secret_post' }
const wrong = await client.dynamicClientRegistration(new URL(issuer), metadata, undefined, { ...options, initialAccessToken: 'wrong' }).catch((error) => error)
const config = await client.dynamicClientRegistration(new URL(issuer), metadata, undefined, { ...options, initialAccessToken: token })

const pkceCodeVerifier = client.randomPKCECodeVerifier()
const [state, nonce] = [client.randomState(), client.randomNonce()]
const code_challenge = await client.calculatePKCECodeChallenge(pkceCodeVerifier)
const url = client.buildAuthorizationUrl(config, { redirect_uri, scope, state, nonce, code_challenge, code_challenge_method: 'S256' })
const checks = { pkceCodeVerifier, expectedState: state, expectedNonce: nonce, idTokenExpected: true }
const tokens = await client.authorizationCodeGrant(config, new URL(await browse(url)), checks)
const refreshed = await client.refreshTokenGrant(config, tokens.refresh_token)

done({ wrong: wrong.message ?? wrong.code, status: wrong.cause?.status ?? wrong.status, registered: config.clientMetadata(), claims: tokens.claims(), refreshed: refreshed.claims().sub })
