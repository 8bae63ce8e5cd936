// The test is the browser: a URL goes out as a line, the URL where it led comes back as one.
import { createInterface } from 'node:readline'

const lines = createInterface({ input: process.stdin })
const answers = lines[Symbol.asyncIterator]()
const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`)

export const settings = JSON.parse((await answers.next()).value)

export async function browse(url) {
  say({ open: `${url}` })
  return JSON.parse((await answers.next()).value)
}

export function done(result) {
  say({ done: result })
  lines.close()
}
