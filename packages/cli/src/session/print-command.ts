import { text } from 'node:stream/consumers'
import { Problem } from '@slipway/protocol/client'
import { runCommand } from '../commands/conversations/run.ts'
import type { CommandContext } from '../context/command-context.ts'
import type { SelectedModel } from '../conversation/agent-request.ts'
import { chooseModel } from './choose-model.ts'
import type { ConfirmationChoice } from './session.ts'

/** Runs one message and prints what happens, as a program does. Returns the exit code. */
export async function printCommand(
  context: CommandContext,
  message: string,
  options: {
    readonly workspace: string
    readonly model: SelectedModel | undefined
    readonly confirmation: ConfirmationChoice
  },
): Promise<number> {
  const input = message === '-' ? await text(process.stdin) : message
  if (input.trim() === '') throw new Problem('bad_request', 'There is no message: the input is empty.')
  const model = await chooseModel(context.client, options.model, context.signal)
  return await runCommand(context, input, {
    workspace: options.workspace,
    model,
    isYes: false,
    ...options.confirmation,
    outputSchema: undefined,
    limits: { cost: undefined, tokens: undefined, seconds: undefined },
  })
}
