import { Readable, Writable } from 'node:stream'
import { ndJsonStream } from '@agentclientprotocol/sdk/unstable'
import type { CommandContext } from '../context/command-context.ts'
import type { SelectedModel } from '../conversation/agent-request.ts'
import type { ConfirmationChoice } from '../session/session.ts'
import { EditorAgent } from './editor-agent.ts'
import { ServerLink } from './server-link.ts'

/** A prompt with pictures is one message; the server refuses what is too large for it, by words. */
const maxMessageBytes = 256 * 1024 * 1024

/** Speaks the Agent Client Protocol over standard input and output, until the editor closes them. */
export async function acpCommand(
  { client, signal }: CommandContext,
  options: {
    readonly model: SelectedModel | undefined
    readonly confirmation: ConfirmationChoice
    /** Called when the connection is lost: it may start the server again. */
    readonly revive: () => Promise<void>
  },
): Promise<void> {
  const { model, confirmation, revive } = options
  const link = new ServerLink({ client, revive, signal })
  const editor = new EditorAgent({ link, model, confirmation })
  // Node and the library have their own types of the same streams.
  const input = Readable.toWeb(process.stdin) as ReadableStream<Uint8Array>
  const stream = ndJsonStream(Writable.toWeb(process.stdout), input, { maxMessageBytes })
  const connection = editor.app().connect(stream)
  const stop = () => connection.close()
  signal.addEventListener('abort', stop, { once: true })
  await connection.closed
  signal.removeEventListener('abort', stop)
  editor.close()
  process.stdin.destroy()
}
