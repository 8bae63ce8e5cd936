// oauth4webapi as a client with a certificate (RFC 8705) that gets a token for itself and asks what it is.
import * as oauth from 'oauth4webapi'
import { done, settings } from './browser.mjs'
import { showing } from './certificate.mjs'

const { issuer, client_id, own, other, authority } = settings
const client = { client_id, use_mtls_endpoint_aliases: true }
const by = (one) => ({ [oauth.customFetch]: showing({ ...one, authority }) })
const as = await oauth.processDiscoveryResponse(new URL(issuer), await oauth.discoveryRequest(new URL(issuer), by({})))
const asked = (one) => oauth.clientCredentialsGrantRequest(as, client, oauth.TlsClientAuth(), { scope: 'profile' }, by(one))
const tokens = await oauth.processClientCredentialsResponse(as, client, await asked(own))
const about = await oauth.introspectionRequest(as, client, oauth.TlsClientAuth(), tokens.access_token, by(own))
const { cnf } = await oauth.processIntrospectionResponse(as, client, about)
const unproven = []
for (const one of [other, {}]) {
  const refused = await oauth.processClientCredentialsResponse(as, client, await asked(one)).catch((error) => error)
  unproven.push(refused.error ?? refused.cause?.[0]?.parameters?.error ?? refused.message)
}

done({ type: tokens.token_type, cnf, unproven })
