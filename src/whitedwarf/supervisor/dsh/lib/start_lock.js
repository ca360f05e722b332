// One of several DSH processes starts the supervisor, the others wait for it.
//
// Only a courtesy: where two start one all the same, the ports decide, since a supervisor that finds one of its ports
// taken ends. So a lock that is lost or stale does no harm.

import { closeSync, openSync, readFileSync, statSync, unlinkSync, writeSync } from 'node:fs'

// → a function that gives the lock back, or null where another process has it.
export function takeLock(path, staleAfterMs) {
  for (const isLast of [false, true]) {
    try {
      const file = openSync(path, 'wx', 0o600)
      writeSync(file, String(process.pid))
      closeSync(file)
      return () => remove(path)
    } catch (error) {
      if (error.code !== 'EEXIST') return () => {} // a folder that cannot be written: go without
    }
    if (isLast || !isStale(path, staleAfterMs)) return null
    remove(path)
  }
  return null
}

function isStale(path, staleAfterMs) {
  try {
    if (Date.now() - statSync(path).mtimeMs > staleAfterMs) return true
    const owner = Number(readFileSync(path, 'utf8'))
    return owner > 0 && !isAlive(owner)
  } catch {
    return true // it went meanwhile
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}

function remove(path) {
  try {
    unlinkSync(path)
  } catch {
    // Gone already.
  }
}
