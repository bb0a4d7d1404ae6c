import type { LogFunction } from '@slipway/protocol'
import { pino } from 'pino'

/** Wider than the redaction elsewhere: a log may lose a harmless member, never show a secret. */
const secretNamePattern =
  /authorization|cookie|credential|key|password|secret|session|token|encrypted_?content/i

type Level = 'debug' | 'info' | 'warn' | 'error'

/**
 * A log that writes one JSON object a line, and to a terminal one line of text:
 * `{"level":"info","time":"2026-03-01T10:00:00.000Z","msg":"...", ...}`. Skips lines below `level`.
 * Redacts texts and objects in members named like a secret, at any depth.
 */
export function createLogger(
  stream: NodeJS.WritableStream & { readonly isTTY?: boolean },
  level: Level = 'info',
): LogFunction {
  if (stream.isTTY) return createTextLogger(stream, level)
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

const levels: readonly Level[] = ['debug', 'info', 'warn', 'error']

/** For people: `10:00:00 POST /api/conversations 201`, with the level unless it is `info`. */
function createTextLogger(stream: NodeJS.WritableStream, level: Level): LogFunction {
  return (lineLevel, message, members = {}) => {
    if (levels.indexOf(lineLevel) < levels.indexOf(level)) return
    const { audit, method, route, status, request_id, ...others } = JSON.parse(
      JSON.stringify(members, redactSecret),
    )
    const start = audit === true ? [method, route, status] : [message]
    const rest = Object.entries(audit === true ? {} : { method, route, status, request_id, ...others })
    const words = [
      new Date().toLocaleTimeString('en-GB'),
      ...(lineLevel === 'info' ? [] : [lineLevel]),
      ...start,
      ...rest
        .filter(([, value]) => value !== undefined)
        .map(([name, value]) => `${name}=${plainText(value)}`),
    ]
    stream.write(`${words.map(plainText).join(' ')}\n`)
  }
}

/** Without characters that move a terminal; the lines of a stack stay. */
function plainText(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return (text ?? '').replaceAll(/[^\P{C}\n]/gu, '�')
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
