// openid-client: a program brings the assertion of its issuer (RFC 7523), once, and another one to be exchanged (RFC 8693).
import * as client from 'openid-client'
import { done, settings } from './browser.mjs'

const { issuer, client_id, client_secret, resource } = settings
const insecure = { execute: [client.allowInsecureRequests] }
const config = await client.discovery(new URL(issuer), client_id, undefined, client.ClientSecretPost(client_secret), insecure)
const [assertion, subject_token] = resource

const bring = (more) => client.genericGrantRequest(config, 'urn:ietf:params:oauth:grant-type:jwt-bearer', { assertion, ...more })
const granted = await bring({ scope: 'profile' })
const again = await bring({}).catch(({ status, error }) => [status, error])
const type = 'urn:ietf:params:oauth:token-type:id_token'
const exchange = 'urn:ietf:params:oauth:grant-type:token-exchange'
const exchanged = await client.genericGrantRequest(config, exchange, { subject_token, subject_token_type: type })

done({ granted, again, exchanged, introspected: await client.tokenIntrospection(config, granted.access_token) })
