import { resolve } from 'node:path'
import { userDataDirectory } from '@slipway/shared/process'
import type { CommandContext } from '../context/command-context.ts'
import type { Config } from '../context/config.ts'
import type { SelectedModel } from '../conversation/agent-request.ts'
import { sanitizeLine } from '../output/sanitize.ts'
import { paint, printNote } from '../output/terminal.ts'
import { chooseModel } from './choose-model.ts'
import { readHistory } from './input/history.ts'
import { PlainSession } from './plain-session.ts'
import { type ConfirmationChoice, Session } from './session.ts'
import { TerminalSession } from './terminal-session.ts'

/** A conversation in the terminal, until the user leaves. */
export async function sessionCommand(
  { client, signal }: CommandContext,
  options: {
    readonly config: Config
    readonly directory: string
    /** Called when the connection is lost: it may start the server again. */
    readonly revive: () => Promise<void>
    /** The conversation to join; undefined: a new one. */
    readonly id: string | undefined
    readonly model: SelectedModel | undefined
    /** Of a new conversation. */
    readonly confirmation?: ConfirmationChoice
    /** Nothing is drawn again: for screen readers. */
    readonly isPlain: boolean
  },
): Promise<void> {
  const { config, id, revive, isPlain, confirmation = { isAsking: false, rules: [] } } = options
  const directory = resolve(options.directory)
  const model = id === undefined ? await chooseModel(client, options.model, signal) : undefined
  const dataDirectory = userDataDirectory(config.env)
  const terminal = isPlain
    ? new PlainSession({ dataDirectory, signal })
    : new TerminalSession({
        history: await readHistory(dataDirectory),
        ...{ dataDirectory, directory, signal },
      })
  const session = new Session({ client, directory, screen: terminal, signal, model, confirmation, revive })
  const ended = terminal.run(session)
  if (model !== undefined)
    terminal.print(paint('dim', `${sanitizeLine(directory)} · ${sanitizeLine(model.name)}\n`))
  try {
    if (id !== undefined) await session.attach(id)
    await ended
  } finally {
    terminal.close()
    session.close()
    await ended
  }
  if (session.id === undefined) return
  const isOpen = session.isRunning || session.status === 'waiting_for_confirmation'
  printNote(`${isOpen ? 'It continues. ' : ''}Come back with: slipway attach ${session.id.slice(0, 8)}`)
}
