import { constants } from 'node:fs'
import { access, realpath } from 'node:fs/promises'
import { dirname, extname, isAbsolute, join } from 'node:path'
import { isWithin } from '@slipway/shared/fs'

export interface ServerCommand {
  readonly program: string
  readonly args: readonly string[]
  /** Initialization options. */
  readonly options?: object
  readonly env?: Readonly<Record<string, string>>
}

interface Language {
  /** Language ids of the protocol, by extension. */
  readonly ids: Readonly<Record<string, string>>
  /** The first that is installed is used. */
  readonly commands: readonly (readonly [program: string, ...args: string[]])[]
  readonly options?: object
  readonly env?: Readonly<Record<string, string>>
  /**
   * Those of its servers that run programs or code that the repository names, whatever their options: they
   * start only in a sandbox for commands.
   */
  readonly sandboxed?: readonly string[]
}

const typescriptServer = 'typescript-language-server'
const script = ['.js', '.mjs', '.cjs'].map((extension) => [extension, 'javascript'])
const typed = ['.ts', '.mts', '.cts'].map((extension) => [extension, 'typescript'])

const languages: readonly Language[] = [
  {
    ids: {
      ...Object.fromEntries([...script, ...typed]),
      ...{ '.tsx': 'typescriptreact', '.jsx': 'javascriptreact' },
    },
    commands: [
      [typescriptServer, '--stdio'],
      ['tsgo', '--lsp', '--stdio'],
    ],
  },
  {
    ids: { '.py': 'python', '.pyi': 'python' },
    commands: [['pyright-langserver', '--stdio'], ['basedpyright-langserver', '--stdio'], ['pylsp']],
    // Its plugins for flake8, pylint and mypy load modules that the configuration of a project names.
    sandboxed: ['pylsp'],
  },
  {
    ids: { '.go': 'go' },
    commands: [['gopls']],
    // `go.mod` may name another Go, which would be fetched and run.
    env: { GOTOOLCHAIN: 'local' },
  },
  {
    ids: { '.rs': 'rust' },
    commands: [['rust-analyzer']],
    // `.cargo/config.toml` names wrappers of the compiler, and `rust-toolchain.toml` a folder of tools.
    sandboxed: ['rust-analyzer'],
    // Build scripts and macros are code of the repository.
    options: {
      cargo: { buildScripts: { enable: false } },
      procMacro: { enable: false },
      checkOnSave: false,
    },
  },
  {
    ids: { '.c': 'c', '.h': 'c', '.cc': 'cpp', '.cpp': 'cpp', '.hpp': 'cpp' },
    commands: [['clangd']],
  },
]

/** The language of a file, with its id in the protocol; undefined when there is no server for it. */
export function languageOf(path: string): { readonly language: Language; readonly id: string } | undefined {
  const extension = extname(path)
  for (const language of languages) {
    const id = Object.hasOwn(language.ids, extension) ? language.ids[extension] : undefined
    if (id !== undefined) return { language, id }
  }
  return undefined
}

interface SearchPlace {
  readonly path: string
  /** Real. */
  readonly workspace: string
  readonly hasSandbox: boolean
}

/**
 * The first installed server. A program of the workspace, or a link to one, is none: the repository would
 * decide what runs.
 */
export async function findServer(
  { commands, sandboxed = [] }: Language,
  { path, workspace, hasSandbox }: SearchPlace,
): Promise<ServerCommand | undefined> {
  const directories = path
    .split(':')
    .filter((directory) => isAbsolute(directory) && !isWithin(workspace, directory))
  for (const [program, ...args] of commands)
    for (const directory of hasSandbox || !sandboxed.includes(program) ? directories : []) {
      const file = join(directory, program)
      if (!(await canExecute(file)) || isWithin(workspace, await realpath(file))) continue
      if (program !== typescriptServer) return { program: file, args }
      const tsserver = await findTypescript(file, directories, workspace)
      if (tsserver !== undefined) return { program: file, args, options: typescriptOptions(tsserver) }
    }
  return undefined
}

/**
 * The TypeScript that is installed with the server, or in the path: without one the server would run that of
 * the repository.
 */
async function findTypescript(
  server: string,
  directories: readonly string[],
  workspace: string,
): Promise<string | undefined> {
  const candidates: string[] = []
  const real = await realpath(server)
  for (let folder = dirname(real); folder !== dirname(folder); folder = dirname(folder))
    candidates.push(join(folder, 'node_modules/typescript/lib/tsserver.js'))
  for (const directory of directories) {
    const compiler = await realpath(join(directory, 'tsserver')).catch(() => undefined)
    if (compiler !== undefined) candidates.push(join(dirname(compiler), '../lib/tsserver.js'))
  }
  for (const candidate of candidates) {
    const file = await realpath(candidate).catch(() => undefined)
    if (file !== undefined && !isWithin(workspace, file)) return file
  }
  return undefined
}

/** No packages of types are installed either. */
function typescriptOptions(path: string): object {
  return { tsserver: { path }, disableAutomaticTypingAcquisition: true }
}

async function canExecute(file: string): Promise<boolean> {
  return await access(file, constants.X_OK).then(
    () => true,
    () => false,
  )
}

export type { Language }
