// The supervisor as this DSH sees it: found, started once, asked, and left behind in order.
//
// Promises: a running supervisor is used, whoever started it; a stranger on a port is never taken for one; a supervisor
// started here lives on when DSH ends, unless stopOnExit, and one that fell is started again. Errors are messages for
// people.

import { spawn } from 'node:child_process'
import { homedir } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

import { ask, isTimeout, look } from './control.js'
import { lastLines, sizeOf, withLogFile } from './log.js'
import { takeLock } from './start_lock.js'

const LOOK_EVERY_MS = 100
const AFTER_EXIT_MS = 2000 // for the one that won the ports, to answer
const LEAVE_TIMEOUT_MS = 3000 // DSH gives all its plugins together 5 s
const AGAIN_AFTER_MS = 1000 // and each time twice as long
const MOST_AGAIN_MS = 60000

export class Supervisor {
  #starting = null
  #child = null // what this DSH started, while it runs
  #ownPid = 0 // of that one, once it has answered
  #isUsed = false
  #falls = 0
  #ends = new AbortController()

  constructor(options, complaints, log) {
    this.options = options
    this.complaints = complaints
    this.log = log
  }

  // → { port, models, config } of a running one, or { port: null, strangers: [text] }.
  async find(signal) {
    const { publicPorts, apiKey } = this.options
    const seen = await Promise.all(publicPorts.map((port) => look(port, { signal, apiKey })))
    const index = seen.findIndex((one) => one.kind === 'supervisor')
    if (index >= 0) return { ...seen[index], port: publicPorts[index] }
    const strangers = publicPorts.map((port, at) => stranger(port, seen[at])).filter(Boolean)
    return { port: null, strangers }
  }

  // Find one or start one; whoever asks meanwhile waits for the same start. Rejects with the reason.
  ensure() {
    this.#starting ??= this.#findOrStart()
      .catch((error) => {
        throw this.#ends.signal.aborted ? new Error('DSH ended before the supervisor answered') : error
      })
      .finally(() => (this.#starting = null))
    return this.#starting
  }

  // Ask the running one. → { status, text }
  async control(method, path, { port, signal, timeoutMs }) {
    return ask(port, method, path, { signal, timeoutMs, apiKey: this.options.apiKey })
  }

  // DSH ends: give the memory back, stop what was started here if that is wanted. Never rejects, takes at most 3 s.
  async leave() {
    this.#ends.abort()
    try {
      if (this.options.stopOnExit && this.#isOurs()) this.#stop()
      else if (this.options.unloadOnExit) await this.#unload()
    } catch (error) {
      this.log(`on exit: ${isTimeout(error) ? 'the supervisor was asked and has not finished yet' : error.message}`)
    }
  }

  async #findOrStart() {
    const { logFile, startTimeoutMs } = this.options
    const begunMs = performance.now()
    let start = null
    let release = null
    try {
      while (performance.now() < lastMs(begunMs + startTimeoutMs, start)) {
        const found = await this.find(this.#ends.signal)
        if (found.port) return this.#use(found)
        if (release && !start) {
          if (found.strangers.length) throw new Error(`supervisor not started: ${found.strangers.join('; ')}`)
          start = this.#spawn()
        } else if (!start && (release = takeLock(`${logFile}.starting`, startTimeoutMs))) {
          continue // look once more, now that no other DSH starts one
        }
        await sleep(LOOK_EVERY_MS, undefined, { signal: this.#ends.signal })
      }
    } finally {
      release?.()
    }
    if (this.#isOurs()) this.#stop() // what does not answer helps nobody, and holds the ports
    throw new Error(this.#whyNot(start))
  }

  #use(found) {
    if (!this.#isUsed) this.log(`uses the supervisor that answers on port ${found.port}${this.#falls ? ' again' : ''}`)
    this.#isUsed = true
    if (found.pid === this.#child?.pid) this.#ownPid = found.pid
    return found
  }

  #whyNot(start) {
    if (!start?.ended) return `the supervisor did not answer within ${this.options.startTimeoutMs} ms (startTimeoutMs)`
    const last = lastLines(this.options.logFile, start.logBytes)
    return `the supervisor did not start: ${start.ended}${last && `\n${last}`}`
  }

  // → what becomes of it: { ended: null | text, endedMs, logBytes }. Detached, so that it outlives DSH.
  #spawn() {
    const { command, supervisorConfig, logFile } = this.options
    const [program, ...words] = [...command, supervisorConfig]
    this.log(`starts ${program} with ${supervisorConfig}`)
    const start = { ended: null, endedMs: 0, logBytes: sizeOf(logFile) }
    const end = (text, isOrderly) => {
      start.ended ??= text
      start.endedMs ||= performance.now()
      this.log(`the supervisor ended: ${text}`)
      this.#forget(child, isOrderly)
    }
    const child = withLogFile(logFile, (output) =>
      spawn(program, words, {
        detached: true,
        windowsHide: true,
        cwd: homedir(),
        stdio: ['ignore', output, output],
      }),
    )
    this.#child = child
    child.once('error', (error) => end(`cannot run ${program}: ${error.message}; option command says what is run`))
    child.once('exit', (code, signal) => end(signal ? `by ${signal}` : `exit code ${code}`, code === 0))
    child.unref()
    return start
  }

  // One that had answered and was not told to end is missed: by requests that come, and come again for 18 s.
  #forget(child, isOrderly) {
    if (this.#child !== child) return
    this.#child = null
    const isMissed = this.#ownPid === child.pid && !isOrderly && this.options.autoStart && !this.#ends.signal.aborted
    this.#ownPid = 0
    if (!isMissed) return
    this.#isUsed = false
    const waitMs = Math.min(MOST_AGAIN_MS, AGAIN_AFTER_MS * 2 ** this.#falls++)
    this.log(`starts it again in ${waitMs} ms`)
    sleep(waitMs, undefined, { signal: this.#ends.signal, ref: false })
      .then(() => this.ensure())
      .catch((error) => this.#ends.signal.aborted || this.log(error.message))
  }

  #isOurs() {
    return this.#child?.pid !== undefined
  }

  #stop() {
    this.log(`stops the supervisor (process ${this.#child.pid})`)
    process.kill(this.#child.pid, 'SIGTERM')
  }

  // Answers in flight are another DSH's: they may end first.
  async #unload() {
    const signal = AbortSignal.timeout(LEAVE_TIMEOUT_MS)
    const { port } = await this.find(signal)
    if (!port) return
    const answer = await this.control('POST', '/__supervisor/unload?drain=1', { port, signal })
    this.log(`on exit: unload answered ${answer.status}`)
  }
}

// Until when an answer is waited for: one whose child ended may have lost the ports to another one, which then answers.
function lastMs(deadlineMs, start) {
  return start?.ended ? Math.min(deadlineMs, start.endedMs + AFTER_EXIT_MS) : deadlineMs
}

function stranger(port, { kind, why }) {
  return kind === 'stranger' && `port ${port} is held by a server that is no supervisor of ours: ${why}`
}
