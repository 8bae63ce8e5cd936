// @modelcontextprotocol/client: an agent of a person, known by the URL of its document or registered by itself. Its token is taken away, then
// it calls a tool that needs more than it was allowed.
import { Client, RegistrationRejectedError, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client'
import { browse, done, settings } from './browser.mjs'

const { issuer, redirect_uri, resource, token, client_metadata_url } = settings
const sent = []

async function recorded(url, init) {
  const { origin, pathname } = new URL(url)
  if (token && pathname === '/register') init = { ...init, headers: { ...init.headers, authorization: `Bearer ${token}` } }
  if (origin === new URL(issuer).origin) sent.push([pathname, init?.body instanceof URLSearchParams ? Object.fromEntries(init.body) : {}])
  return fetch(url, init)
}

class Agent {
  redirectUrl = redirect_uri
  clientMetadataUrl = client_metadata_url
  clientMetadata = {
    client_name: 'Agent',
    redirect_uris: [redirect_uri],
    grant_types: ['authorization_code', 'refresh_token'],
    token_endpoint_auth_method: 'none',
  }
  kept = {}
  asked = []

  state = () => (this.kept.state = crypto.randomUUID())
  clientInformation = () => this.kept.client
  saveClientInformation = (client) => void (this.kept.client = client)
  tokens = () => this.kept.tokens
  saveTokens = (tokens) => void (this.kept.tokens = tokens)
  codeVerifier = () => this.kept.verifier
  saveCodeVerifier = (verifier) => void (this.kept.verifier = verifier)
  discoveryState = () => this.kept.discovery
  saveDiscoveryState = (discovery) => void (this.kept.discovery = discovery)

  async redirectToAuthorization(url) {
    this.asked.push(Object.fromEntries(url.searchParams))
    this.back = new URL(await browse(url)).searchParams
    if (this.back.get('state') !== this.kept.state) throw new Error('another state')
  }
}

const agent = new Agent()

// What a tool says; the person is asked once where the client says that somebody has to be.
async function call(name, patience = 1) {
  const transport = new StreamableHTTPClientTransport(new URL(resource), { authProvider: agent, fetch: recorded })
  const client = new Client({ name: 'Agent', version: '1.0.0' })
  try {
    await client.connect(transport)
    return (await client.callTool({ name, arguments: {} })).content[0].text
  } catch (error) {
    if (!(error instanceof UnauthorizedError && patience)) throw error
    await transport.finishAuth(agent.back)
    return call(name, patience - 1)
  } finally {
    await client.close()
  }
}

async function work() {
  const said = await call('whoami')
  const { access_token } = agent.kept.tokens
  const { client_id } = agent.kept.client
  const { authorizationServerMetadata: as, resourceMetadata } = agent.kept.discovery
  await fetch(as.revocation_endpoint, { method: 'POST', body: new URLSearchParams({ token: access_token, client_id }) })
  const refreshed = await call('whoami')
  const renamed = await call('rename').catch((error) => error.constructor.name)
  return { said, refreshed, renamed, client: agent.kept.client, scope: agent.kept.tokens.scope, asked: agent.asked, sent, resourceMetadata }
}

const rejected = (error) => {
  if (!(error instanceof RegistrationRejectedError)) throw error
  return { rejected: [error.status, JSON.parse(error.body)], sent }
}

done(await work().catch(rejected))
