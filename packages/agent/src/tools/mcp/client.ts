import { basename } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Client, VersionNegotiationOptions } from '@modelcontextprotocol/client'
import ownPackage from '../../../package.json' with { type: 'json' }
import type { QuestionAnswer } from '../core/server-question.ts'

export type AnswerQuestion = (
  params: Readonly<Record<string, unknown>>,
  signal: AbortSignal,
) => Promise<QuestionAnswer>

interface CreateClientOptions {
  /** The directory in which a program on this machine should work. */
  readonly root: string | undefined
  /** Answers `elicitation/create`; undefined where no one can. */
  readonly answerQuestion: AnswerQuestion | undefined
  readonly versionNegotiation: VersionNegotiationOptions
}

/** A client that is not connected yet, with all that it answers to servers. */
export async function createClient(options: CreateClientOptions): Promise<Client> {
  const { root, answerQuestion, versionNegotiation } = options
  const { Client } = await import('@modelcontextprotocol/client')
  const capabilities = {
    ...(root === undefined ? {} : { roots: {} }),
    ...(answerQuestion === undefined ? {} : { elicitation: { form: {}, url: {} } }),
  }
  const client = new Client(
    { name: 'slipway', version: ownPackage.version },
    { capabilities, versionNegotiation },
  )
  if (root !== undefined) {
    const roots = [{ uri: pathToFileURL(root).href, name: basename(root) }]
    client.setRequestHandler('roots/list', () => ({ roots }))
  }
  if (answerQuestion !== undefined)
    client.setRequestHandler(
      'elicitation/create',
      async ({ params }, { mcpReq }) => await answerQuestion({ ...params }, mcpReq.signal),
    )
  // Errors outside of requests, such as an invalid line, are ignored.
  client.onerror = () => {}
  return client
}
