import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { listSubAgents } from './sub-agent-list.ts'

function writeAgentFile(directory: string, name: string, text: string): void {
  mkdirSync(join(directory, '.agents/agents'), { recursive: true })
  writeFileSync(join(directory, '.agents/agents', name), text)
}

test('agents are listed with all members, secrets redacted, and invalid files are logged', async () => {
  using home = temporaryDirectory()
  using project = temporaryDirectory()
  writeAgentFile(project.path, 'bad.md', '---\ntools: 7\n---\n')
  writeAgentFile(
    project.path,
    'good.md',
    `---
mcp_config:
  notes: { command: notes, args: [--token, canary-arg], env: { A: canary-env } }
  web: { url: "https://u:canary-user@host/x?api_key=canary-query", headers: { Authorization: canary-header } }
api_key: canary-metadata
condenser: { kind: LLMSummarizingCondenser, llm: { model: m, api_key: canary-model } }
---
You are good.
`,
  )
  writeAgentFile(home.path, 'mine.md', 'Mine.')
  const lines: string[] = []
  const log = (...line: unknown[]) => void lines.push(JSON.stringify(line))
  const query = { project: project.path, homeDirectory: home.path, isBuiltin: true }
  const agents = await listSubAgents(query, log)
  expect(agents.map(({ name, level, is_builtin }) => [name, level, is_builtin])).toEqual([
    ['good', 'project', false],
    ['mine', 'user', false],
    ['general-purpose', 'builtin', true],
    ['code-explorer', 'builtin', true],
    ['bash-runner', 'builtin', true],
    ['web-researcher', 'builtin', true],
  ])
  expect(agents[0]).toMatchObject({
    source: join(project.path, '.agents/agents/good.md'),
    system_prompt: 'You are good.',
    mcp_config: { notes: { command: 'notes', env: { A: '**********' } } },
    hooks: null,
    permission_mode: null,
    max_iteration_per_run: null,
    color: null,
    profile_store_dir: null,
  })
  expect(agents[0]?.mcp_servers).toEqual(agents[0]?.mcp_config)
  expect(JSON.stringify(agents)).not.toContain('canary')
  expect(lines).toEqual([expect.stringContaining('bad.md: has a bad member tools')])
  expect(lines.join()).not.toContain('canary')
  expect(
    await listSubAgents({ project: undefined, homeDirectory: undefined, isBuiltin: false }, log),
  ).toEqual([])
})
