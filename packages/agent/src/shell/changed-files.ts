import { outputFiles } from './options.ts'
import type { ShellCall, ShellProcess } from './script.ts'
import { unknownText } from './words.ts'

/** Programs whose path arguments they change. */
const writers =
  /^(?:tee|mv|rm|rmdir|unlink|shred|chmod|chown|chgrp|chattr|setfacl|touch|truncate|mkdir|patch|ed|ex|vim?|nano)$/
/** Programs that change their last argument, or that of `-t`. */
const copiers = /^(?:cp|install|ln|rsync|scp)$/
const changingGit = /^(?:checkout|restore|rm|mv|apply|clean|reset|stash)$/

/** The files that a call changes, as far as its text shows. */
export function changedFiles({ name, args, ...call }: ShellCall): string[] {
  const writes = [...call.writes, ...outputFiles(name, args)]
  const paths = args.filter((arg) => !arg.startsWith('-'))
  if (writers.test(name)) return [...writes, ...paths]
  if (copiers.test(name)) {
    const target = args.flatMap((arg, at) =>
      arg === '-t' || arg === '--target-directory'
        ? [args[at + 1] ?? '']
        : arg.startsWith('--target-directory=')
          ? [arg.slice('--target-directory='.length)]
          : [],
    )
    return [...writes, ...target, ...paths.slice(-1)]
  }
  if (name === 'dd')
    return [...writes, ...args.filter((arg) => arg.startsWith('of=')).map((arg) => arg.slice(3))]
  if (name === 'git' && args.some((arg) => changingGit.test(arg))) return [...writes, ...paths.slice(1)]
  const isInPlace =
    /^(?:sed|perl|ruby)$/.test(name) && args.some((arg) => /^(?:-[a-zA-Z]*i|--in-place)/.test(arg))
  return isInPlace ? [...writes, ...paths] : [...writes]
}

/**
 * Files with relative names that calls change, below the folder that a call before them in the same shell
 * process (`cd`), or an option (`git -C`), has entered.
 */
export function filesChangedElsewhere(calls: readonly ShellCall[]): string[] {
  const folders = new Map<ShellProcess, string | undefined>()
  return calls.flatMap((call) => {
    const { name, args, shell } = call
    const folder = currentFolder(folders, shell)
    if (name === 'cd' || name === 'pushd') {
      const target = args.find((arg) => !arg.startsWith('-'))
      folders.set(shell, below(folder, target))
    } else if (name === 'popd') folders.set(shell, undefined)
    const entered = enteredByOption(folder, args)
    if (entered === undefined) return []
    const files = changedFiles(call).filter((file) => !/^[/~]/.test(file) && !file.includes(unknownText))
    return files.map((file) => `${entered}/${file}`)
  })
}

/** Undefined for the first one, and for one that only the run knows. */
function currentFolder(
  folders: Map<ShellProcess, string | undefined>,
  shell: ShellProcess,
): string | undefined {
  if (folders.has(shell) || shell.outer === undefined) return folders.get(shell)
  const folder = enteredByOption(currentFolder(folders, shell.outer), shell.starter?.args ?? [])
  folders.set(shell, folder)
  return folder
}

function enteredByOption(folder: string | undefined, args: readonly string[]): string | undefined {
  const option = folderOption(args)
  return option === undefined ? folder : below(folder, option)
}

/** Of `git`, `go`, `make`, `tar` and others. */
function folderOption(args: readonly string[]): string | undefined {
  const at = args.findIndex((arg) => /^(?:-C|--(?:chdir|directory|work-tree)(?:=|$))/.test(arg))
  if (at === -1) return undefined
  const [, attached = ''] = /^(?:-C|--[\w-]+=?)(.*)$/.exec(args[at] ?? '') ?? []
  return attached === '' ? args[at + 1] : attached.replace(/^=/, '')
}

/** Undefined where only the run knows it, or in the first folder. */
function below(folder: string | undefined, path: string | undefined): string | undefined {
  if (path === undefined) return '~'
  if (path.includes(unknownText)) return undefined
  if (/^[/~]/.test(path)) return path
  return folder === undefined ? undefined : `${folder}/${path}`
}
