import { userInfo } from 'node:os'
import { isAbsolute, join } from 'node:path'

type Env = Readonly<Record<string, string | undefined>>

/** `$XDG_CONFIG_HOME/slipway`, else `~/.config/slipway`. */
export function configDirectory(env: Env): string {
  return join(userDirectory(env, 'XDG_CONFIG_HOME', '.config'), 'slipway')
}

/** `$XDG_DATA_HOME/slipway`, else `~/.local/share/slipway`: the data directory of the private server. */
export function userDataDirectory(env: Env): string {
  return join(userDirectory(env, 'XDG_DATA_HOME', '.local/share'), 'slipway')
}

/** Where the data directories are that belong to working directories; beside that of the private server. */
export function userServersDirectory(env: Env): string {
  return `${userDataDirectory(env)}-servers`
}

/** The folders of the command and of servers that have keys; none for a user without a home directory. */
export function privateDirectories(env: Env): readonly string[] {
  try {
    return [configDirectory(env), userDataDirectory(env), userServersDirectory(env)]
  } catch {
    return []
  }
}

/**
 * A relative path counts as unset, as the XDG specification says: it would be another one in each directory.
 */
function userDirectory(env: Env, name: string, usual: string): string {
  const value = env[name] ?? ''
  if (isAbsolute(value)) return value
  const home = env.HOME ?? ''
  return join(isAbsolute(home) ? home : homeOfAccount(), usual)
}

function homeOfAccount(): string {
  try {
    return userInfo().homedir
  } catch {
    throw new Error('This user has no home directory: set HOME to an absolute path.')
  }
}
