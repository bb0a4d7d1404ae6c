import { expect, test } from 'vitest'
import { preferredFileTool } from './file-tool.ts'

test.each([
  ['openai/gpt-5.5', 'apply_patch'],
  ['openrouter/openai/gpt-5-codex', 'apply_patch'],
  ['azure/gpt-4.1-mini', 'apply_patch'],
  ['openai/o3', 'apply_patch'],
  ['codex-mini-latest', 'apply_patch'],
  ['openai/gpt-4o', 'file_editor'],
  ['anthropic/claude-opus-5', 'file_editor'],
  ['gemini/gemini-3-pro', 'file_editor'],
  ['groq/openai/gpt-oss-120b', 'file_editor'],
] as const)('%s changes files by %s', (model, tool) => {
  expect(preferredFileTool(model)).toBe(tool)
})
