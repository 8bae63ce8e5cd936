// oidc-provider: somebody else's OpenID provider. People sign in by their name, and with a code for the strong class; `GET /seen` tells what came to it.
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import Provider from 'oidc-provider'

const { issuer, client, classes, code } = JSON.parse(process.argv[2])
const [weak, strong] = classes
const seen = { pushed: [], interactions: 0, told: [] }

// It fetches nothing from loopback by itself.
async function fetchAlsoFromLoopback(url, { dispatcher, ...options }) {
  const began = performance.now()
  const answer = await fetch(url, options)
  if (options.method === 'POST') seen.told.push({ url: String(url), status: answer.status, seconds: (performance.now() - began) / 1000 })
  return answer
}

async function grantAll({ oidc }) {
  const grant = new oidc.provider.Grant({ accountId: oidc.session.accountId, clientId: oidc.client.clientId })
  grant.addOIDCScope(oidc.params.scope)
  await grant.save()
  return grant
}

const claims = { openid: ['sub', 'amr'], email: ['email', 'email_verified'], profile: ['name', 'preferred_username'] }
const provider = new Provider(issuer, {
  acrValues: classes,
  claims,
  clients: [client],
  cookies: { keys: ['a key of the cookies of a test'] },
  fetch: fetchAlsoFromLoopback,
  findAccount: (_context, id) => ({
    accountId: id,
    claims: () => ({ sub: id, name: `${id} of oidc-provider`, preferred_username: id, email: `${id}@partner.example`, email_verified: true }),
  }),
  features: {
    backchannelLogout: { enabled: true },
    devInteractions: { enabled: false },
    pushedAuthorizationRequests: { enabled: true, requirePushedAuthorizationRequests: true },
  },
  interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
  loadExistingGrant: grantAll,
  pkce: { required: () => true },
})
provider.on('pushed_authorization_request.success', ({ oidc }) =>
  seen.pushed.push({ ...oidc.body, method: oidc.client.clientAuthMethod }),
)

async function interact(request, response) {
  const { params } = await provider.interactionDetails(request, response)
  if (request.method === 'GET') {
    seen.interactions += 1
    const fields = params.acr_values?.split(' ').includes(strong) ? ['login', 'code'] : ['login']
    const inputs = fields.map((name) => `<input name="${name}">`).join('')
    return response.setHeader('Content-Type', 'text/html').end(`<form id="theirs" method="post" action="${request.url}">${inputs}</form>`)
  }
  const given = new URLSearchParams(await text(request))
  const isStrong = given.get('code') === code
  const amr = isStrong ? ['pwd', 'otp', 'mfa'] : ['pwd']
  return provider.interactionFinished(request, response, { login: { accountId: given.get('login'), acr: isStrong ? strong : weak, amr } })
}

const server = createServer((request, response) => {
  if (request.url === '/seen') return response.end(JSON.stringify(seen))
  return request.url.startsWith('/interaction/') ? interact(request, response) : provider.callback()(request, response)
})
server.listen(Number(new URL(issuer).port), '127.0.0.1', () => console.log('ready'))
process.stdin.resume().on('end', () => process.exit())
