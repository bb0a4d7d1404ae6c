import { topLevelCommands } from '../../shell/top-level-commands.ts'
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
  const parsed = await topLevelCommands(command)
  if ('error' in parsed) {
    // The shell decides about its own syntax.
    const check = ['--noprofile', '--norc', '-O', 'extglob', '-n']
    const result = await shell.workspace.run(shell.path, check, { input: command, timeoutMs: 10_000 }, signal)
    const message = result.stderr.toString().trim() || parsed.error
    return result.exitCode === 0 ? undefined : `[Not run: a syntax error. ${shorten(message, 2000)}]`
  }
  if (parsed.commands.length <= 1) return undefined
  const listed = parsed.commands.slice(0, 20).map((one, at) => `${at + 1}. ${shorten(one)}`)
  const omission =
    parsed.commands.length > listed.length ? [`and ${parsed.commands.length - listed.length} more`] : []
  return `[Not run: these are several commands, and one call runs one. Join them with && or ;, or send them one by one:\n${[...listed, ...omission].join('\n')}]`
}

export function shorten(command: string, length = 200): string {
  return command.length > length ? `${command.slice(0, length)}...` : command
}

/** A Python or JSON list or object instead of a command. */
function isDataLiteral(command: string): boolean {
  const body = command.trim()
  return /^\[\s*(?:\]|["'][\s\S]*\])$/.test(body) || /^\{\s*["'][^"'\n]*["']\s*:[\s\S]*\}$/.test(body)
}
