// npm mailauth: says what it found out about a mail on standard input, as the header Authentication-Results of the server MTA.
//
//     node mailauth.mjs MTA KEYS < MAIL
//
// KEYS is a JSON file that stands for DNS: the TXT records by their names.
import { readFile } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'
import { authenticate } from 'mailauth'

const [mta, keys] = process.argv.slice(2)
const records = JSON.parse(await readFile(keys))
const resolver = async (name, type) => {
  const found = type === 'TXT' ? records[name] : undefined
  if (found) return [[found]]
  throw Object.assign(new Error(`no ${type} of ${name}`), { code: 'ENOTFOUND' })
}
const { headers } = await authenticate(await buffer(process.stdin), { mta, resolver, ip: '127.0.0.1', helo: 'localhost', sender: '' })
process.stdout.write(headers.split('\r\n').filter((line) => line).join('\r\n') + '\r\n')
