import { expect, test } from 'vitest'
import { GuideReader, guidePages, readGuide } from '../support/guide.ts'

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
