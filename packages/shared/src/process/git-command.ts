/**
 * The only place that names git. A repository is input: whoever wrote its files, or its `.git` directory,
 * must not choose a program that runs here. Three layers keep that:
 *
 * 1. Each call gets the settings below, which outrank those of every file: no hook, no monitor, no pager, no
 *    signature check, no recursion into submodules, no fetch of missing objects, no repository that is hidden
 *    in the files of another.
 * 2. Only subcommands of the table run, with the options that the table adds to them. A submodule is never
 *    looked into, because git would start another git there, with the configuration of the submodule.
 * 3. Programs whose names a repository can choose (`filter.*`, `diff.*`, `merge.*`, `remote.*` ...) have no
 *    neutral value that could be named in advance. Calls that compare or write files therefore run in a
 *    `RepositoryView` (`@slipway/shared/git`), in which git reads a copy of the configuration with nothing
 *    but settings that are known to be harmless.
 *
 * Programs of the user's own and the system's configuration work as ever (filters of Git LFS).
 */
const settings: readonly (readonly [string, string])[] = [
  ['core.quotepath', 'off'],
  ['core.fsmonitor', 'false'],
  ['core.hooksPath', '/dev/null'],
  ['core.pager', 'cat'],
  ['log.showSignature', 'false'],
  ['i18n.logOutputEncoding', 'UTF-8'],
  ['safe.directory', '*'],
  ['safe.bareRepository', 'explicit'],
  ['diff.ignoreSubmodules', 'dirty'],
  ['diff.submodule', 'short'],
  ['submodule.recurse', 'false'],
  ['protocol.ext.allow', 'never'],
  ['gc.auto', '0'],
  ['maintenance.auto', 'false'],
]

const environment: Readonly<Record<string, string>> = {
  LC_ALL: 'C',
  GIT_OPTIONAL_LOCKS: '0',
  GIT_TERMINAL_PROMPT: '0',
  GIT_NO_LAZY_FETCH: '1',
  GIT_ALLOW_PROTOCOL: 'none',
}

const noPrograms = ['--no-ext-diff', '--no-textconv', '--ignore-submodules=dirty']

/** Options that each subcommand gets. `add` only with paths of files that git does not follow yet. */
const subcommands: Readonly<Record<string, readonly string[]>> = {
  add: [],
  apply: [],
  'cat-file': [],
  'check-ref-format': [],
  'commit-tree': [],
  config: [],
  'count-objects': [],
  diff: noPrograms,
  'diff-files': noPrograms,
  'diff-tree': noPrograms,
  fetch: ['--no-recurse-submodules'],
  'for-each-ref': [],
  'hash-object': [],
  init: [],
  log: [],
  'ls-files': [],
  'ls-tree': [],
  'merge-base': [],
  'pack-objects': [],
  'read-tree': ['--no-recurse-submodules'],
  remote: [],
  reset: ['--no-recurse-submodules'],
  'rev-list': [],
  'rev-parse': [],
  status: ['--ignore-submodules=dirty'],
  'symbolic-ref': [],
  'update-index': [],
  'update-ref': [],
  worktree: [],
  'write-tree': [],
}

/** Options before the subcommand that have their own value. */
const valueOptions = ['-C', '-c']

export interface GitCommand {
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

interface GitCommandOptions {
  /** Settings of this call, which outrank those of this module. */
  readonly config?: readonly (readonly [string, string])[]
  /** Variables of this call, which outrank those of this module. */
  readonly env?: Readonly<Record<string, string>>
}

/** How to start git. Throws for a subcommand that is not in the table. */
export function gitCommand(
  args: readonly string[],
  { config = [], env = {} }: GitCommandOptions = {},
): GitCommand {
  let at = 0
  while (args[at]?.startsWith('-')) at += valueOptions.includes(args[at] ?? '') ? 2 : 1
  const name = args[at] ?? ''
  const added = subcommands[name]
  if (added === undefined) throw new Error(`git ${name} is not allowed here`)
  return {
    command: 'git',
    args: ['--no-pager', ...args.slice(0, at + 1), ...added, ...args.slice(at + 1)],
    env: { ...environment, ...configEnvironment([...settings, ...config]), ...env },
  }
}

/** Settings for one call, as variables: values may contain characters that arguments cannot. */
function configEnvironment(pairs: readonly (readonly [string, string])[]): Record<string, string> {
  const entries = pairs.flatMap(([name, value], index) => [
    [`GIT_CONFIG_KEY_${index}`, name],
    [`GIT_CONFIG_VALUE_${index}`, value],
  ])
  return { GIT_CONFIG_COUNT: String(pairs.length), ...Object.fromEntries(entries) }
}
