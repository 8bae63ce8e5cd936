// npm acme-client: makes an account, puts it under another key, gets a certificate for NAME, and revokes it.
//
//     node acme-client.mjs DIRECTORY WEBROOT CHAIN NAME

import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import acme from 'acme-client'

const [directoryUrl, webroot, chain, name] = process.argv.slice(2)
const first = await acme.crypto.createPrivateEcdsaKey()
const client = new acme.Client({ directoryUrl, accountKey: first, backoffMin: 50, backoffMax: 500 })
await client.createAccount({ termsOfServiceAgreed: true, contact: ['mailto:someone@example.test'] })
const url = client.getAccountUrl()
await client.updateAccountKey(await acme.crypto.createPrivateRsaKey(2048))
await client.updateAccount({ contact: ['mailto:another@example.test'] })
if (client.getAccountUrl() !== url) throw new Error(`${client.getAccountUrl()} is not ${url}`)

const [, csr] = await acme.crypto.createCsr({ altNames: [name] })
const pem = await client.auto({
  csr,
  email: 'another@example.test',
  termsOfServiceAgreed: true,
  skipChallengeVerification: true,
  challengePriority: ['http-01'],
  challengeCreateFn: (_, challenge, answer) => writeFile(join(webroot, challenge.token), answer),
  challengeRemoveFn: (_, challenge) => rm(join(webroot, challenge.token)),
})
await writeFile(chain, pem)
await client.revokeCertificate(pem.split('-----END CERTIFICATE-----')[0] + '-----END CERTIFICATE-----\n', { reason: 4 })

// The first key is that of nobody any more.
const stranger = new acme.Client({ directoryUrl, accountKey: first, accountUrl: url })
const refused = await stranger.updateAccount({ contact: [] }).then(() => false, () => true)
if (!refused) throw new Error('the first key is still that of the account')
