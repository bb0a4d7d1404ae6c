import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { GuideReader, guidePages, readGuide } from '../support/guide.ts'
import { root } from '../support/readme.ts'

/** Pages whose commands need a sandbox server: `guides.sandbox.test.ts` follows them. */
const isSandboxPage = (page: string) =>
  readGuide(page).some(({ text }) => /^slipway sandbox-server/m.test(text))

test.each(guidePages.filter((page) => !isSandboxPage(page)))(
  '%s: a reader can follow it',
  {
    timeout: 600_000,
  },
  async (page) => {
    const blocks = readGuide(page)
    await using reader = await GuideReader.open()
    for (const block of blocks.filter(({ test }) => test.skip === undefined)) {
      const place = `${page}:${block.line}`
      const { output, failures } = await reader.runBlock(block)
      expect(failures, `${place}\n${output}`).toEqual([])
      for (const pattern of block.test.prints) expect(output, place).toMatch(pattern)
    }
  },
)

test.each(guidePages)('%s: begins with an example, and says why a block is not run', (page) => {
  const text = readFileSync(join(root, page), 'utf8')
  const head = text.slice(0, text.indexOf('\n## ') === -1 ? undefined : text.indexOf('\n## '))
  expect(head, 'an example comes before the first section').toMatch(/^```(sh|ts|text)$/m)
  for (const { line, test: how } of readGuide(page)) {
    if (how.skip === undefined) continue
    expect(how.skip.length, `${page}:${line}`).toBeGreaterThan(20)
    for (const [file] of how.skip.matchAll(/[\w./-]+\.test\.ts/g))
      expect(existsSync(join(root, file)), file).toBe(true)
  }
})

test('each fence of the guides names its language, and each page is in the index', () => {
  const index = readFileSync(join(root, 'docs/README.md'), 'utf8')
  const pages = globSync('docs/**/*.md', { cwd: root }).filter(
    (page) => !/^docs\/(decisions\/|README)/.test(page),
  )
  for (const page of pages) {
    expect(existsSync(join(root, page))).toBe(true)
    expect(index, page).toContain(`](${page.slice('docs/'.length)})`)
  }
  for (const page of guidePages) {
    const fences = readFileSync(join(root, page), 'utf8').match(/^```.*$/gm) ?? []
    const opening = fences.filter((_, at) => at % 2 === 0)
    expect(opening.filter((fence) => fence === '```')).toEqual([])
  }
})
