// /localmodel: words in, text out.

export const HINT = 'status | start [MODEL] | unload [MODEL]'

const UNLOAD_TIMEOUT_MS = 60000

// → { kind: 'success' | 'error', text }, as DSH's commands answer; never rejects, never without text.
export async function answerCommand(rawInput, supervisor, signal) {
  const [word = 'status', model, ...rest] = rawInput.trim().split(/\s+/).filter(Boolean)
  const verb = VERBS[word.toLowerCase()]
  if (!verb || rest.length || (model && verb === status)) return wrong(rawInput.trim())
  try {
    return await verb(supervisor, model, signal)
  } catch (error) {
    return { kind: 'error', text: error?.message || String(error) }
  }
}

function wrong(said) {
  return { kind: 'error', text: `/localmodel ${said}: not understood. Expected: /localmodel ${HINT}` }
}

async function status(supervisor, _, signal) {
  const found = await supervisor.find(signal)
  const told = supervisor.complaints.map((complaint) => `Plugin ${complaint}`)
  if (found.port) {
    const from = found.config ? ` It has the models of ${found.config}:` : ''
    return success([`The supervisor answers on port ${found.port}.${from}`, ...found.models.map(line), ...told])
  }
  if (found.strangers.length) return { kind: 'error', text: [...found.strangers, ...told].join('\n') }
  const ports = supervisor.options.publicPorts.join(', ')
  return success([`The supervisor is not running (nobody listens on port ${ports}). /localmodel start starts it.`, ...told])
}

async function start(supervisor, model, signal) {
  const { port, models } = await supervisor.ensure()
  const managed = models.filter((one) => one.kind !== 'external')
  const key = model ?? (managed.length === 1 ? managed[0].key : null)
  if (key === null) {
    return success([`The supervisor answers on port ${port}. A model is loaded by its first request, or now by /localmodel start MODEL:`, ...models.map(line)])
  }
  const answer = await supervisor.control('POST', `/__supervisor/start?model=${encodeURIComponent(key)}`, { port, signal })
  return told(answer, `${key} is loaded.`)
}

async function unload(supervisor, model, signal) {
  const { port, strangers } = await supervisor.find(signal)
  if (!port) {
    return strangers.length
      ? { kind: 'error', text: strangers.join('\n') }
      : success(['The supervisor is not running, so nothing is loaded.'])
  }
  const path = `/__supervisor/unload${model ? `?model=${encodeURIComponent(model)}` : ''}`
  const answer = await supervisor.control('POST', path, { port, signal, timeoutMs: UNLOAD_TIMEOUT_MS })
  return told(answer, `${model ?? 'Every model'} is unloaded; the memory is free.`)
}

const VERBS = { __proto__: null, status, start, unload }

function success(lines) {
  return { kind: 'success', text: lines.join('\n') }
}

function told({ status, text }, done) {
  if (status < 300) return success([done])
  return { kind: 'error', text: `The supervisor answered ${status}: ${reason(text)}` }
}

// The supervisor's errors have llama-server's form.
function reason(text) {
  try {
    return JSON.parse(text).error.message || text
  } catch {
    return text.trim() || 'without a reason'
  }
}

function line(model) {
  const facts = [
    model.state,
    model.in_flight && `${model.in_flight} in flight`,
    model.waiting && `${model.waiting} waiting`,
    typeof model.release_in_s === 'number' && `released in ${Math.max(0, Math.round(model.release_in_s))} s`,
    model.context_size && `context ${model.context_size}`,
    model.soft_limit && `soft limit ${model.soft_limit}`,
    model.loading_text,
    model.failure && `failed: ${model.failure}`,
    ...(Array.isArray(model.warnings) ? model.warnings : []),
  ]
  return `${model.key} (port ${model.public_port}): ${facts.filter(Boolean).join(', ')}`
}
