import { extname } from 'node:path'
import { errorText, firstChars } from '@slipway/shared/text'
import type { Workspace } from '../../workspace/workspace.ts'
import type { ToolContext } from '../core/tool.ts'

/** Longer texts are not parsed. */
const maxChars = 500_000
const maxYamlChars = 100_000
const timeoutMs = 1000
const maxIssueChars = 300

/** What is wrong with the syntax of a text, or undefined; null when there was no answer in time. */
type Check = (text: string, workspace: Workspace) => Promise<string | undefined | null>

const checks: Readonly<Record<string, Check>> = {
  '.json': async (text) => jsonIssue(text),
  '.yaml': yamlIssue,
  '.yml': yamlIssue,
  '.ts': scriptIssue,
  '.mts': scriptIssue,
  '.cts': scriptIssue,
  '.js': scriptIssue,
  '.mjs': scriptIssue,
  '.cjs': scriptIssue,
  '.py': pythonIssue,
  '.go': goIssue,
  '.rs': rustIssue,
  '.sh': shellIssue,
  '.bash': shellIssue,
}

interface Change {
  /** Undefined for a new file. */
  readonly before: string | undefined
  readonly after: string
}

/**
 * What a change broke in a file, as a line for the model: its syntax, else what a language server reports
 * where there is one.
 */
export async function brokenByChange(
  path: string,
  change: Change,
  { workspace, languageServers }: Pick<ToolContext, 'workspace' | 'languageServers'>,
): Promise<string> {
  const issue = await brokenSyntax(path, change, workspace)
  return issue === '' ? ((await languageServers?.newErrors(path, change)) ?? '') : issue
}

/**
 * What a change broke in the syntax of a JSON, YAML, TypeScript, JavaScript, Python, Go, Rust or shell file,
 * as a line for the model; empty when nothing did, when the text was broken before, and without a parser that
 * answers within a second.
 */
export async function brokenSyntax(
  path: string,
  { before, after }: Change,
  workspace: Workspace,
): Promise<string> {
  const check = Object.entries(checks).find(([extension]) => extension === extname(path))?.[1]
  // These have comments and trailing commas by convention.
  if (/(?:^|\/)(?:[tj]sconfig[^/]*|devcontainer)\.json$|\/\.vscode\//.test(path)) return ''
  if (check === undefined || after.length > maxChars || after.trim() === '') return ''
  const issue = await check(after, workspace)
  if (issue === undefined || issue === null) return ''
  const wasBroken =
    before !== undefined && (before.length > maxChars || (await check(before, workspace)) !== undefined)
  return wasBroken
    ? ''
    : `\n[The syntax of ${path} is broken now: ${firstChars(issue.trim(), maxIssueChars)}]`
}

function jsonIssue(text: string): string | undefined {
  // Many programs allow comments in their JSON.
  if (/^\s*\/[/*]|,\s*\/\//m.test(text)) return undefined
  try {
    JSON.parse(text)
    return undefined
  } catch (error) {
    return errorText(error)
  }
}

async function yamlIssue(text: string): Promise<string | undefined> {
  // Templates are no YAML yet, except in the workflows of GitHub.
  if (text.length > maxYamlChars || /(?<!\$)\{\{|\{%/.test(text)) return undefined
  const { parseAllDocuments } = await import('yaml')
  const documents = parseAllDocuments(text, { logLevel: 'silent' })
  const [error] = Array.isArray(documents) ? documents.flatMap(({ errors }) => errors) : []
  return error?.message.split('\n')[0]?.replace(/:$/, '')
}

/** Its own process can be stopped; in this one a long text would hold up everything else. */
const scriptProgram = `
let text = ''
for await (const part of process.stdin) text += part
try {
  (await import('node:module')).stripTypeScriptTypes(text, { mode: 'transform' })
} catch (error) {
  if (error.code !== 'ERR_INVALID_TYPESCRIPT_SYNTAX') process.exit(0)
  const line = /^\\S*:(\\d+)\\n/.exec(error.stack)?.[1]
  console.log((line === undefined ? '' : 'line ' + line + ': ') + error.message)
}`

async function scriptIssue(text: string, workspace: Workspace): Promise<string | undefined | null> {
  // The parser knows no JSX.
  if (/<(?:\/?[A-Za-z][\w.]*(?:\s[^<>]*)?\/?)?>/.test(text) && /<\/|\/>/.test(text)) return undefined
  const args = ['--no-warnings', '--input-type=module', '-e', scriptProgram]
  return await programIssue(process.execPath, args, text, workspace)
}

const pythonProgram = `
import ast, sys
try:
    ast.parse(sys.stdin.buffer.read())
except SyntaxError as e:
    print(f"line {e.lineno}: {e.msg}")
except ValueError:
    pass`

async function pythonIssue(text: string, workspace: Workspace): Promise<string | undefined | null> {
  return await programIssue('python3', ['-I', '-S', '-c', pythonProgram], text, workspace)
}

async function goIssue(text: string, workspace: Workspace): Promise<string | undefined | null> {
  const { exitCode, stderr } = await workspace.run('gofmt', ['-e', '-l'], { input: text, timeoutMs })
  if (exitCode === 0) return undefined
  const [, line, message] = /^<standard input>:(\d+):\d+: (.*)$/m.exec(stderr.toString()) ?? []
  return message === undefined ? null : `line ${line}: ${message}`
}

async function rustIssue(text: string, workspace: Workspace): Promise<string | undefined | null> {
  // In a workspace, rustup would install the toolchain that its files name.
  const options = { input: text, timeoutMs, cwd: '/' }
  const { exitCode, stderr } = await workspace.run('rustfmt', ['--edition', '2021'], options)
  if (exitCode === 0) return undefined
  const [, message, line] = /^error: (.*)\n\s*--> <stdin>:(\d+)/m.exec(stderr.toString()) ?? []
  return message === undefined ? null : `line ${line}: ${message}`
}

async function shellIssue(text: string, workspace: Workspace): Promise<string | undefined | null> {
  if (/^#!(?!.*\b(?:ba)?sh\b)/.test(text)) return undefined
  const check = ['--noprofile', '--norc', '-O', 'extglob', '-n']
  const { exitCode, stderr } = await workspace.run('bash', check, { input: text, timeoutMs })
  const message = stderr
    .toString()
    .split('\n')[0]
    ?.replace(/^bash: /, '')
  if (exitCode === 0) return undefined
  return exitCode === 2 && message ? message : null
}

/**
 * The first line of a program's output; undefined when it wrote none, null when it failed or took too long.
 */
async function programIssue(
  program: string,
  args: readonly string[],
  input: string,
  workspace: Workspace,
): Promise<string | undefined | null> {
  const { exitCode, stdout } = await workspace.run(program, args, { input, timeoutMs })
  return exitCode === 0 ? stdout.toString().split('\n')[0] || undefined : null
}
