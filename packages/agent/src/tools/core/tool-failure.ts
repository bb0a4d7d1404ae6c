import { getSystemErrorMessage } from 'node:util'
import { PathNotAllowedError } from '../../workspace/resolve-path.ts'

/** A request that a tool refuses, and why; the message is for the model. */
export class ToolError extends Error {
  override readonly name = 'ToolError'
}

/** The text of an expected failure for the model; undefined for a programming error. */
export function failureText(error: unknown): string | undefined {
  if (error instanceof ToolError || error instanceof PathNotAllowedError) return error.message
  if (!isSystemError(error)) return undefined
  return `The system refused it: ${getSystemErrorMessage(error.errno)} (${error.code}).`
}

function isSystemError(error: unknown): error is Error & { readonly code: string; readonly errno: number } {
  if (!(error instanceof Error)) return false
  const { syscall, code, errno }: NodeJS.ErrnoException = error
  return syscall !== undefined && typeof code === 'string' && typeof errno === 'number'
}
