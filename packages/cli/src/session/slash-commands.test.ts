import { expect, test } from 'vitest'
import { runSlashCommand } from './slash-commands.ts'

async function run(line: string) {
  const sent: string[] = []
  const notices: string[] = []
  const session = { send: async (message: string) => void sent.push(message) }
  const terminal = { notify: (text: string) => void notices.push(text) }
  await runSlashCommand(line, { session, terminal } as unknown as Parameters<typeof runSlashCommand>[1])
  return { sent, notices }
}

test('a prompt of an MCP server is sent as a message; another unknown command is named', async () => {
  expect(await run('/notes:review a.ts "b c"')).toEqual({ sent: ['/notes:review a.ts "b c"'], notices: [] })
  expect(await run('/nothing')).toEqual({
    sent: [],
    notices: ['There is no /nothing; /help lists the commands'],
  })
})
