// fetch that shows a certificate: the one of Node.js has no way to.
import { readFileSync } from 'node:fs'
import { request } from 'node:https'
import { Readable } from 'node:stream'

export function showing({ certificate, key, authority }) {
  const own = certificate ? { cert: readFileSync(certificate), key: readFileSync(key) } : {}
  const ca = readFileSync(authority)
  return (url, { method = 'GET', headers = {}, body } = {}) =>
    new Promise((resolve, reject) => {
      const sent = request(`${url}`, { method, headers: Object.fromEntries(new Headers(headers)), ca, ...own }, (answer) => {
        const empty = [204, 304].includes(answer.statusCode)
        const pairs = Object.entries(answer.headersDistinct).flatMap(([name, values]) => values.map((value) => [name, value]))
        resolve(new Response(empty ? null : Readable.toWeb(answer), { status: answer.statusCode, headers: pairs }))
      })
      sent.on('error', reject)
      sent.end(body == null ? undefined : `${body}`)
    })
}
