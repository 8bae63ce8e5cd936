// openid-client on a device without a browser (RFC 8628): the code, the person elsewhere, the polls; plain, and with a key (RFC 9449).
import * as client from 'openid-client'
import { browse, done, settings } from './browser.mjs'

const { issuer, client_id, scope } = settings
const insecure = { execute: [client.allowInsecureRequests] }
const config = await client.discovery(new URL(issuer), client_id, undefined, client.None(), insecure)

async function signIn(options) {
  const asked = await client.initiateDeviceAuthorization(config, { scope })
  const deciding = browse(asked.verification_uri_complete)
  const tokens = await client.pollDeviceAuthorizationGrant(config, asked, undefined, options)
  await deciding
  const { sub } = tokens.claims()
  const userinfo = await client.fetchUserInfo(config, tokens.access_token, sub, options)
  const refreshed = await client.refreshTokenGrant(config, tokens.refresh_token, undefined, options)
  const used = await client.pollDeviceAuthorizationGrant(config, asked, undefined, options).catch(({ error }) => error)
  return { type: tokens.token_type, username: userinfo.preferred_username, rotated: refreshed.refresh_token !== tokens.refresh_token, used }
}

const DPoP = client.getDPoPHandle(config, await client.randomDPoPKeyPair('ES256'))
done({ plain: await signIn(), bound: await signIn({ DPoP }) })
