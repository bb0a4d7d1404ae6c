import { resolve } from 'node:path'
import { serve } from '@slipway/agent-server'
import type { Config } from '../context/config.ts'
import { paint } from '../output/terminal.ts'

/** Starts the agent server; resolves when the signal has stopped it. */
export async function serveCommand(options: {
  readonly host: string
  readonly port: number
  readonly socket?: string
  readonly data: string
  readonly web?: string
  readonly env: Config['env']
  readonly isJson: boolean
  readonly signal: AbortSignal
}): Promise<void> {
  const { isJson, ...server } = options
  const hasWeb = (options.web ?? options.env.SLIPWAY_WEB) !== undefined
  const ready = (url: string) => {
    const lines = [
      `Slipway is ready: ${paint('bold', url)}`,
      ...(hasWeb && options.socket === undefined ? [`  web       ${url}/`] : []),
      ...(options.socket === undefined ? [`  API page  ${url}/docs`] : []),
      `  logs in   ${resolve(options.data)}`,
      'Ctrl-C stops it.',
    ]
    process.stdout.write(isJson ? `${JSON.stringify({ url })}\n` : `${lines.join('\n')}\n`)
  }
  await serve({ ...server, ready })
}
