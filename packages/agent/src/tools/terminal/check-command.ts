import { parseJson } from '@slipway/shared/json'
import { shellSyntaxError } from '../../shell/syntax-error.ts'
import type { Workspace } from '../../workspace/workspace.ts'

/**
 * Why a command is refused, for the model; undefined when it may run. `shell`: the bash for the syntax check.
 */
export async function checkCommand(
  command: string,
  shell: { readonly workspace: Workspace; readonly path: string },
  signal: AbortSignal,
): Promise<string | undefined> {
  if (isDataLiteral(command))
    return '[Not run: this is a list or an object, not a command. Write the command as a shell reads it, for example: ls -la]'
  const issue = await shellSyntaxError(command)
  if (issue === undefined) return undefined
  // The shell decides about its own syntax.
  const check = ['--noprofile', '--norc', '-O', 'extglob', '-n']
  const result = await shell.workspace.run(shell.path, check, { input: command, timeoutMs: 10_000 }, signal)
  const message = result.stderr.toString().trim() || issue
  return result.exitCode === 0 ? undefined : `[Not run: a syntax error. ${shorten(message, 2000)}]`
}

export function shorten(command: string, length = 200): string {
  return command.length > length ? `${command.slice(0, length)}...` : command
}

/**
 * A Python or JSON list or object instead of a command. A blank after the bracket makes it a test of the
 * shell, as in `[ "$a" = b ]`, unless the text is JSON.
 */
function isDataLiteral(command: string): boolean {
  const body = command.trim()
  if (/^[[{]/.test(body) && typeof parseJson(body) === 'object') return true
  return /^\[(?:["'{]|\[["'{[\]])[\s\S]*\]$/.test(body) || /^\{\s*["'][^"'\n]*["']\s*:[\s\S]*\}$/.test(body)
}
