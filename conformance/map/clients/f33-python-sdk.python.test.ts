import { join } from 'node:path'
import { expect } from 'vitest'
import { errorReply } from '../../support/mock-provider.ts'
import { openReverseProxy } from '../../support/reverse-proxy.ts'
import { filesWith } from '../answers.ts'
import { endFamily, mapCase, notApplicable } from '../frame.ts'
import { commandReply, finishReply, type Json, OwnMapServer, openMapServer } from '../map-server.ts'
import { openPythonPlays, RestartableServer } from './python-plays.ts'
import { definePythonSdkTests } from './python-sdk.ts'
import { definePythonCasesElsewhere } from './python-sdk-elsewhere.ts'

/** Programs of the published Python SDK (`conformance/clients/python`), unmodified. */
const noPython = 'the server runs no Python: other tools come from MCP servers and plugins'
const server = openMapServer()
const plays = openPythonPlays(server)
const { needs, root, detail, converse, streamed, forked, paused, clientTools, reconnected } = plays
const files = async () => (await plays.files()).result

/** How many conversations work in a directory. */
async function countIn(directory: string): Promise<number> {
  const query = { limit: '100' }
  const { items } = await server.requestOrThrow<{ items: { workspace: Json }[] }>(
    'GET',
    '/api/conversations/search',
    { query },
  )
  return items.filter(({ workspace }) => workspace.working_dir === directory).length
}

definePythonSdkTests(plays)
definePythonCasesElsewhere(server, plays)

