import { hash } from 'node:crypto'
import { realpath } from 'node:fs/promises'
import { relative } from 'node:path'
import { type CommandRule, type HookConfig, hookEvents, type RepositoryCodeItem } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import { shellWord } from '@slipway/shared/text'
import { type FoundAgents, findAgents } from '../agents/find-agents.ts'
import { ellipsize } from '../skills/skill.ts'
import { commandRulesFile, type LoadedRules, loadCommandRules } from './command-rules-file.ts'
import { type LoadedHooks, loadHooks } from './hooks-file.ts'
import { type NamedFile, readNamedFiles } from './named-files.ts'
import { repositoryPath } from './repository-path.ts'

export const hooksFile = '.openhands/hooks.json'
const maxItems = 200
const maxCommandChars = 1_000

/**
 * What a repository brings that runs, or that decides what runs: hooks, agents, their MCP commands, rules for
 * commands.
 */
export interface RepositoryCode {
  /** The real path of the repository; of a git worktree that of its main worktree. */
  readonly repository: string
  /** SHA-256 of all of it, as it was read, with the files of the repository that its commands name. */
  readonly hash: string
  /** The same of its hooks alone; undefined without one. */
  readonly hooksHash: string | undefined
  /** What would run, for people. At most 200; longer commands are cut, and show it. */
  readonly items: readonly RepositoryCodeItem[]
  readonly hooks: LoadedHooks
  readonly rules: LoadedRules
  readonly agents: FoundAgents
}

/** What the working directory brings; `items` is empty when there is nothing. Never rejects. */
export async function readRepositoryCode(directory: string): Promise<RepositoryCode> {
  const root = await realpath(directory).catch(() => directory)
  const [hooks, agents, rules] = await Promise.all([
    loadHooks(root),
    findAgents({ project: root }),
    loadCommandRules(root),
  ])
  const pathOf = (source: string | undefined) => relative(root, source ?? '')
  const definitions = agents.agents.map((agent) => ({ ...agent, source: pathOf(agent.source) }))
  const [hookFiles, agentFiles] = await Promise.all([
    readNamedFiles(root, hookCommands(hooks.config)),
    readNamedFiles(root, definitions.flatMap(agentCommands)),
  ])
  const files = new Map([...hookFiles, ...agentFiles].map((file) => [file.path, file]))
  // Without rules and named files the hash is as it was before there were any.
  const content = JSON.stringify([
    hooks.config ?? null,
    definitions,
    ...(rules.rules.length > 0 ? [rules.rules] : []),
    ...(files.size > 0 ? [{ files: fileHashes([...files.values()]) }] : []),
  ])
  return {
    repository: await repositoryPath(root),
    hash: hash('sha256', content),
    hooksHash: hashHooks(hooks.config, hookFiles),
    items: cutItems([
      ...hookItems(hooks.config, hooksFile),
      ...definitions.flatMap(agentItems),
      ...rules.rules.map(ruleItem),
      ...[...files.values()].map(fileItem),
    ]),
    hooks,
    agents,
    rules,
  }
}

/** `hooksHash` as it is now. Never rejects. */
export async function readHooksHash(root: string): Promise<string | undefined> {
  const { config } = await loadHooks(root)
  return config && hashHooks(config, await readNamedFiles(root, hookCommands(config)))
}

function hashHooks(config: HookConfig | undefined, files: readonly NamedFile[]): string | undefined {
  return config && hash('sha256', JSON.stringify([config, fileHashes(files)]))
}

function fileHashes(files: readonly NamedFile[]) {
  return files.map(({ path, hash, isExecutable }) => [path, hash, isExecutable])
}

function hookCommands(config: HookConfig | undefined): string[] {
  if (config === undefined) return []
  const hooks = hookEvents.flatMap((event) => config[event].flatMap((matcher) => matcher.hooks))
  return hooks.filter(({ type }) => type === 'command').map(({ command }) => command)
}

function agentCommands({ hooks, mcp_config }: FoundAgents['agents'][number]): string[] {
  return [...hookCommands(hooks), ...Object.values(mcp_config ?? {}).map(serverText)]
}

function cutItems(items: RepositoryCodeItem[]): RepositoryCodeItem[] {
  const rest = items.length - maxItems
  if (rest <= 0) return items
  return [
    ...items.slice(0, maxItems),
    { kind: 'agent', path: '', name: `and ${rest} more that are not shown`, command: null },
  ]
}

function hookItems(config: LoadedHooks['config'], path: string): RepositoryCodeItem[] {
  if (config === undefined) return []
  return hookEvents.flatMap((event) =>
    config[event].flatMap(({ hooks }) =>
      hooks.map((hook) => ({
        kind: 'hook' as const,
        path,
        name: event,
        command: ellipsize(hook.type === 'command' ? hook.command : (hook.prompt ?? ''), maxCommandChars),
      })),
    ),
  )
}

function agentItems(agent: FoundAgents['agents'][number]): RepositoryCodeItem[] {
  const path = agent.source ?? ''
  const servers = Object.entries(agent.mcp_config ?? {}).map(([name, server]) => ({
    kind: 'mcp_server' as const,
    path,
    name,
    command: ellipsize(serverText(server), maxCommandChars),
  }))
  const own = { kind: 'agent' as const, path, name: agent.name, command: null }
  return [own, ...hookItems(agent.hooks, path), ...servers]
}

function ruleItem({ pattern, decision }: CommandRule): RepositoryCodeItem {
  return { kind: 'command_rule', path: commandRulesFile, name: decision, command: pattern }
}

function fileItem({ path, text }: NamedFile): RepositoryCodeItem {
  const command = text === undefined ? null : ellipsize(text, maxCommandChars)
  return { kind: 'script', path, name: 'that a command names', command }
}

/**
 * What decides what the server is: as a shell would start it, or its address with what is sent there. Words
 * of its variables and its folder name files too.
 */
function serverText(server: Readonly<Record<string, unknown>>): string {
  const { command, args, env, cwd, url, headers, auth } = server
  if (typeof command !== 'string')
    return [String(url ?? ''), ...[headers, auth].flatMap((one) => JSON.stringify(one) ?? [])].join(' ')
  const folder = typeof cwd === 'string' ? ['cd', shellWord(cwd), '&&'] : []
  const variables = isRecord(env)
    ? Object.entries(env).map(([name, value]) => `${name}=${shellWord(String(value))}`)
    : []
  return [...folder, ...variables, command, ...(Array.isArray(args) ? args : [])].join(' ')
}
