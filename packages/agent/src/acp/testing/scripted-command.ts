import { fileURLToPath } from 'node:url'
import type { AgentScript } from './scripted-agent.ts'

const program = fileURLToPath(new URL('./scripted-agent.ts', import.meta.url))

/** The command of an external agent that plays a script. */
export function scriptedCommand(script: AgentScript): [string, ...string[]] {
  return [process.execPath, program, JSON.stringify(script)]
}