mapCase(
  'F33.workspace-exec',
  'a command with its output and time limit',
  async () => {
    expect(await files()).toMatchObject({
      failed: [3, 'out\n', 'err\n'],
      lines: 20_000,
      late: [-1, true],
      alive: true,
    })
  },
  needs,
)
mapCase(
  'F33.workspace-bad-key',
  'a wrong key is an error and leaves nothing',
  async () => {
    expect((await detail('bad_key')).result).toEqual({
      command: [-1, true],
      upload: false,
      refused: 401,
      traces: [],
      conversations: [],
    })
  },
  needs,
)
mapCase(
  'F33.workspace-background',
  'a command in the background is read and stopped',
  async () => {
    // The program reads the last output of a command that it has stopped.
    expect(await files()).toMatchObject({ alive: true })
  },
  needs,
)
mapCase(
  'F33.workspace-files',
  'files are the same bytes both ways',
  async () => {
    // The program compares the bytes of an upload and its download.
    expect(await files()).toMatchObject({ missing: false })
  },
  needs,
)
mapCase(
  'F33.workspace-git',
  'changes and differences of a repository',
  async () => {
    expect(await files()).toMatchObject({
      changes: [
        ['ADDED', 'new.txt'],
        ['UPDATED', 'kept.txt'],
      ],
      diff: ['one', 'two'],
    })
  },
  needs,
)
mapCase(
  'F33.workspace-settings',
  'models, names of secrets and MCP servers',
  async () => {
    const { result, provider } = await plays.savedSettings()
    expect(result).toMatchObject({ key: 'sk-settings-canary', temperature: 0.5, mcp: {} })
    expect(provider.requests.at(0)?.headers.authorization).toBe('Bearer sk-settings-canary')
  },
  needs,
)
mapCase(
  'F33.async-workspace',
  'the same without blocking',
  async () => {
    expect((await detail('without_blocking')).result).toEqual({
      outputs: ['one', 'two'],
      files: [true, true, true],
      changes: ['up.bin'],
      hasVersion: true,
    })
  },
  needs,
)
mapCase(
  'F33.workspace-runtime-scope',
  'a workspace that belongs to a conversation',
  async () => {
    const { result, directory } = await detail('scoped')
    expect(result).toEqual({ pwd: directory, outside: -1, files: [true, false] })
  },
  needs,
)
mapCase(
  'F33.conversation-create',
  'an agent object makes a conversation',
  async () => {
    expect(await converse()).toMatchObject({ tags: { made: 'python' }, savedTitle: 'A title of Python' })
  },
  needs,
)
mapCase(
  'F33.conversation-create-request',
  'a request makes a conversation once',
  async () => {
    expect((await detail('request_once', { replies: [finishReply()] })).result).toEqual({
      ids: [true, true],
      stored: 1,
      tags: { made: 'once' },
    })
  },
  needs,
)
mapCase(
  'F33.conversation-create-profile',
  'an agent profile makes a conversation',
  async () => {
    const { result, provider } = await detail('of_a_profile', { replies: [finishReply()] })
    expect(result).toEqual({ model: 'openai/gpt-4o', launched: true })
    expect(provider.requests.at(0)?.headers.authorization).toBe('Bearer sk-profile')
  },
  needs,
)
mapCase(
  'F33.conversation-run',
  'a blocking run returns at the end',
  async () => {
    expect(await streamed()).toMatchObject({ status: 'finished', byTheSocket: true })
  },
  needs,
)
mapCase(
  'F33.conversation-callbacks',
  'callbacks see the events that are stored',
  async () => {
    const { received } = await converse()
    expect(received).toEqual(
      expect.arrayContaining(['ActionEvent', 'HookExecutionEvent', 'MessageEvent', 'ObservationEvent']),
    )
  },
  needs,
)
mapCase(
  'F33.conversation-stats',
  'numbers of the server',
  async () => {
    expect((await converse()).tokens).toBeGreaterThan(0)
  },
  needs,
)
mapCase(
  'F33.conversation-stop-hook',
  'a hook refuses the first stop',
  async () => {
    expect(await converse()).toMatchObject({ blocked: [true, false], status: 'finished' })
  },
  needs,
)
mapCase(
  'F33.client-tools',
  'calls of tools of the client arrive with their types',
  async () => {
    expect(await clientTools()).toMatchObject({ shown: ['Welcome'] })
  },
  needs,
)
mapCase(
  'F33.conversation-streaming',
  'deltas arrive and are not stored',
  async () => {
    expect(await streamed()).toMatchObject({ text: 'One reply in two pieces.', stored: 0 })
  },
  needs,
)
mapCase(
  'F33.conversation-token-callbacks',
  'callbacks of tokens',
  async () => {
    expect((await streamed()).pieces).toBeGreaterThan(1)
  },
  needs,
)
mapCase(
  'F33.conversation-streaming-state',
  'deltas are not among the events',
  async () => {
    expect(await streamed()).toMatchObject({ kinds: expect.not.arrayContaining(['StreamingDeltaEvent']) })
  },
  needs,
)
mapCase(
  'F33.completion-logs',
  'one log of each call of the model',
  async () => {
    const replies = [commandReply('echo one'), finishReply()]
    const { result, provider } = await detail('logs', { replies })
    // Calls beside the run, for a title, may be logged, too.
    const { length } = provider.requests.filter(({ body }) => body.tools !== undefined)
    expect(result).toBeGreaterThanOrEqual(length)
    expect(result).toBeLessThanOrEqual(provider.requests.length)
  },
  needs,
)
mapCase(
  'F33.conversation-attach',
  'a second program has the same history',
  async () => {
    expect(await clientTools()).toMatchObject({ joined: true, again: true, named: true })
  },
  needs,
)
mapCase(
  'F33.conversation-attach-large',
  'a history of several pages',
  async () => {
    expect((await detail('long_history')).result).toBe(true)
  },
  needs,
)
mapCase(
  'F33.conversation-state-reread',
  'a second read is as the first',
  async () => {
    const { result } = await detail('read_twice', { replies: [finishReply()] })
    expect(result).toEqual({ same: true, typed: true, tool: 'terminal' })
  },
  needs,
)
mapCase(
  'F33.conversation-ask-title',
  'a side question, and titles',
  async () => {
    expect(await converse()).toMatchObject({
      answer: 'An aside.',
      title: 'Words of a model',
      savedTitle: 'A title of Python',
    })
  },
  needs,
)
mapCase(
  'F33.conversation-fork',
  'a fork with title and tags',
  async () => {
    expect(await forked()).toMatchObject({
      ...{ isNew: true, copied: true, grown: true, sourceUnchanged: true, title: 'A fork' },
      tags: { purpose: 'a/b' },
    })
  },
  { ...needs, faultThere: 'a fork has no key' },
)
mapCase(
  'F33.conversation-fork-branch',
  'a fork at an event, and moves of its head',
  async () => {
    expect(await forked()).toMatchObject({ partKinds: ['SystemPromptEvent', 'MessageEvent'], head: true })
  },
  { ...needs, faultThere: 'a fork has no key' },
)
mapCase(
  'F33.conversation-plugins-tag',
  'credentials of plugin addresses are masked',
  async () => {
    await using own = await OwnMapServer.open({ key: 'map-key-1' })
    const { result } = await detail<{ id: string; isShown: boolean }>('plugin_tag', {
      settings: { token: 'map-plugin-token-1' },
      endpoint: { url: own.url, key: 'map-key-1' },
    })
    expect(result.isShown).toBe(false)
    expect(await own.getConversation(result.id)).toMatchObject({
      execution_status: 'idle',
      tags: { made: 'plugins', plugins: 'https://****@example.invalid/map/plugin.git' },
    })
    expect(await filesWith(own, 'example.invalid/map/plugin.git')).not.toEqual([])
    expect(await filesWith(own, 'map-plugin-token-1')).toEqual([])
  },
  { ...needs, hasOwnServer: true },
)
mapCase(
  'F33.conversation-confirmation',
  'a run waits, and a call is rejected',
  async () => {
    const result = await plays.confirmed()
    expect(result).toMatchObject({
      waiting: ['waiting_for_confirmation', 'waiting_for_confirmation'],
      rejected: ['Not that one.'],
    })
    // A server may make the directory a repository.
    const files = (names: readonly string[]) => names.filter((name) => name !== '.git')
    expect([files(result.before), files(result.after)]).toEqual([[], ['second.txt']])
  },
  needs,
)
mapCase(
  'F33.conversation-pause',
  'a pause during a run, and the run continues',
  async () => {
    const found = await paused()
    expect(found.paused).toBe('paused')
    expect(found.kinds).toContain('PauseEvent')
  },
  needs,
)
mapCase(
  'F33.conversation-interrupt',
  'an interrupt during a call',
  async () => {
    expect((await paused()).kinds).toContain('InterruptEvent')
  },
  needs,
)
mapCase(
  'F33.conversation-run-timeout',
  'a run that takes too long continues at the server',
  async () => {
    const { result } = await detail('late', { replies: [commandReply('sleep 6'), finishReply()] })
    expect(result).toEqual({ error: 'TimeoutError', after: 'running' })
  },
  needs,
)
mapCase(
  'F33.conversation-run-join-long-tool',
  'a second run joins a long call',
  async () => {
    const replies = [commandReply('sleep 4; echo slept'), finishReply()]
    const { result } = await detail<{ calls: number; observations: string[] }>('joined_run', { replies })
    expect(result.calls).toBe(2)
    expect(result.observations.at(0)).toContain('slept')
  },
  needs,
)
mapCase(
  'F33.conversation-stuck',
  'a loop of the agent is an error',
  async () => {
    const { result } = await detail('failed_run', { replies: [commandReply('echo the same')] })
    expect(result).toMatchObject({ error: { text: expect.stringContaining('stuck') }, status: 'stuck' })
  },
  needs,
)
mapCase(
  'F33.conversation-secrets',
  'values and look-ups reach commands, masked',
  async () => {
    const result = await plays.secretValues()
    expect(result).toMatchObject({ leaks: [] })
    expect(result.observations.join('\n')).toContain('STORED_TOKEN has 18 characters')
  },
  needs,
)
mapCase(
  'F33.conversation-run-error',
  'a refused key is an error with its code',
  async () => {
    const refused = errorReply(401, {
      error: { message: 'Incorrect API key provided', type: 'invalid_request_error' },
    })
    const { result } = await detail('failed_run', { replies: [refused] })
    expect(result).toMatchObject({ error: { code: 'LLMAuthenticationError' }, status: 'error' })
  },
  needs,
)
mapCase(
  'F33.ws-unavailable',
  'without sockets the program fails, or continues over REST',
  async () => {
    await using proxy = await openReverseProxy('', { strips: true, refusesSockets: true })
    proxy.target = server.url
    const { result, directory } = await detail('without_sockets', {
      replies: [commandReply('echo over-rest'), finishReply()],
      endpoint: { url: proxy.url, key: server.key ?? '' },
    })
    expect(result).toMatchObject({
      ...{ error: 'WebSocketConnectionError', status: 'finished', sameEvents: true },
      observations: [expect.stringContaining('over-rest'), expect.anything()],
    })
    expect(await countIn(directory)).toBe(2)
  },
  needs,
)
mapCase(
  'F33.conversation-reconnect',
  'a program survives a restart of the server',
  async () => {
    expect(await reconnected()).toMatchObject({ status: 'finished' })
  },
  { ...needs, hasOwnServer: true },
)
mapCase(
  'F33.conversation-reconnect-callbacks',
  'events during an outage reach the callbacks',
  async () => {
    // The program waits until its callbacks have seen every stored event.
    expect(await reconnected()).toMatchObject({ twice: 0 })
  },
  { ...needs, hasOwnServer: true },
)
mapCase(
  'F33.conversation-restart',
  'a new program continues after a restart',
  async () => {
    await using own = await RestartableServer.open(join(root(), 'restarted'), root())
    const { result } = await detail('restarted', {
      replies: [commandReply('echo one'), finishReply(), commandReply('echo two'), finishReply()],
      endpoint: own.endpoint,
      async answer() {
        await own.stop()
        await own.start()
      },
    })
    expect(result).toEqual({ kept: true, grown: true })
  },
  { ...needs, hasOwnServer: true },
)
mapCase(
  'F33.custom-tool-module-unimportable',
  'a module that cannot be had is an error of the caller',
  async () => {
    const { result, directory } = await detail<{ refused: number; detail: string; others: string }>(
      'unknown_module',
      { replies: [finishReply()] },
    )
    // A tool of the program that its agent does not use is no obstacle.
    expect(result).toMatchObject({ refused: 422, others: 'finished' })
    expect(result.detail).toContain('map_ghost')
    expect(await countIn(directory)).toBe(1)
  },
  needs,
)
mapCase(
  'F33.conversation-close',
  'closing keeps or deletes the conversation',
  async () => {
    expect((await detail('closed')).result).toEqual([200, 404])
  },
  needs,
)
notApplicable(
  'F33.workspace-runtime-lifecycle',
  'keys and containers of a conversation',
  'an agent server runs in its sandbox; sandboxes belong to the sandbox server',
)
notApplicable('F33.custom-tool-module', 'a tool of a Python module', noPython)

endFamily('F33', 43)
