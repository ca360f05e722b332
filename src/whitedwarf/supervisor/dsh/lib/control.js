// One question to whoever listens on a port of this machine, and whether that is a supervisor.
//
// node:http and not fetch: no proxy of the environment is asked, and no connection is kept when DSH wants to end.

import { request } from 'node:http'

const LOOK_TIMEOUT_MS = 2000
const MOST_BYTES = 1 << 20
const NOBODY = new Set(['ECONNREFUSED', 'ECONNRESET', 'EADDRNOTAVAIL'])

// → { status, text }; rejects where no whole answer came in time.
export function ask(port, method, path, { timeoutMs, signal, apiKey } = {}) {
  return new Promise((resolve, reject) => {
    const signals = [signal, timeoutMs && AbortSignal.timeout(timeoutMs)].filter(Boolean)
    const headers = { connection: 'close', ...(apiKey && { authorization: `Bearer ${apiKey}` }) }
    const options = { host: '127.0.0.1', port, method, path, headers, agent: false, signal: AbortSignal.any(signals) }
    const asked = request(options, (answer) => {
      const parts = []
      let size = 0
      answer.on('data', (part) => {
        size += part.length
        if (size > MOST_BYTES) answer.destroy(new Error(`an answer of more than ${MOST_BYTES} bytes`))
        else parts.push(part)
      })
      answer.on('end', () => resolve({ status: answer.statusCode, text: Buffer.concat(parts).toString('utf8') }))
      answer.on('error', reject)
    })
    asked.on('error', reject)
    asked.end()
  })
}

// → { kind: 'supervisor', pid, models, config } | { kind: 'nobody' } | { kind: 'stranger', why }
export async function look(port, { signal, apiKey } = {}) {
  try {
    const answer = await ask(port, 'GET', '/__supervisor/status', { timeoutMs: LOOK_TIMEOUT_MS, signal, apiKey })
    return recognise(answer)
  } catch (error) {
    if (signal?.aborted) throw error
    if (NOBODY.has(error.code)) return { kind: 'nobody' }
    return { kind: 'stranger', why: isTimeout(error) ? 'it does not answer' : error.message }
  }
}

export function isTimeout(error) {
  return error.name === 'TimeoutError' || error.cause?.name === 'TimeoutError'
}

function recognise({ status, text }) {
  if (status === 401) return { kind: 'stranger', why: 'it wants an API key (option apiKeyEnv names its variable)' }
  try {
    const { pid, config, models } = JSON.parse(text)
    const isOurs = Number.isInteger(pid) && Array.isArray(models) && models.every(isModel)
    if (status === 200 && isOurs) return { kind: 'supervisor', pid, models, config }
  } catch {
    // No JSON: told below.
  }
  return { kind: 'stranger', why: `it answers ${status} to /__supervisor/status` }
}

function isModel(model) {
  return typeof model?.key === 'string' && typeof model.state === 'string'
}
