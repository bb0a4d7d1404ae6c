import { isRecord } from '@slipway/shared/json'
import { shellWord } from '@slipway/shared/text'
import { schemaProperties } from './repair-values.ts'

type Args = Readonly<Record<string, unknown>>

/** Other names of parameters, without case and separators. */
const otherNames: Readonly<Record<string, readonly string[]>> = {
  path: ['filepath', 'file', 'filename', 'absolutepath', 'targetfile', 'dirpath', 'directory'],
  file_path: ['filepath', 'path', 'file', 'filename', 'absolutepath', 'targetfile'],
  dir_path: ['dirpath', 'path', 'directory', 'dir', 'folder'],
  command: ['cmd', 'script', 'bash', 'commandline', 'shellcommand', 'bashcommand'],
  old_str: ['oldstr', 'oldstring', 'oldtext', 'search', 'old', 'find'],
  new_str: ['newstr', 'newstring', 'newtext', 'replace', 'replacement', 'new', 'inserttext'],
  old_string: ['oldstring', 'oldstr', 'oldtext', 'search', 'old', 'find'],
  new_string: ['newstring', 'newstr', 'newtext', 'replace', 'replacement', 'new'],
  file_text: ['filetext', 'content', 'contents', 'filecontent', 'filecontents', 'text'],
  content: ['contents', 'filetext', 'filecontent', 'filecontents', 'text'],
  insert_line: ['insertline', 'line', 'linenumber', 'afterline', 'insertafterline'],
  view_range: ['viewrange', 'range', 'linerange', 'lines'],
  patch: ['input', 'diff', 'patchtext', 'patchcontent'],
  pattern: ['query', 'regex', 'regexp', 'searchpattern', 'globpattern', 'searchterm'],
  include: ['filepattern', 'includepattern', 'glob', 'includes'],
  message: ['result', 'answer', 'finalanswer', 'response', 'text', 'content', 'output'],
  thought: ['thoughts', 'thinking', 'reasoning', 'content', 'text'],
  task_list: ['tasklist', 'tasks', 'todos', 'todolist', 'plan', 'items'],
  title: ['content', 'description', 'task', 'step', 'name', 'text'],
  notes: ['note', 'details'],
  is_input: ['isinput'],
  replace_all: ['replaceall', 'allowmultiple', 'global'],
}
/** Members of tasks of other trackers, which ours does without. */
const ignoredTaskMembers: ReadonlySet<string> = new Set(['id', 'priority', 'activeForm', 'active_form'])

/** Other values of enums, without case and separators. */
const otherValues: ReadonlyMap<string, string> = new Map([
  ['completed', 'done'],
  ['complete', 'done'],
  ['finished', 'done'],
  ['pending', 'todo'],
  ['notstarted', 'todo'],
  ['open', 'todo'],
  ['doing', 'in_progress'],
  ['active', 'in_progress'],
  ['started', 'in_progress'],
  ['replace', 'str_replace'],
  ['stringreplace', 'str_replace'],
  ['undo', 'undo_edit'],
  ['read', 'view'],
])

/**
 * Arguments under the names and with the enum values of a schema. A member is renamed only when the parameter
 * is absent, no other member could be meant, and the schema allows no further members.
 */
export function repairArguments(input: Args, schema: Args): Args {
  const properties = schemaProperties(schema)
  // A tool that takes any member may mean another one by it.
  const args =
    schema.additionalProperties === false
      ? dropRemarks(
          readMilliseconds(
            enterDirectory(renameMembers(unwrap(input, properties), properties), properties),
            properties,
          ),
          properties,
        )
      : input
  return Object.fromEntries(
    Object.entries(args).map(([name, value]) => {
      const property = properties[name]
      if (!Object.hasOwn(properties, name) || !isRecord(property)) return [name, value]
      if (name === 'command' && property.enum === undefined && isStringArray(value))
        return [name, commandText(value)]
      if (name === 'task_list') return [name, repairTasks(value, property)]
      return [name, repairEnum(value, property)]
    }),
  )
}

/** The inner object of `{"arguments": {...}}`, which some models write around all of them. */
function unwrap(args: Args, properties: Args): Args {
  const [name, ...others] = Object.keys(args)
  if (name === undefined || others.length > 0 || Object.hasOwn(properties, name)) return args
  const inner = args[name]
  return ['arguments', 'parameters', 'args', 'input', 'params'].includes(name) && isRecord(inner)
    ? inner
    : args
}

