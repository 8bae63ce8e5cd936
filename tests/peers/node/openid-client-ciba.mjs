// openid-client that asks a person who is somewhere else (CIBA Core 1.0): the request, the person, the polls; plain, with a key (RFC 9449),
// and after the ping that Node's own server takes.
import { createServer } from 'node:http'
import { once } from 'node:events'
import * as client from 'openid-client'
import { browse, done, settings } from './browser.mjs'

const { issuer, client_id, client_secret, scope, resource } = settings
const insecure = { execute: [client.allowInsecureRequests] }
const config = await client.discovery(new URL(issuer), client_id, undefined, client.ClientSecretBasic(client_secret), insecure)
const page = `${issuer}/ciba`

async function signIn(options, more = {}, told = async () => {}) {
  const asked = await client.initiateBackchannelAuthentication(config, { scope, login_hint: 'ada', binding_message: 'W4SCT', ...more })
  const deciding = browse(page)
  await told(asked)
  const tokens = await client.pollBackchannelAuthenticationGrant(config, asked, undefined, options)
  await deciding
  const userinfo = await client.fetchUserInfo(config, tokens.access_token, tokens.claims().sub, options)
  const refreshed = await client.refreshTokenGrant(config, tokens.refresh_token, undefined, options)
  const used = await client.pollBackchannelAuthenticationGrant(config, asked, undefined, options).catch(({ error }) => error)
  return { type: tokens.token_type, username: userinfo.preferred_username, rotated: refreshed.refresh_token !== tokens.refresh_token, used }
}

if (resource) {
  const server = createServer().listen(new URL(resource).port, '127.0.0.1')
  const token = client.randomState()
  const pinged = once(server, 'request')
  const result = await signIn(undefined, { client_notification_token: token }, async (asked) => {
    const [request, response] = await pinged
    const chunks = []
    for await (const chunk of request) chunks.push(chunk)
    response.writeHead(204).end()
    const said = JSON.parse(Buffer.concat(chunks).toString())
    if (request.headers.authorization !== `Bearer ${token}` || said.auth_req_id !== asked.auth_req_id) throw new Error('another ping')
  })
  server.close()
  server.closeAllConnections()
  done(result)
} else {
  const DPoP = client.getDPoPHandle(config, await client.randomDPoPKeyPair('ES256'))
  done({ plain: await signIn(), bound: await signIn({ DPoP }) })
}
