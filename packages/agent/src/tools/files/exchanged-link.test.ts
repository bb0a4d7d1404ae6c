import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { exchangeWithLink } from '@slipway/shared/tool-files/testing'
import { expect, test } from 'vitest'
import { openApplyPatch } from '../patch/apply-patch.ts'
import { ToolFixtures } from '../testing/fixtures.ts'
import { openEdit, openWriteFile } from './edit.ts'
import { openReadFile } from './read-file.ts'

const tries = 250

test.skipIf(process.platform !== 'linux')(
  'a directory that is exchanged with a link in a loop leads no tool outside',
  async () => {
    await using fixtures = await ToolFixtures.open()
    mkdirSync(fixtures.path('folder'))
    for (const folder of [fixtures.path('folder'), fixtures.outside])
      writeFileSync(join(folder, 'file'), folder === fixtures.outside ? 'a secret' : 'a text')
    const [read, write, edit, patch] = await Promise.all(
      [openReadFile, openWriteFile, openEdit, openApplyPatch].map((open) => fixtures.tool(open)),
    )
    const file_path = 'folder/file'
    const { signal } = new AbortController()
    const run = async (tool: typeof read, args: Record<string, unknown>) => {
      const parsed = tool?.parse(args)
      if (tool === undefined || parsed === undefined || 'error' in parsed) throw new Error('wrong arguments')
      return JSON.stringify(await tool.run(parsed.action, signal))
    }
    let done = 0
    {
      await using _ = await exchangeWithLink(fixtures.path('folder'), fixtures.outside)
      for (let time = 0; time < tries; time++) {
        const seen = await run(read, { file_path })
        expect(seen).not.toContain('secret')
        if (seen.includes('a text')) done++
        await run(write, { file_path, content: 'a text' })
        await run(write, { file_path: `folder/new-${time}/file`, content: 'a text' })
        await run(edit, { file_path, old_string: 'a', new_string: 'a' })
        await run(patch, { patch: `*** Begin Patch\n*** Add File: folder/added-${time}\n+x\n*** End Patch` })
      }
    }
    expect(done).toBeGreaterThan(0)
    expect(readdirSync(fixtures.outside)).toEqual(['file'])
    expect(readFileSync(join(fixtures.outside, 'file'), 'utf8')).toBe('a secret')
  },
)
