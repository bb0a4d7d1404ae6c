import { isRecord } from '@slipway/shared/json'

/** Maximum length of front matter, in characters. */
const maxLength = 32 * 1024
/** Of all files of a folder, in characters: the library needs up to 10 µs for each, on the main thread. */
const maxTotal = 512 * 1024

type Members = Readonly<Record<string, unknown>>
type Issue = { readonly issue: string }

/** The front matter that is parsed of untrusted files together. */
export class FrontMatterBudget {
  #left = maxTotal

  /** False when there is no room for that many characters. */
  take(characters: number): boolean {
    if (characters > this.#left) return false
    this.#left -= characters
    return true
  }
}

/**
 * Splits a text into YAML front matter (empty if there is none) and the rest. Never throws; an issue is a
 * sentence that begins with a verb.
 */
export async function parseFrontMatter(
  text: string,
  budget: FrontMatterBudget,
): Promise<{ readonly members: Members; readonly body: string } | Issue> {
  const lines = text.split('\n', 2)
  if (lines.length < 2 || lines[0]?.trimEnd() !== '---') return { members: {}, body: text }
  const start = text.indexOf('\n')
  const end = closingLine(text, start)
  if (end === undefined) return { issue: 'has front matter that is not closed by a line of three dashes' }
  if (end - start > maxLength) return { issue: `has front matter of more than ${maxLength} characters` }
  if (!budget.take(end - start))
    return {
      issue: `is left out: the files of its folder have more than ${maxTotal} characters of front matter`,
    }
  const members = await readMembers(text.slice(start + 1, end + 1))
  if ('issue' in members) return members
  const next = text.indexOf('\n', end + 1)
  return { members: members.value, body: next === -1 ? '' : text.slice(next + 1) }
}

/** The line feed before the first line of exactly three dashes. */
function closingLine(text: string, start: number): number | undefined {
  for (let at = text.indexOf('\n---', start); at !== -1; at = text.indexOf('\n---', at + 1)) {
    const next = text.indexOf('\n', at + 1)
    if (text.slice(at + 4, next === -1 ? undefined : next).trim() === '') return at
  }
  return undefined
}

async function readMembers(yaml: string): Promise<{ readonly value: Members } | Issue> {
  const parsed = await parseYaml(yaml)
  if (!('issue' in parsed)) return parsed
  // Descriptions with an unquoted colon are common and unambiguous.
  const quoted = yaml.replace(
    /^(name|description|license|compatibility): +([^'"|>&*!{[\s].*)$/gm,
    (_, name, value) => `${name}: ${JSON.stringify(value.trim())}`,
  )
  const requoted = quoted === yaml ? parsed : await parseYaml(quoted)
  return 'issue' in requoted ? parsed : requoted
}

async function parseYaml(yaml: string): Promise<{ readonly value: Members } | Issue> {
  const { parseDocument } = await import('yaml')
  try {
    const document = parseDocument(yaml, { logLevel: 'silent', uniqueKeys: false })
    const [error] = document.errors
    if (error !== undefined)
      return { issue: `has front matter that is not YAML: ${firstLine(error.message)}` }
    // No aliases: they let a small text expand without bounds.
    const value: unknown = document.toJS({ maxAliasCount: 0 })
    if (value === null || value === undefined) return { value: {} }
    return isRecord(value) ? { value } : { issue: 'has front matter that is no mapping of names to values' }
  } catch {
    // The library throws for aliases and overflows the stack for deep nesting.
    return { issue: 'has front matter with aliases, or nested too deep' }
  }
}

function firstLine(message: string): string {
  return message.split('\n', 1)[0]?.replace(/:$/, '') ?? ''
}
