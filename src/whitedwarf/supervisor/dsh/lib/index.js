// What DSH loads: a supervisor of local models that is there while DSH runs, and the command /localmodel.
//
// Promises: whatever is wrong here (options, Python, ports, disk), DSH starts and goes on; what went wrong is in the log
// and in the answer to /localmodel. Does not know the models: the supervisor does.

import { answerCommand, HINT } from './command.js'
import { openLog } from './log.js'
import { readOptions } from './options.js'
import { Supervisor } from './supervisor.js'

export const name = 'local-model-supervisor'

export function apply(ctx, config) {
  let log = () => {}
  try {
    const { options, complaints } = readOptions(config, process.env)
    log = openLog(options.logFile)
    mount(ctx, new Supervisor(options, complaints, log), log)
  } catch (error) {
    log(`not mounted: ${error?.message ?? error}`)
  }
}

function mount(ctx, supervisor, log) {
  for (const complaint of supervisor.complaints) log(complaint)
  ctx.effect(() => () => supervisor.leave(), 'local-model-supervisor')
  if (supervisor.options.autoStart) supervisor.ensure().catch((error) => log(error.message))
  // Profiles without the service of commands have a supervisor all the same.
  ctx.inject(['commands'], (inner) => {
    inner.effect(() => inner.commands.register(command(supervisor)), 'local-model-supervisor command')
  })
}

function command(supervisor) {
  return {
    name: 'localmodel',
    description: 'Local models: what is loaded, load one, give the memory back',
    input: { hint: HINT },
    handler: ({ rawInput, signal }) => answerCommand(rawInput ?? '', supervisor, signal),
  }
}
