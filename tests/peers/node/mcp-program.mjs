// @modelcontextprotocol/client: a program that proves itself by its key (RFC 7523), and no person.
import { Client, PrivateKeyJwtProvider, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { done, settings } from './browser.mjs'

const { issuer, client_id, resource, key, algorithm } = settings
const authProvider = new PrivateKeyJwtProvider({ clientId: client_id, privateKey: key, algorithm, expectedIssuer: issuer })
const client = new Client({ name: 'Program', version: '1.0.0' })
await client.connect(new StreamableHTTPClientTransport(new URL(resource), { authProvider }))
const { content } = await client.callTool({ name: 'whoami', arguments: {} })
await client.close()

done({ said: content[0].text, scope: authProvider.tokens().scope })
