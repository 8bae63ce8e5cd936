// An API: oauth4webapi checks access tokens and proofs, and no proof is taken twice. It answers 200, or 401 with the reason.
import { createServer } from 'node:http'
import * as oauth from 'oauth4webapi'

export async function serve(resource, as, options) {
  const used = new Set()
  const server = createServer(async ({ url, method, headers }, response) => {
    try {
      const request = new Request(new URL(url, resource), { method, headers })
      const { sub, aud, cnf } = await oauth.validateJwtAccessToken(as, request, resource, options)
      if (used.has(headers.dpop)) throw new Error('the proof was used before')
      used.add(headers.dpop)
      response.writeHead(200).end(JSON.stringify({ sub, aud, cnf }))
    } catch ({ message }) {
      response.writeHead(401).end(message)
    }
  })
  await new Promise((ready) => server.listen(new URL(resource).port, '127.0.0.1', ready))
  return server
}
