import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { McpServer } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { McpFixtures } from './testing/mcp-fixtures.ts'
import { installPublishedServers } from './testing/published-servers.ts'

/**
 * Twenty servers that people use, from npm and PyPI: started, listed, and one tool of each called. The calls
 * reach nothing outside of this machine. `SLIPWAY_NIGHTLY=1` installs them (600 MB) where they are missing.
 */
const installed = await installPublishedServers()
const reason = typeof installed === 'string' ? installed : undefined

test.skipIf(reason !== undefined)(
  `twenty published servers start, list their tools and answer a call${reason === undefined ? '' : `: ${reason}`}`,
  { timeout: 600_000 },
  async () => {
    if (typeof installed === 'string') return
    await using trial = await McpFixtures.open({})
    const { root } = trial
    const page = createServer((_, response) => response.end('buy milk')).listen(0, '127.0.0.1')
    await once(page, 'listening')
    execFileSync('git', ['init', '--quiet', root])
    await writeFile(join(root, 'note.txt'), 'buy milk\n')
    await writeFile(join(root, 'eslint.config.mjs'), 'export default []')
    await writeFile(join(root, 'code.js'), 'let a = 1\n')
    const url = `http://127.0.0.1:${(page.address() as AddressInfo).port}/note`
    const env = { PATH: process.env.PATH ?? '', HOME: root }
    const node = async (name: string, args: string[] = [], more: Record<string, string> = {}) => ({
      command: process.execPath,
      args: [await installed.script(name), ...args],
      env: { ...env, ...more },
    })
    const python = (environment: 'new' | 'old', name: string, args: string[] = []) => ({
      command: installed.program(environment, name),
      args,
      env,
    })
    const official = '@modelcontextprotocol/server-'
    const note = [{ file_path: join(root, 'note.txt'), ranges: [{ start: 1 }] }]
    const thought = { thought: 'x', nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 }
    const code = { code: 'console.log(6 * 7)', languageId: 'javascript' }
    const cases: Record<
      string,
      [Partial<McpServer>, tool: string, args: Record<string, unknown>, said: RegExp]
    > = {
      filesystem: [
        await node(`${official}filesystem`, [root]),
        'list_allowed_directories',
        {},
        /slipway-mcp-/,
      ],
      memory: [await node(`${official}memory`), 'search_nodes', { query: 'milk' }, /entities/],
      everything: [await node(`${official}everything`), 'echo', { message: 'hello' }, /Echo: hello/],
      thinking: [
        await node(`${official}sequential-thinking`),
        'sequentialthinking',
        thought,
        /thoughtNumber/,
      ],
      playwright: [await node('@playwright/mcp', ['--headless']), 'browser_close', {}, /./],
      eslint: [await node('@eslint/mcp'), 'lint-files', { filePaths: [join(root, 'code.js')] }, /code\.js/],
      runner: [await node('mcp-server-code-runner'), 'run-code', code, /42/],
      files: [
        await node('@agent-infra/mcp-server-filesystem', ['--allowed-directories', root]),
        ...(['list_allowed_directories', {}, /slipway-mcp-/] as const),
      ],
      commands: [
        await node('@agent-infra/mcp-server-commands'),
        'run_command',
        { command: 'echo hello' },
        /hello/,
      ],
      accesslint: [await node('@accesslint/mcp'), 'list_rules', {}, /./],
      bank: [
        await node('@allpepper/memory-bank-mcp', [], { MEMORY_BANK_ROOT: root }),
        ...(['list_projects', {}, /./] as const),
      ],
      selenium: [await node('@angiejones/mcp-selenium'), 'close_session', {}, /./],
      time: [python('new', 'mcp-server-time'), 'get_current_time', { timezone: 'UTC' }, /UTC/],
      git: [python('new', 'mcp-server-git'), 'git_status', { repo_path: root }, /note\.txt/],
      fetch: [
        python('new', 'mcp-server-fetch', ['--ignore-robots-txt', '--allow-private-ips']),
        'fetch',
        { url, raw: true },
        /buy milk/,
      ],
      excel: [python('new', 'excel-mcp-server', ['stdio']), 'list_workbooks', {}, /./],
      markitdown: [
        python('new', 'markitdown-mcp'),
        'convert_to_markdown',
        { uri: `file://${join(root, 'note.txt')}` },
        /buy milk/,
      ],
      sqlite: [
        python('old', 'mcp-server-sqlite', ['--db-path', join(root, 'x.db')]),
        'list_tables',
        {},
        /\[\]/,
      ],
      calculator: [python('old', 'mcp-server-calculator'), 'calculate', { expression: '6*7' }, /42/],
      editor: [python('old', 'mcp-text-editor'), 'get_text_file_contents', { files: note }, /buy milk/],
    }
    const servers = Object.fromEntries(Object.entries(cases).map(([name, [server]]) => [name, server]))
    const { mcp, call } = await trial.openServers(servers, { startMs: 240_000 })
    expect(Object.fromEntries(mcp.away)).toEqual({})
    const said: Record<string, string> = {}
    for (const [name, [, tool, args]] of Object.entries(cases))
      said[name] = (await call(`${name}_${tool}`, args)).text
    for (const [name, [, , , pattern]] of Object.entries(cases)) {
      expect.soft(said[name], name).toMatch(pattern)
      expect
        .soft(said[name], name)
        .not.toMatch(/The MCP server .* (?:refused|cannot)|The connection .* broke/)
    }
    page.closeAllConnections()
    page.close()
  },
)
