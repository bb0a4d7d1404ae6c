import { getSystemErrorMessage } from 'node:util'
import { PathNotAllowedError } from '../../workspace/resolve-path.ts'

/** A request that a tool refuses, and why; the message is for the model. */
export class ToolFailure extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'ToolFailure'
  }
}

/** The text of an expected failure for the model; undefined for a programming error. */
export function failureText(error: unknown): string | undefined {
  if (error instanceof ToolFailure || error instanceof PathNotAllowedError) return error.message
  if (!isSystemError(error)) return undefined
  return `The system refused it: ${getSystemErrorMessage(error.errno)} (${error.code}).`
}

interface SystemError extends Error {
  readonly code: string
  readonly errno: number
}

function isSystemError(error: unknown): error is SystemError {
  return (
    error instanceof Error &&
    'syscall' in error &&
    'code' in error &&
    typeof error.code === 'string' &&
    'errno' in error &&
    typeof error.errno === 'number'
  )
}
