import { confirmationPolicies } from '../conversation/confirmation-policies.ts'
import { relativeTime } from '../output/relative-time.ts'
import { sanitizeLine } from '../output/sanitize.ts'
import { paint } from '../output/terminal.ts'
import type { Session } from './session.ts'

/** The terminal as commands use it. */
interface CommandTerminal {
  print(text: string): void
  notify(text: string): void
  suspend(work: () => Promise<void>): Promise<void>
  close(): void
}

interface CommandTarget {
  readonly session: Session
  readonly terminal: CommandTerminal
}

interface SlashCommand {
  readonly usage: string
  readonly description: string
  run(rest: string, target: CommandTarget): Promise<void>
}

const commands: ReadonlyMap<string, SlashCommand> = new Map<string, SlashCommand>([
  [
    '/help',
    {
      usage: '/help',
      description: 'show commands and keys',
      async run(_, { terminal }) {
        const lines = [...commands.values()].map(
          ({ usage, description }) => `  ${usage.padEnd(26)} ${description}\n`,
        )
        const keys = [
          ['Enter', 'send; while the agent works: queue'],
          ['Alt-Enter, Ctrl-J, \\ Enter', 'a new line'],
          ['@path', 'give the agent a file'],
          ['Esc', 'interrupt the run'],
          ['Ctrl-O', 'show the last result in full'],
          ['Up, Down', 'earlier messages'],
          ['Ctrl-D', 'leave; a run continues'],
        ].map(([key = '', text = '']) => `  ${key.padEnd(26)} ${text}\n`)
        terminal.print(
          `${paint('bold', 'Commands')}\n${lines.join('')}${paint('bold', 'Keys')}\n${keys.join('')}`,
        )
      },
    },
  ],
  [
    '/model',
    {
      usage: '/model',
      description: 'choose another model; it is tested first',
      run: async (_, { session, terminal }) => {
        await terminal.suspend(() => session.chooseModel())
        terminal.notify('The model is changed')
      },
    },
  ],
  [
    '/confirm',
    {
      usage: '/confirm always|risky|never',
      description: 'what waits for your answer',
      async run(rest, { session, terminal }) {
        const policy = Object.entries(confirmationPolicies).find(([name]) => name === rest)?.[1]
        if (policy === undefined) return terminal.notify('Say always, risky or never')
        await session.setPolicy(policy)
        terminal.notify(`Confirmation: ${rest}`)
      },
    },
  ],
  [
    '/plan',
    {
      usage: '/plan [accept|off]',
      description: 'plan first and change nothing; accept carries it out',
      async run(rest, { session, terminal }) {
        if (!['', 'accept', 'off'].includes(rest))
          return terminal.notify('Say /plan, /plan accept or /plan off')
        if (rest === '') await session.startPlan()
        else await session.endPlan({ isAccepted: rest === 'accept' })
        terminal.notify(rest === '' ? 'Plan mode: nothing is changed until /plan accept' : 'Plan mode is off')
      },
    },
  ],
  [
    '/undo',
    {
      usage: '/undo',
      description: 'go back to before your last message; files stay: slipway rollback',
      async run(_, { session, terminal }) {
        // The log says what was undone.
        const id = await session.undo()
        terminal.print(
          id === undefined
            ? 'There is nothing to undo.\n'
            : paint(
                'dim',
                `Files stay as they are: slipway checkpoints ${id.slice(0, 8)}, slipway rollback\n`,
              ),
        )
      },
    },
  ],
  [
    '/fork',
    {
      usage: '/fork',
      description: 'continue in a copy of the conversation',
      async run(_, { session, terminal }) {
        const id = await session.fork()
        terminal.print(paint('yellow', `· now in the copy ${id}\n`))
      },
    },
  ],
  [
    '/compact',
    {
      usage: '/compact',
      description: 'summarise what the model is shown of the conversation',
      async run(_, { session, terminal }) {
        terminal.notify('Summarising …')
        await session.compact()
        terminal.notify('Summarised')
      },
    },
  ],
  [
    '/sessions',
    {
      usage: '/sessions [ID]',
      description: 'list the conversations, or go to one',
      async run(rest, { session, terminal }) {
        if (rest !== '') return await session.attachTo(rest)
        const items = await session.listOthers()
        const lines = items.map(
          ({ id, status, updatedAt, title }) =>
            `  ${id.slice(0, 8)}  ${relativeTime(updatedAt).padEnd(10)}  ${status.replaceAll('_', ' ').padEnd(10)}  ${sanitizeLine(title)}\n`,
        )
        terminal.print(lines.join('') || 'There is no other conversation.\n')
      },
    },
  ],
  [
    '/title',
    {
      usage: '/title TEXT',
      description: 'name the conversation',
      async run(rest, { session, terminal }) {
        await session.rename(rest)
        terminal.notify('Renamed')
      },
    },
  ],
  [
    '/exit',
    {
      usage: '/exit',
      description: 'leave; a run continues',
      run: async (_, { terminal }) => terminal.close(),
    },
  ],
])

/** The commands that begin with what is typed. */
export function suggestCommands(text: string): string[] {
  if (/\s/.test(text)) return []
  return [...commands]
    .filter(([name]) => name.startsWith(text))
    .map(([name, { description }]) => `${name}  ${description}`)
}

/** Runs a line that begins with a slash. */
export async function runSlashCommand(line: string, target: CommandTarget): Promise<void> {
  const [name = '', ...rest] = line.split(/\s+/)
  const command = commands.get(name)
  // The server knows the prompts of MCP servers, and says which there are.
  if (command === undefined && name.includes(':')) await target.session.send(line)
  else if (command === undefined)
    target.terminal.notify(`There is no ${sanitizeLine(name)}; /help lists the commands`)
  else await command.run(rest.join(' '), target)
}
