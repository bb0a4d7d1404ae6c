import type { LogFunction } from '@slipway/protocol'
import { pino } from 'pino'

/** Wider than the redaction elsewhere: a log may lose a harmless member, never show a secret. */
const secretNamePattern =
  /authorization|cookie|credential|key|password|secret|session|token|encrypted_?content/i

/**
 * A log that writes one JSON object a line: `{"level":"info","time":"2026-03-01T10:00:00.000Z","msg":"...",
 * ...}`. Skips lines below `level`. Redacts texts and objects in members named like a secret, at any depth.
 */
export function createLogger(
  stream: NodeJS.WritableStream,
  level: 'debug' | 'info' | 'warn' | 'error' = 'info',
): LogFunction {
  const writer = pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    stream,
  )
  return (lineLevel, message, members) => {
    if (!writer.isLevelEnabled(lineLevel)) return
    if (members === undefined) writer[lineLevel](message)
    else writer[lineLevel](JSON.parse(JSON.stringify(members, redactSecret)), message)
  }
}

function redactSecret(name: string, value: unknown): unknown {
  const isText = typeof value === 'string' || (typeof value === 'object' && value !== null)
  return isText && secretNamePattern.test(name) ? '**********' : value
}

/** The stack of an error and of its causes, without other properties. */
export function errorStack(error: unknown): string {
  if (!(error instanceof Error)) return `${typeof error} thrown`
  const stack = error.stack ?? error.message
  return error.cause instanceof Error ? `${stack}\ncaused by: ${errorStack(error.cause)}` : stack
}
