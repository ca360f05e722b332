// The log that the plugin and the supervisor it starts share. It is never the reason for anything to fail.

import { appendFileSync, closeSync, mkdirSync, openSync, readFileSync, renameSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

const MOST_BYTES = 4 << 20

// → a function that writes a line. One old log is kept beside the new one.
export function openLog(path) {
  try {
    mkdirSync(dirname(path), { recursive: true })
    if (statSync(path, { throwIfNoEntry: false })?.size > MOST_BYTES) renameSync(path, `${path}.1`)
  } catch {
    // A folder that cannot be written: every line below finds the same.
  }
  return (line) => {
    try {
      appendFileSync(path, `${new Date().toISOString()} dsh ${process.pid}: ${line}\n`, { mode: 0o600 })
    } catch {
      // Nowhere to tell it.
    }
  }
}

// Call with what a child may write to: the log's descriptor, or 'ignore'.
export function withLogFile(path, use) {
  let file
  try {
    file = openSync(path, 'a', 0o600)
  } catch {
    return use('ignore')
  }
  try {
    return use(file)
  } finally {
    closeSync(file) // the child has its own
  }
}

export function sizeOf(path) {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}

// The last lines that were written after the first `from` bytes.
export function lastLines(path, from, count = 3) {
  try {
    const text = readFileSync(path).subarray(from).toString('utf8')
    return text.split('\n').filter((line) => line.trim()).slice(-count).join('\n')
  } catch {
    return ''
  }
}
