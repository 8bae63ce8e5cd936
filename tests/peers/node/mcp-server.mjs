// An MCP server whose callers bring tokens of Greatseal: `node mcp-server.mjs ISSUER https://mcp.example.org/mcp CLIENT_ID CLIENT_SECRET`.
import { createServer } from 'node:http'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import {
  McpServer,
  OAuthError,
  OAuthErrorCode,
  createMcpHandler,
  getOAuthProtectedResourceMetadataUrl,
  oauthMetadataResponse,
  requireBearerAuth,
  requireScopes,
} from '@modelcontextprotocol/server'

const [issuer, resource, clientId, clientSecret] = process.argv.slice(2)
const resourceServerUrl = new URL(resource)
const oauthMetadata = await (await fetch(`${issuer}/.well-known/oauth-authorization-server`)).json()

// Asks the issuer about every token (RFC 7662): one that was revoked is refused at once. The issuer speaks of tokens for this server alone.
async function verifyAccessToken(token) {
  const authorization = `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString('base64')}`
  const question = { method: 'POST', headers: { authorization }, body: new URLSearchParams({ token }) }
  const said = await (await fetch(oauthMetadata.introspection_endpoint, question)).json()
  if (!said.active) throw new OAuthError(OAuthErrorCode.InvalidToken, 'The token is not active')
  const forUs = [said.aud].flat().includes(resource)
  return {
    token,
    clientId: said.client_id,
    scopes: said.scope.split(' '),
    expiresAt: said.exp,
    resource: forUs ? resourceServerUrl : undefined,
    extra: { subject: said.sub },
  }
}

const admit = requireBearerAuth({
  verifier: { verifyAccessToken },
  expectedResource: resourceServerUrl,
  requiredScopes: ['mcp:tools'],
  resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(resourceServerUrl),
})

const handler = createMcpHandler(() => {
  const server = new McpServer({ name: 'Greeter', version: '1.0.0' })
  const say = (sentence) => ({ content: [{ type: 'text', text: sentence }] })
  const caller = ({ http }) => `${http.authInfo.extra.subject} by ${http.authInfo.clientId}`
  server.registerTool('whoami', { description: 'Who calls' }, (context) => say(caller(context)))
  const rename = { description: 'Rename the caller', scopeChallenge: requireScopes('mcp:write') }
  server.registerTool('rename', rename, (context) => say(`renamed ${caller(context)}`))
  return server
})

async function answer(request) {
  const metadata = oauthMetadataResponse(request, { oauthMetadata, resourceServerUrl, scopesSupported: ['mcp:tools', 'mcp:write'] })
  if (metadata) return metadata
  const authInfo = await admit(request)
  return authInfo instanceof Response ? authInfo : handler.fetch(request, { authInfo })
}

const server = createServer(async (incoming, outgoing) => {
  const { method, url, headers } = incoming
  const body = (await text(incoming)) || undefined
  const response = await answer(new Request(new URL(url, resource), { method, headers, body }))
  outgoing.writeHead(response.status, Object.fromEntries(response.headers))
  await pipeline(response.body ? Readable.fromWeb(response.body) : [], outgoing).catch(() => {}) // the caller left
})
server.listen(resourceServerUrl.port, resourceServerUrl.hostname, () => console.log(`serves ${resource}`))
