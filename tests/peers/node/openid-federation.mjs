// A federation of three entities by @openid-federation/core: an anchor, an intermediate and a relying party, which signs a person in at a provider
// that it finds by a trust chain. All that entities say is made by the library; the provider's own entity configuration is checked by it.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { createEntityConfiguration, createEntityStatement, fetchEntityConfiguration, resolveTrustChains } from '@openid-federation/core'
import { browse, done, settings } from './browser.mjs'

const { issuer, redirect_uri, base, port, certificate, key, anchor_key, leaf, conflict } = settings
const ES256 = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const b64 = (value) => Buffer.from(value).toString('base64url')

const made = async (kid) => {
  const pair = await crypto.subtle.generateKey(ES256, true, ['sign', 'verify'])
  const { kty, crv, x, y } = await crypto.subtle.exportKey('jwk', pair.publicKey)
  return { sign: pair.privateKey, jwk: { kty, crv, x, y, kid, alg: 'ES256', use: 'sig' } }
}
const { kty, crv, x, y, kid } = anchor_key
const anchorPrivate = await crypto.subtle.importKey('jwk', { kty, crv, x, y, d: anchor_key.d }, ES256, false, ['sign'])
const keys = { anchor: { sign: anchorPrivate, jwk: { kty, crv, x, y, kid, alg: 'ES256', use: 'sig' } }, mid: await made('mid-1'), [leaf]: await made('rp-1') }
const own = await made('own-1')

const signJwtCallback = ({ toBeSigned, jwk }) => {
  const { sign } = Object.values(keys).find((one) => one.jwk.kid === jwk.kid)
  return crypto.subtle.sign(ES256, sign, toBeSigned).then((signature) => new Uint8Array(signature))
}
const verifyJwtCallback = async ({ data, signature, jwk }) => {
  const { kty, crv, x, y } = jwk
  return crypto.subtle.verify(ES256, await crypto.subtle.importKey('jwk', { kty, crv, x, y }, ES256, false, ['verify']), signature, data)
}

const entity = (name) => `${base}/${name}`
const times = () => ({ iat: Math.floor(Date.now() / 1000), exp: Math.floor(Date.now() / 1000) + 600 })
const authority = (name) => ({
  federation_entity: { federation_fetch_endpoint: `${entity(name)}/fetch`, federation_list_endpoint: `${entity(name)}/list`, organization_name: name },
})
const party = {
  client_name: 'A program of the federation',
  redirect_uris: [redirect_uri],
  response_types: ['code'],
  grant_types: ['authorization_code'],
  client_registration_types: ['automatic'],
  token_endpoint_auth_method: 'private_key_jwt',
  contacts: ['rp@example.org'],
  jwks: { keys: [own.jwk] },
}
const said = {
  anchor: { metadata: authority('anchor') },
  mid: { metadata: authority('mid'), authority_hints: [entity('anchor')] },
  [leaf]: { metadata: { openid_relying_party: party }, authority_hints: [entity('mid')] },
}
const policies = {
  anchor: { openid_relying_party: { contacts: { add: ['help@anchor.example'] }, token_endpoint_auth_method: { one_of: ['private_key_jwt'], essential: true } } },
  mid: {
    openid_relying_party: {
      grant_types: { subset_of: ['authorization_code', 'refresh_token'] },
      ...(conflict && { token_endpoint_auth_method: { one_of: ['client_secret_basic'] } }),
    },
  },
}

const configuration = (name) =>
  createEntityConfiguration({
    claims: { iss: entity(name), sub: entity(name), ...times(), jwks: { keys: [keys[name].jwk] }, ...said[name] },
    header: { kid: keys[name].jwk.kid, alg: 'ES256', typ: 'entity-statement+jwt' },
    signJwtCallback,
  })
const statement = async (name, sub) => {
  const below = Object.keys(keys).find((one) => entity(one) === sub)
  const jwks = below ? { keys: [keys[below].jwk] } : (await fetchEntityConfiguration({ entityId: sub, verifyJwtCallback })).jwks
  return createEntityStatement({
    jwk: keys[name].jwk,
    claims: { iss: entity(name), sub, ...times(), jwks, source_endpoint: `${entity(name)}/fetch`, ...(below && { metadata_policy: policies[name] }) },
    header: { kid: keys[name].jwk.kid, alg: 'ES256', typ: 'entity-statement+jwt' },
    signJwtCallback,
  })
}

const asked = []
const server = createServer({ cert: readFileSync(certificate), key: readFileSync(key) }, async (request, response) => {
  const url = new URL(request.url, base)
  const [, name, ...rest] = url.pathname.split('/')
  asked.push(`${name}/${rest.at(-1)}`)
  try {
    const body = rest.at(-1) === 'openid-federation' ? await configuration(name) : await statement(name, url.searchParams.get('sub'))
    response.writeHead(200, { 'Content-Type': 'application/entity-statement+jwt' }).end(body)
  } catch (error) {
    response.writeHead(500, { 'Content-Type': 'application/json' }).end(JSON.stringify({ error: 'server_error', error_description: `${error}` }))
  }
})
await new Promise((listening) => server.listen(port, '127.0.0.1', listening))

const chains = await resolveTrustChains({ entityId: issuer, trustAnchorEntityIds: [entity('anchor')], verifyJwtCallback })
const provider = (chains[0].resolvedLeafMetadata ?? chains[0].leafEntityConfiguration.metadata).openid_provider

const jwt = async (claims, typ) => {
  const text = `${b64(JSON.stringify({ alg: 'ES256', typ, kid: own.jwk.kid }))}.${b64(JSON.stringify(claims))}`
  return `${text}.${b64(await crypto.subtle.sign(ES256, own.sign, Buffer.from(text)))}`
}
const verifier = b64(crypto.getRandomValues(new Uint8Array(32)))
const code_challenge = b64(await crypto.subtle.digest('SHA-256', Buffer.from(verifier)))
const client_id = entity(leaf)
const common = () => ({ iss: client_id, aud: issuer, jti: crypto.randomUUID(), ...times() })
const request = await jwt(
  { ...common(), client_id, redirect_uri, response_type: 'code', scope: 'openid profile', state: 's', nonce: 'n', code_challenge, code_challenge_method: 'S256' },
  'oauth-authz-req+jwt',
)
const assertion = async () => ({
  client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
  client_assertion: await jwt({ ...common(), sub: client_id }, 'JWT'),
})
const post = async (url, form) => {
  const answer = await fetch(url, { method: 'POST', body: new URLSearchParams(form) })
  return { status: answer.status, ...(await answer.json()) }
}

const unsigned = { client_id, redirect_uri, response_type: 'code', scope: 'openid', code_challenge, code_challenge_method: 'S256' }
const pushed = await post(provider.pushed_authorization_request_endpoint, { ...unsigned, ...(await assertion()) })
if (conflict) {
  done({ chains: chains.length, pushed, asked })
} else {
  const { searchParams } = new URL(await browse(`${provider.authorization_endpoint}?${new URLSearchParams({ client_id, request })}`))
  const redeemed = { grant_type: 'authorization_code', code: searchParams.get('code'), redirect_uri, code_verifier: verifier }
  const tokens = await post(provider.token_endpoint, { ...redeemed, ...(await assertion()) })
  const claims = JSON.parse(Buffer.from(tokens.id_token.split('.')[1], 'base64url'))
  done({ chains: chains.length, registration: provider.client_registration_types_supported, pushed, claims, asked })
}
server.close()
server.closeAllConnections()
