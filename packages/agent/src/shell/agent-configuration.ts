import { posix } from 'node:path'
import type { Action } from '@slipway/protocol'
import { changedFiles } from './changed-files.ts'
import { interpreterPrograms } from './rules.ts'
import type { ShellCall } from './script.ts'

/** Folders with hooks, rules, agents and settings of agents; of `.agents` only what runs. */
const folders = ['.openhands', '.slipway', '.claude', '.agents/agents', '.agents/plugins']
const inCode = /(?:^|[^\w.])\.(?:openhands|slipway|claude|agents\/(?:agents|plugins))\b/i

/**
 * Whether a path leads into a folder of the workspace, or of a home directory, that configures agents: what
 * is written there decides which hooks run. File patterns that may lead there count.
 */
function configuresAgents(path: string, workspace?: string): boolean {
  const normal = posix.normalize(path).toLowerCase()
  const root = workspace?.toLowerCase()
  // The workspace itself may lie below such a folder.
  const relative =
    root !== undefined && normal.startsWith(`${root}/`) ? normal.slice(root.length + 1) : normal
  const parts = relative.split('/')
  return folders.some((folder) => {
    const names = folder.split('/')
    return parts.some((_, at) => names.every((name, index) => matchesName(parts[at + index] ?? '', name)))
  })
}

/** Whether one of the calls changes files in such a folder, as far as its text shows. */
export function changesAgentConfiguration(calls: readonly ShellCall[], workspace?: string): boolean {
  const leads = (path: string) => configuresAgents(path, workspace)
  const isInside = calls.some(({ name, args }) => /^(?:cd|pushd)$/.test(name) && args.some(leads))
  return calls.some((call) => {
    const files = changedFiles(call)
    return files.some(leads) || (isInside && files.length > 0) || changesInCode(call)
  })
}

/** Whether an action of a file tool changes a file in such a folder. */
export function editsAgentConfiguration(action: Action, workspace?: string): boolean {
  const leads = (path: string) => configuresAgents(path, workspace)
  // The kind of a patch is in no union.
  const { kind, patch }: { readonly kind: string; readonly patch?: unknown } = action
  if (kind === 'ApplyPatchAction') {
    const lines = String(patch).matchAll(/^\s*\*\*\* (?:(?:Add|Update|Delete|Undo) File|Move to): (.*)$/gm)
    return [...lines].some(([, path = '']) => leads(path.trim()))
  }
  if (action.kind === 'FileEditorAction') return action.command !== 'view' && leads(action.path)
  return (action.kind === 'EditAction' || action.kind === 'WriteFileAction') && leads(action.file_path)
}

function changesInCode({ name, args, input }: ShellCall): boolean {
  if (!interpreterPrograms.test(name)) return false
  const code = args.filter((_, at) => /^-[a-zA-Z]*[ceE]$/.test(args[at - 1] ?? ''))
  return [...code, input ?? ''].some((text) => inCode.test(text))
}

function matchesName(part: string, name: string): boolean {
  const wild = part.search(/[*?[{]/)
  if (wild === -1) return part === name
  // A pattern at the start of a name does not match a dot.
  return wild > 0 && name.startsWith(part.slice(0, wild))
}
