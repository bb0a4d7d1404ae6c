import { randomUUID } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import {
  malformedBody,
  type OpenApiDocument,
  type Operation,
  oddText,
  queryArbitrary as parametersArbitrary,
  pathSegment,
  percentEncode,
} from '../support/openapi-requests.ts'
import { schemaValues } from '../support/schema-arbitraries.ts'

/**
 * Random requests for the agent server that do no harm: they write only inside `place`, run nothing, and
 * contact no other host.
 */

/** A folder of this run; its creator removes it. */
export const fuzzDirectory = join(tmpdir(), `slipway-fuzz-${randomUUID()}`)

/** Paths that stay below the folder; half of the others become absolute too, so that some exist. */
function confineToFuzzDirectory(path: string): string {
  const relativePath = path.replaceAll('..', '').replace(/^\/+/, '')
  return path.startsWith('/') || path.length % 2 === 0 ? `${fuzzDirectory}/${relativePath}` : path
}

const pathArbitrary = fc.oneof(
  oddText.map(confineToFuzzDirectory),
  fc.constantFrom(
    fuzzDirectory,
    `${fuzzDirectory}/repository`,
    `${fuzzDirectory}/repository/tracked.txt`,
    'workspace/project',
  ),
)
/** A port without a listener. */
const unreachableUrl = fc.constantFrom(
  'http://127.0.0.1:9/v1',
  'file:///nothing',
  'x',
  '',
  'http://[',
  '/api/settings/secrets/A',
)
const llm = fc.oneof(
  fc.jsonValue(),
  fc.constant({ model: 'scripted/fuzz', script: [{ text: 'Yes.' }] }),
  fc.record({
    model: fc.string(),
    base_url: unreachableUrl,
    api_key: fc.string(),
    num_retries: fc.constant(0),
    timeout: fc.constant(1),
  }),
)
// Commands are executed, so none is random.
const command = fc.constantFrom(
  'true',
  'echo x',
  'echo x >&2; exit 3',
  'kill -9 $$',
  '/nothing/there',
  '\u0000',
  '',
)
const source = fc.oneof(
  pathArbitrary,
  fc.constantFrom(`${fuzzDirectory}/repository/fuzz-skill`, `${fuzzDirectory}/repository/fuzz-plugin`),
)
const alwaysFalse = fc.constant(false)

/** Members that name a path, a command or a remote address. */
const memberArbitraries: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  path: pathArbitrary,
  project_dir: fc.oneof(pathArbitrary, fc.constant(null)),
  working_dir: pathArbitrary.map((path) => (path.startsWith('/') ? path : `${fuzzDirectory}/${path}`)),
  cwd: fc.constantFrom(fuzzDirectory, '/nothing-there', '', '\u0000', '\ud800', null),
  timeout: fc.constantFrom(1, 5, 0, -1, 1e15, 'x', null),
  command,
  acp_command: fc.array(command),
  source,
  repository: source,
  repo_path: oddText,
  registered_marketplaces: fc.array(fc.record({ name: fc.string(), source }), { maxLength: 2 }),
  org_configs: fc.constantFrom([], null),
  org_config: fc.constantFrom(null),
  load_public: alwaysFalse,
  load_org: alwaysFalse,
  load_public_skills: alwaysFalse,
  plugins: fc.array(fc.record({ source }), { maxLength: 2 }),
  plugin_ref: fc.oneof(oddText, fc.constantFrom('a@b', '@', 'a@')),
  llm,
  llms: fc.array(llm),
  url: unreachableUrl,
  base_url: unreachableUrl,
  critic_server_url: unreachableUrl,
  headers: fc.dictionary(fc.string(), fc.string(), { maxKeys: 2 }),
  model: fc.oneof(fc.string(), fc.constantFrom('scripted/fuzz', 'openhands_known')),
  agent: fc.oneof(
    fc.jsonValue(),
    llm.map((one) => ({ llm: one })),
  ),
  max_iterations: fc.oneof(fc.integer({ min: -1, max: 3 }), fc.jsonValue()),
  new_name: fc.oneof(fc.string(), fc.constantFrom('other', 'other-2')),
  name: fc.oneof(fc.string(), fc.constantFrom('known', 'KNOWN')),
}

/** Bodies of the operation's schema, bodies of other schemas, and texts that are not JSON. */
export function bodyArbitrary(
  document: OpenApiDocument,
  operation: Operation,
): fc.Arbitrary<string | Buffer | undefined> {
  const schema = operation.requestBody?.content['application/json']?.schema
  if (schema === undefined) return malformedBody
  const described = schemaValues(document, schema, memberArbitraries).map((value) => JSON.stringify(value))
  return fc.oneof({ weight: 4, arbitrary: described }, { weight: 2, arbitrary: malformedBody })
}

/** A path with its parameters filled with `known` values of the name and with others. */
export function filledPath(path: string, known: (name: string) => readonly string[]): fc.Arbitrary<string> {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map((m) => String(m[1]))
  const valueFor = (name: string): fc.Arbitrary<string> => {
    const knownValue = fc.nat(99).map((n) => {
      const all = known(name)
      return pathSegment(all[n % all.length] ?? 'unknown')
    })
    const other = fc.oneof(fc.constantFrom('search', 'count'), fc.uuid(), oddText.map(pathSegment))
    if (name !== 'path')
      return fc.oneof({ weight: 2, arbitrary: knownValue }, { weight: 1, arbitrary: other })
    return fc.oneof(
      pathArbitrary.map((text) => pathSegment(text)),
      // Raw slashes, as some clients send them, also two at the beginning.
      pathArbitrary.map((text) => text.split('/').map(percentEncode).join('/')),
    )
  }
  return fc
    .tuple(...names.map(valueFor))
    .map((values) => names.reduce((text, name, i) => text.replace(`{${name}}`, () => values[i] ?? ''), path))
}

/** A query of the operation's parameters; paths stay in `place`. */
export function queryArbitrary(operation: Operation): fc.Arbitrary<string> {
  return parametersArbitrary(operation.parameters ?? [], (name, value) =>
    name === 'path' ? confineToFuzzDirectory(value) : value,
  )
}

const headerText = oddText.map((text) => text.replaceAll(/[^\t -~]/g, '').trim())

/** Headers that some operations read. */
export const headers: fc.Arbitrary<Record<string, string>> = fc
  .record(
    {
      'x-expose-secrets': fc.oneof(fc.constantFrom('encrypted', 'plaintext', 'true'), headerText),
      'x-slipway-wire': fc.oneof(fc.constantFrom('seed', 'current'), headerText),
      'x-openhands-serverconversation-id': fc.oneof(fc.uuid(), headerText),
      'idempotency-key': headerText,
      'last-event-id': headerText,
      range: fc.oneof(fc.constantFrom('bytes=0-1', 'bytes=-1', 'bytes=9-1'), headerText),
      'if-none-match': headerText,
      cookie: headerText.map((text) => `oh_workspace_session_key=${text}`),
      traceparent: headerText,
      accept: fc.constantFrom('text/html', 'application/json', 'text/event-stream', 'x'),
    },
    { requiredKeys: [] },
  )
  .map((drawn) => Object.fromEntries(Object.entries(drawn).filter(([, value]) => value !== undefined)))
