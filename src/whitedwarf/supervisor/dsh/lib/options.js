// The plugin's options, complete. A wrong one is told and its default taken: it may not stop DSH.

import { existsSync, realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const isText = (value) => typeof value === 'string' && value.trim() !== ''
const isPort = (value) => Number.isInteger(value) && value > 0 && value < 65536
const isBoolean = (value) => typeof value === 'boolean'
const areAll = (value, is) => Array.isArray(value) && value.length > 0 && value.every(is)

// name: [what is expected, is it that]
const RULES = {
  command: ['a list of words, the program first', (value) => areAll(value, isText)],
  supervisorConfig: ['the path of a file', isText],
  logFile: ['the path of a file', isText],
  publicPorts: ['a list of ports', (value) => areAll(value, isPort)],
  autoStart: ['true or false', isBoolean],
  unloadOnExit: ['true or false', isBoolean],
  stopOnExit: ['true or false', isBoolean],
  startTimeoutMs: ['milliseconds', (value) => Number.isFinite(value) && value > 0],
  apiKeyEnv: ['the name of an environment variable', isText],
}

// → { options, complaints }. `environment` is DSH's own.
export function readOptions(config, environment) {
  const home = environment.DSH_HOME || join(homedir(), '.dsh')
  const options = defaults(home)
  const complaints = []
  for (const [name, value] of given(config, complaints)) {
    const rule = RULES[name]
    if (!rule) complaints.push(`option ${name}: not known; expected one of ${Object.keys(RULES).join(', ')}`)
    else if (!rule[1](value)) complaints.push(`option ${name}: expected ${rule[0]}; ${told(options[name])} is used`)
    else options[name] = value
  }
  options.supervisorConfig = placed(options.supervisorConfig, home)
  options.logFile = placed(options.logFile, home)
  return { options: { ...options, apiKey: environment[options.apiKeyEnv] ?? '' }, complaints }
}

function defaults(home) {
  return {
    command: [ownProgram(), 'supervise'],
    supervisorConfig: join(home, 'models.json'),
    logFile: join(home, 'local-model-supervisor.log'),
    publicPorts: [8080],
    autoStart: true,
    unloadOnExit: true,
    stopOnExit: false,
    startTimeoutMs: 60000,
    apiKeyEnv: '',
  }
}

function given(config, complaints) {
  if (config === undefined || config === null) return []
  if (typeof config === 'object' && !Array.isArray(config)) {
    return Object.entries(config).filter(([, value]) => value !== undefined && value !== null)
  }
  complaints.push('config: expected options by name; the defaults are used')
  return []
}

function told(value) {
  return value === '' ? 'none' : JSON.stringify(value)
}

// A relative path means one in DSH's home: the folder that DSH was started in is anybody's.
function placed(path, home) {
  if (path === '~' || path.startsWith('~/')) return join(homedir(), path.slice(1))
  return isAbsolute(path) ? path : resolve(home, path)
}

// The whitedwarf that this file came with, else the one on PATH. In an environment this folder is
// PREFIX/lib/pythonX/site-packages/whitedwarf/supervisor/dsh/lib, in a checkout FOLDER/src/whitedwarf/….
function ownProgram() {
  const here = dirname(realpathSync(fileURLToPath(import.meta.url)))
  const package_ = resolve(here, '../../..')
  const places = ['../../../../bin/whitedwarf', '../../../Scripts/whitedwarf.exe', '../../.venv/bin/whitedwarf']
  return places.map((place) => resolve(package_, place)).find((path) => existsSync(path)) ?? 'whitedwarf'
}
