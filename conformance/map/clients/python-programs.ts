import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, vi } from 'vitest'
import type { MockProvider, ScriptedReply } from '../../support/mock-provider.ts'
import { findPython, type ProgramRequest, PythonPrograms } from '../../support/python.ts'
import type { MapServer } from '../map-server.ts'

export interface Play {
  readonly replies?: readonly ScriptedReply[]
  /** The reply to requests without tools. */
  readonly aside?: ScriptedReply
  readonly settings?: object
  /** Another server than that of the file. */
  readonly endpoint?: Pick<ProgramRequest, 'url' | 'key'>
  readonly answer?: (question: string) => Promise<unknown>
}

/** Runs programs of `conformance/clients/python`; without the SDK the cases are skipped. */
export function openPythonPrograms(server: MapServer) {
  const python = findPython()
  // The SDK waits five seconds for each socket that it closes: most of a program is waiting.
  vi.setConfig({ maxConcurrency: 8 })
  let root = ''
  let programs: PythonPrograms | undefined
  beforeAll(async () => {
    root = await realpath(await mkdtemp(join(tmpdir(), 'slipway-map-python-')))
    if (python !== undefined) programs = await PythonPrograms.open(python, root)
  }, 300_000)
  afterAll(async () => {
    await programs?.[Symbol.asyncDispose]()
    await rm(root, { recursive: true, force: true })
  })
  return {
    needs: { isUnavailable: python === undefined, isConcurrent: true, timeout: 300_000 },
    /** A directory for files of the cases. */
    root: () => root,
    /** Runs a program with a model that plays replies, in a new directory. */
    async run<T = unknown>(program: string, play: Play | ((directory: string) => Play) = {}) {
      if (programs === undefined) throw new Error('There is no Python SDK')
      const directory = await mkdtemp(join(root, 'workspace-'))
      const {
        replies = [],
        aside,
        settings,
        endpoint,
        answer,
      } = typeof play === 'function' ? play(directory) : play
      const provider: MockProvider = await server.openModel(...replies)
      if (aside !== undefined) provider.replyWithoutTools = aside
      const scratch = await mkdtemp(join(root, 'scratch-'))
      const { url, key } = endpoint ?? { url: server.url, key: server.key ?? '' }
      const request = { url, key, model_url: provider.url, directory, settings: { scratch, ...settings } }
      return { result: await programs.run<T>(program, request, answer), directory, provider }
    },
  }
}
