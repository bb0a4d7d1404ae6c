import type { Config } from './config.ts'
import { withFileSettings } from './config-file.ts'

type Env = Readonly<Record<string, string | undefined>>

/**
 * What the private server takes from the shell that happens to start it: how to reach the network, where the
 * user's files, programs and agents are, and the language. Everything else would hold for the sessions of all
 * other shells too: keys and settings come from the data directory and `config.toml`, and what a session needs,
 * such as the key of its model, is sent with it.
 */
const shellVariable =
  /^(?:(?:https?|all|no)_proxy|node_use_env_proxy|node_extra_ca_certs|node_use_system_ca|ssl_cert_(?:file|dir)|path|home|user|logname|shell|lang|language|lc_\w+|tz|term|tmpdir|tmp|temp|xdg_\w+|ssh_auth_sock|ssh_agent_pid|gpg_agent_info|gnupghome|dbus_session_bus_address|playwright_browsers_path|node_compile_cache|systemroot|userprofile|appdata|localappdata|comspec|pathext)$/i

/** Of these a difference between the server and a shell is worth a line of `slipway doctor`. */
const noted = /proxy|cert|node_use|ssh_auth_sock|gpg_agent_info/i

/** Settings of another server: the private one has its own address, keys and data. */
const foreignSetting =
  /^SLIPWAY_(SESSION_API_KEY|DATA_DIRECTORY|DATABASE_URL|DATABASE_DIRECT_URL|SHARED_DATABASE|DEFERRED_INIT|NO_KEY|WEB)$/

/** The environment of the private server. */
export function privateServerEnvironment({
  env,
  file,
}: Pick<Config, 'env' | 'file'>): Record<string, string> {
  const settings = Object.entries(withFileSettings({}, file, 'agent_server')).flatMap(([name, value]) =>
    value === undefined || foreignSetting.test(name) ? [] : [[name, value] as const],
  )
  const names = namedVariables(settings)
  const taken = Object.entries(env).flatMap(([name, value]) =>
    value !== undefined && (shellVariable.test(name) || names.has(name)) ? [[name, value] as const] : [],
  )
  return Object.fromEntries([...taken, ...settings])
}

/** What settings of the file ask for: `tool_environment = ["NAME"]`, and `$NAME` in a value. */
function namedVariables(settings: readonly (readonly [string, string])[]): ReadonlySet<string> {
  const names = settings.flatMap(([name, value]) =>
    name === 'SLIPWAY_TOOL_ENVIRONMENT'
      ? value.split(',').map((one) => one.trim())
      : [...value.matchAll(/\$\{?(\w+)/g)].map(([, one = '']) => one),
  )
  return new Set(names)
}

/** What a server has of its shell, for people: an address in it is shown without its password. */
export function shownShellVariables(env: Env): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) =>
      value !== undefined && shellVariable.test(name)
        ? [[name, value.replace(/\/\/[^/@\s]*@/g, '//***@')] as const]
        : [],
    ),
  )
}

/** The names whose values a shell and a running server do not share, of those that matter. */
export function differingVariables(ofServer: Env, ofShell: Env): string[] {
  const shown = shownShellVariables(ofShell)
  const names = new Set([...Object.keys(ofServer), ...Object.keys(shown)])
  return [...names]
    .filter((name) => noted.test(name) && (ofServer[name] || '') !== (shown[name] || ''))
    .sort()
}