function renameMembers(args: Args, properties: Args): Args {
  const unknown = Object.keys(args).filter((name) => !Object.hasOwn(properties, name))
  const renamed = new Map<string, string>()
  for (const name of unknown) {
    const key = plainKey(name)
    const meant = Object.keys(properties).filter(
      (property) =>
        args[property] == null && (plainKey(property) === key || otherNames[property]?.includes(key)),
    )
    const [property] = meant
    if (property !== undefined && meant.length === 1) renamed.set(name, property)
  }
  const targets = [...renamed.values()]
  const isClear = (target: string) => targets.indexOf(target) === targets.lastIndexOf(target)
  const entries = Object.entries(args).flatMap(([name, value]): [string, unknown][] => {
    const target = renamed.get(name)
    if (target !== undefined && isClear(target)) return [[target, value]]
    const isReplaced = value == null && targets.includes(name) && isClear(name)
    return isReplaced ? [] : [[name, value]]
  })
  return Object.fromEntries(entries)
}

/** What models say beside a call, for people; it changes nothing. */
const remarks = [
  ...['description', 'explanation', 'reason', 'rationale', 'justification', 'intent', 'instruction'],
]
/** Switches of other shells, which are what ours does when they are off. */
const switches = [
  'runinbackground',
  'isbackground',
  'background',
  'requiresapproval',
  'withescalatedpermissions',
]

function dropRemarks(args: Args, properties: Args): Args {
  const isRemark = ([name, value]: [string, unknown]) =>
    !Object.hasOwn(properties, name) &&
    ((remarks.includes(plainKey(name)) && typeof value === 'string') ||
      (switches.includes(plainKey(name)) && (value === false || value === null)))
  return Object.fromEntries(Object.entries(args).filter((member) => !isRemark(member)))
}

const directoryNames = ['workdir', 'cwd', 'workingdirectory', 'workingdir', 'directory', 'dirpath']

/**
 * A directory for a command of the terminal, which stays where it was last, becomes a part of the command.
 */
function enterDirectory(args: Args, properties: Args): Args {
  const { command } = args
  const name = Object.keys(args).find(
    (one) => !Object.hasOwn(properties, one) && directoryNames.includes(plainKey(one)),
  )
  const directory = name === undefined ? undefined : args[name]
  if (name === undefined || !Object.hasOwn(properties, 'is_input') || typeof command !== 'string') return args
  const { [name]: _, ...others } = args
  if (directory === null || directory === '' || directory === '.') return others
  if (typeof directory !== 'string') return args
  const isSimple = !/[;&|\n]/.test(command)
  return { ...others, command: `cd -- ${shellWord(directory)} && ${isSimple ? command : `{\n${command}\n}`}` }
}

/** `timeout_ms` of other shells. */
function readMilliseconds(args: Args, properties: Args): Args {
  const name = Object.keys(args).find((one) => plainKey(one) === 'timeoutms')
  const milliseconds = name === undefined ? Number.NaN : Number(args[name] ?? Number.NaN)
  const isMeant = Object.hasOwn(properties, 'timeout') && args.timeout == null && milliseconds >= 0
  if (name === undefined || !isMeant || Object.hasOwn(properties, name)) return args
  const { [name]: _, ...others } = args
  return { ...others, timeout: milliseconds / 1000 }
}

function repairTasks(value: unknown, { items }: Args): unknown {
  if (!Array.isArray(value) || !isRecord(items)) return value
  return value.map((item: unknown) => {
    if (typeof item === 'string') return { title: item }
    if (!isRecord(item)) return item
    return Object.fromEntries(
      Object.entries(repairArguments(item, { ...items, additionalProperties: false })).filter(
        ([name]) => !ignoredTaskMembers.has(name),
      ),
    )
  })
}

function repairEnum(value: unknown, property: Args): unknown {
  const values = enumValues(property)
  if (typeof value !== 'string' || values.length === 0 || values.includes(value)) return value
  const key = plainKey(value)
  const [same, ...more] = values.filter((one) => typeof one === 'string' && plainKey(one) === key)
  if (same !== undefined && more.length === 0) return same
  const other = otherValues.get(key)
  return other !== undefined && values.includes(other) ? other : value
}

function enumValues(property: Args): readonly unknown[] {
  if (Array.isArray(property.enum)) return property.enum
  const branches = Array.isArray(property.anyOf) ? property.anyOf : []
  return branches.flatMap((branch) => (isRecord(branch) ? enumValues(branch) : []))
}

/** `file_path`, `filePath` and `File-Path` are one. */
export function plainKey(name: string): string {
  return name.toLowerCase().replaceAll(/[\s_.-]/g, '')
}

function isStringArray(value: unknown): value is string[] {
  return Array.isArray(value) && value.length > 0 && value.every((word) => typeof word === 'string')
}

/** The text of a command that came as a list of words. */
function commandText(words: readonly string[]): string {
  const [shell = '', option = '', script, ...others] = words
  if (
    /^(?:.*\/)?(?:ba|z)?sh$/.test(shell) &&
    /^-l?c$/.test(option) &&
    script !== undefined &&
    others.length === 0
  )
    return script
  const [only] = words
  if (words.length === 1 && only !== undefined) return only
  return words.map(shellWord).join(' ')
}
