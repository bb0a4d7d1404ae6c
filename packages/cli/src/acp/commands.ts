import type { AvailableCommand } from '@agentclientprotocol/sdk/unstable'
import type { ServerLink } from './server-link.ts'

interface CommandTarget {
  readonly link: ServerLink
  readonly id: string
  /** Aborts when the user cancels. */
  readonly signal: AbortSignal
}

interface EditorCommand {
  readonly description: string
  readonly hint?: string
  /** Returns what is said to the user. */
  run(rest: string, target: CommandTarget): Promise<string>
}

/** What a prompt that begins with a slash does; the modes and models of a session are its own options. */
const commands: ReadonlyMap<string, EditorCommand> = new Map<string, EditorCommand>([
  [
    'compact',
    {
      description: 'Summarise what the model is shown of the conversation',
      async run(_, { link, id, signal }) {
        await link.client.call('condenseConversation', { params: { conversation_id: id }, signal })
        return 'Summarised.'
      },
    },
  ],
  [
    'title',
    {
      description: 'Name the conversation',
      hint: 'the title',
      async run(title, { link, id, signal }) {
        await link.client.call('patchConversation', {
          params: { conversation_id: id },
          body: { title },
          signal,
        })
        return `Renamed: ${title}`
      },
    },
  ],
])

export const availableCommands: AvailableCommand[] = [...commands].map(([name, { description, hint }]) => ({
  ...{ name, description },
  ...(hint === undefined ? {} : { input: { hint } }),
}))

/**
 * The command that a text names, ready to run; undefined for a message, such as a prompt of an MCP server.
 */
export function findCommand(text: string): ((target: CommandTarget) => Promise<string>) | undefined {
  const [, name = '', rest = ''] = /^\/([\w-]+)(?:\s+([\s\S]*))?$/.exec(text.trim()) ?? []
  const command = commands.get(name)
  return command && ((target) => command.run(rest.trim(), target))
}
