// Runs slash commands inside a headless DSH, which has no line to type them into; mounted by a --patch.
//
// DSH_TEST_COMMANDS: one on a line; "until TEXT" waits until the plugin's log has TEXT. They run when the task begins, and DSH ends when it ends: the
// model behind should hold its answer until the file DSH_TEST_DONE is there, which is made when all have run. Answers
// go to stderr as lines `[command] {"kind", "text"}`.

import { readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

export const name = 'command-driver'
export const inject = ['commands', 'agents']

export function apply(ctx) {
  const lines = (process.env.DSH_TEST_COMMANDS ?? '').split('\n').filter(Boolean)
  let isBegun = false
  ctx.on('agent/status', async ({ agent }) => {
    if (isBegun) return
    isBegun = true
    for (const line of lines) {
      if (line.startsWith('until ')) await until(line.slice(6))
      else tell(await run(ctx, agent, line))
    }
    writeFileSync(process.env.DSH_TEST_DONE, '')
  })
}

async function run(ctx, agent, line) {
  try {
    const { result } = await ctx.commands.execute(agent, line, [], AbortSignal.timeout(30000))
    return result
  } catch (error) {
    return { kind: 'thrown', text: error.message }
  }
}

function tell(answer) {
  process.stderr.write(`[command] ${JSON.stringify(answer)}\n`)
}

async function until(text) {
  const deadlineMs = performance.now() + 30000
  while (performance.now() < deadlineMs && !logged().includes(text)) await sleep(20)
}

function logged() {
  try {
    return readFileSync(`${process.env.DSH_HOME}/local-model-supervisor.log`, 'utf8')
  } catch {
    return ''
  }
}
