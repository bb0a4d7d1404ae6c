import { expect, test } from 'vitest'
import { selfRunningFiles } from './self-running-files.ts'

const running = [
  '.husky/pre-commit',
  '.envrc',
  'sub/.envrc',
  '.vscode/tasks.json',
  '.vscode/settings.json',
  '.devcontainer/devcontainer.json',
  '.github/workflows/ci.yml',
  '.mcp.json',
  '.claude/settings.json',
  '.openhands/hooks.json',
  '.npmrc',
  '.gitattributes',
  '.pre-commit-config.yaml',
  'lefthook.yml',
  '.cargo/config.toml',
  '.cargo/config',
  'crates/a/build.rs',
  'project.code-workspace',
  '.bazelrc',
  '.vimrc',
  '.nvim.lua',
  '.zed/tasks.json',
  '.codex/config.toml',
  '.gemini/settings.json',
]

test('files that programs run on their own are found', () => {
  const others = [
    'src/a.ts',
    'README.md',
    'docs/.husky.md',
    'package.json',
    '.github/CODEOWNERS',
    'vscode/x.json',
    'src/rebuild.rs',
    'build.rs.md',
    '.cargo/audit.toml',
    'bazelrc',
  ]
  expect(selfRunningFiles([...others, ...running])).toEqual(running)
})
