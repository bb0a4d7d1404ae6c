import { expect, test } from 'vitest'
import { GuideReader, guidePages, readGuide } from '../support/guide.ts'
import { SandboxServer } from '../support/sandbox-server/server.ts'
import { textModel } from '../support/sandbox-server/user.ts'

const pages = guidePages.filter((page) =>
  readGuide(page).some(({ text }) => /^slipway sandbox-server/m.test(text)),
)

test.each(pages)('%s: a reader can follow it', { timeout: 600_000 }, async (page) => {
  await using server = await SandboxServer.open()
  await server.requestJson('POST', '/api/v1/settings', { agent_settings_diff: { llm: textModel } })
  await using reader = await GuideReader.open(
    { SLIPWAY_SANDBOX_URL: server.url },
    { '127.0.0.1:3000': new URL(server.url).host, 'sk-slipway-...': server.key },
  )
  for (const block of readGuide(page).filter(({ test }) => test.skip === undefined)) {
    const place = `${page}:${block.line}`
    const { output, failures } = await reader.runBlock(block)
    expect(failures, `${place}\n${output}`).toEqual([])
    for (const pattern of block.test.prints) expect(output, place).toMatch(pattern)
  }
})
