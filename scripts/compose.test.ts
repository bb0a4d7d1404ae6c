import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { parse } from 'yaml'

/** The parts of the Compose specification that the file uses. */
interface Service {
  readonly image: string
  readonly command?: readonly string[]
  readonly environment: Readonly<Record<string, string | null>>
  readonly volumes: readonly string[]
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>
  readonly healthcheck?: { readonly test: readonly string[] }
  readonly network_mode?: string
  readonly ports?: readonly string[]
  readonly read_only?: boolean
}

const read = (name: string) => readFile(new URL(`../deploy/${name}`, import.meta.url), 'utf8')
const file: { services: Record<string, Service>; volumes: Record<string, unknown> } = parse(
  await read('compose.yaml'),
  { merge: true },
)
const {
  postgresql,
  slipway,
  'slipway-second': second,
} = file.services as {
  [name in 'postgresql' | 'slipway' | 'slipway-second']: Service
}

test('each variable that has to be set is in the example, and no other', async () => {
  const required = [...(await read('compose.yaml')).matchAll(/\$\{([A-Z_]+):\?/g)].map(([, name]) => name)
  const example = [...(await read('compose.env.example')).matchAll(/^([A-Z_]+)=/gm)].map(([, name]) => name)
  expect(new Set(required)).toEqual(new Set(example))
})

test('the servers have settings that exist, and what sharing a database takes', async () => {
  const settings = await read('../docs/reference/settings.md')
  for (const server of [slipway, second]) {
    for (const name of Object.keys(server.environment)) expect(settings).toContain(`| \`${name}\` |`)
    expect(server.depends_on).toEqual({ postgresql: { condition: 'service_healthy' } })
    expect(server.network_mode).toBe('host')
    expect(server.read_only).toBe(true)
  }
  const { command: first = [], ...common } = slipway
  const { command: other = [], healthcheck, ...commonOfSecond } = second
  expect({ ...commonOfSecond, profiles: undefined }).toEqual({ ...common, profiles: undefined })
  expect(other).toEqual(first.map((part) => (part === '3000' ? '3001' : part)))
  expect(healthcheck?.test.join(' ')).toContain(':3001/alive')
})

test('PostgreSQL is reached from this host alone, keeps its data in a volume, and says when it is ready', () => {
  expect(postgresql.ports).toEqual(['127.0.0.1:$' + '{POSTGRES_PORT:-5432}:5432'])
  expect(slipway.environment.SLIPWAY_DATABASE_URL).toContain('@127.0.0.1:$' + '{POSTGRES_PORT:-5432}/slipway')
  expect(postgresql.environment.PGDATA).toMatch(/^\/var\/lib\/postgresql\/data\//)
  expect(postgresql.healthcheck?.test).toContain('pg_isready')
  const named = [postgresql, slipway].flatMap(({ volumes }) =>
    volumes.map((one) => String(one.split(':')[0])),
  )
  expect(named.filter((name) => !name.startsWith('/')).toSorted()).toEqual(
    Object.keys(file.volumes).toSorted(),
  )
})
