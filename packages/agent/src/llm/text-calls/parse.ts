import { isRecord, parseJson, parseJsonObject } from '@slipway/shared/json'
import type { ModelTool } from '../model.ts'
import { readForeignForms } from './foreign-forms.ts'

interface TextCall {
  readonly name: string
  /** JSON text, or what stood there when it cannot be read. */
  readonly arguments: string
}

/**
 * The beginning of a call: in the stated form, `<function=name>`, or a tag around an object with `name` and
 * `arguments`, as models were trained on.
 */
export const callStart = /<tool_call(?:\s+name="?([\w.:-]+)"?)?\s*>|<function=([\w.:-]+)>/
const parameterStart = /<parameter(?:=|\s+name=)"?([\w.:-]+)"?\s*>/g

/**
 * The text before the first call and the calls. What follows a call and is no call is dropped: models invent
 * results. Of a text that was cut off, the last call is not complete.
 */
export function parseTextCalls(
  received: string,
  tools: readonly ModelTool[],
): { readonly text: string; readonly calls: readonly TextCall[] } {
  const calls: TextCall[] = []
  const source = readForeignForms(received)
  const start = callStart.exec(source)
  if (start === null) return { text: received, calls }
  // Qwen's form: a call within a call.
  const outer = /^<tool_call>\s*(?=<function=)/
  let rest = source.slice(start.index).replace(outer, '')
  for (let found = callStart.exec(rest); found?.index === 0; found = callStart.exec(rest)) {
    const [tag, named, functionName] = found
    const body = readBody(rest.slice(tag.length), functionName === undefined ? 'tool_call' : 'function')
    calls.push(toCall(named ?? functionName, body.text, body.isClosed, tools))
    rest = body.rest.replace(/^(?:\s|<\/tool_call>|<\/function>)+/, '').replace(outer, '')
    if (!body.isClosed) break
  }
  return { text: source.slice(0, start.index).trimEnd(), calls }
}

/** Calls that a server left in the text: of known tools, and not quoted as code; else none. */
export function parseStrayCalls(
  source: string,
  tools: readonly ModelTool[],
): ReturnType<typeof parseTextCalls> {
  const parsed = parseTextCalls(source, tools)
  const isKnown = parsed.calls.every(({ name }) => tools.some((tool) => tool.name === name))
  const isQuoted = parsed.text.split('```').length % 2 === 0
  return isKnown && !isQuoted ? parsed : { text: source, calls: [] }
}

/**
 * Up to the closing tag; a value may contain one itself, so only one after a parameter or an object counts.
 */
function readBody(source: string, tag: string) {
  const end = `</${tag}>`
  let at = source.indexOf(end)
  while (at >= 0) {
    const text = source.slice(0, at)
    const open = text.lastIndexOf('<parameter')
    const isInsideValue = open >= 0 && !/<\/parameter>\s*$/.test(text)
    if (!isInsideValue) return { text, rest: source.slice(at + end.length), isClosed: true }
    at = source.indexOf(end, at + 1)
  }
  return { text: source, rest: '', isClosed: false }
}

function toCall(
  tagName: string | undefined,
  body: string,
  isClosed: boolean,
  tools: readonly ModelTool[],
): TextCall {
  if (/<parameter(?:=|\s+name=)/.test(body)) {
    const name = tagName ?? 'tool_call'
    const parameters = readParameters(body)
    const isWhole = isClosed || /<\/parameter>\s*$/.test(body)
    if (!isWhole) return { name, arguments: body.trim() }
    return { name, arguments: JSON.stringify(typedArguments(name, parameters, tools)) }
  }
  const json = body.trim()
  const value = parseJsonObject(json)
  if (tagName === undefined && isRecord(value) && typeof value.name === 'string') {
    const args = value.arguments ?? value.parameters ?? {}
    return { name: value.name, arguments: typeof args === 'string' ? args : JSON.stringify(args) }
  }
  return { name: tagName ?? 'tool_call', arguments: json === '' ? '{}' : json }
}

function readParameters(body: string): ReadonlyMap<string, string> {
  const starts = [...body.matchAll(parameterStart)]
  const values = new Map<string, string>()
  for (const [index, start] of starts.entries()) {
    const segment = body.slice(start.index + start[0].length, starts[index + 1]?.index)
    const end = segment.lastIndexOf('</parameter>')
    const value = end < 0 ? segment : segment.slice(0, end)
    values.set(start[1] ?? '', value.replace(/^\r?\n/, '').replace(/\r?\n$/, ''))
  }
  return values
}

/** Texts where the schema has texts; else JSON where it parses. */
function typedArguments(name: string, parameters: ReadonlyMap<string, string>, tools: readonly ModelTool[]) {
  const properties = tools.find((tool) => tool.name === name)?.parameters.properties
  const entries = [...parameters].map(([key, value]) => {
    const schema = isRecord(properties) ? properties[key] : undefined
    const isText = !isRecord(schema) || schema.type === undefined || schema.type === 'string'
    return [key, isText ? value : (parseJson(value.trim()) ?? value)] as const
  })
  return Object.fromEntries(entries)
}
