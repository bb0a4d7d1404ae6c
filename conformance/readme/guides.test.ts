import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { guidePages, readGuide } from '../support/guide.ts'
import { root } from '../support/readme.ts'

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
