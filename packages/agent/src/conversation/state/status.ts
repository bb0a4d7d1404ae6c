import { type ExecutionStatus, Problem } from '@slipway/protocol'

export type Command = 'run' | 'send' | 'accept' | 'reject' | 'pause' | 'interrupt' | 'navigate'

/**
 * The status after a command, `same` or `refused` (409). The loop itself leads from `running` to `finished`,
 * `idle` (nothing to answer), `waiting_for_confirmation`, `stuck` or `error`, and after a restart to
 * `paused`.
 */
export const transitions: {
  readonly [S in ExecutionStatus]: Readonly<Record<Command, ExecutionStatus | 'same' | 'refused'>>
} = {
  idle: row('running', 'same', 'same', 'same', 'paused', 'paused', 'same'),
  running: row('refused', 'same', 'same', 'same', 'paused', 'paused', 'refused'),
  paused: row('running', 'same', 'same', 'same', 'same', 'same', 'idle'),
  waiting_for_confirmation: row('running', 'idle', 'running', 'idle', 'same', 'same', 'idle'),
  finished: row('same', 'idle', 'same', 'same', 'same', 'same', 'idle'),
  error: row('running', 'same', 'same', 'same', 'same', 'same', 'idle'),
  stuck: row('running', 'idle', 'same', 'same', 'same', 'same', 'idle'),
  deleting: row('refused', 'refused', 'refused', 'refused', 'refused', 'refused', 'refused'),
}

type Cell = ExecutionStatus | 'same' | 'refused'

function row(...cells: readonly [Cell, Cell, Cell, Cell, Cell, Cell, Cell]) {
  const [run, send, accept, reject, pause, interrupt, navigate] = cells
  return { run, send, accept, reject, pause, interrupt, navigate }
}

/** The status after a command; undefined when it stays. A Problem `conflict` when the command is refused. */
export function transition(status: ExecutionStatus, verb: Command): ExecutionStatus | undefined {
  const cell = transitions[status][verb]
  if (cell === 'refused') {
    throw new Problem(
      'conflict',
      status === 'running'
        ? 'Conversation already running. Wait for completion or pause first.'
        : 'The conversation is being deleted.',
    )
  }
  return cell === 'same' ? undefined : cell
}
