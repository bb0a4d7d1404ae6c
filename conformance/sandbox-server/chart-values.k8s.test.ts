import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { isRecord } from '@slipway/shared/json'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { skipText } from '../../packages/sandbox-server/src/backends/kubernetes/testing/test-cluster.ts'

/**
 * The chart as operators set it: linted and rendered by the real Helm, and each object compared by kubeconform
 * with the OpenAPI document of the Kubernetes that the cluster of the tests is built from. The ServiceMonitor
 * is of another project, and not compared.
 */

const chart = resolve(import.meta.dirname, '../../deploy/helm/slipway')
const { SLIPWAY_TEST_HELM: helm, SLIPWAY_TEST_KUBECONFORM: kubeconform } = process.env
const { SLIPWAY_TEST_KUBERNETES_OPENAPI: openapi } = process.env
const run = promisify(execFile)
const organization = '5f0c1c2e-0d3a-4a58-8a57-0f6d4c7f3b11'

const valueSets: Readonly<Record<string, object>> = {
  'nothing set': {},
  limits: {
    settings: {
      ...{ SLIPWAY_DAILY_CONVERSATION_LIMIT: 1_000_000, SLIPWAY_MAX_SANDBOXES: 10 },
      ...{ SLIPWAY_EXEMPT_ORGANIZATIONS: `${organization}, ${organization}`, SLIPWAY_SANDBOX_CPUS: 1.5 },
    },
  },
  'limits as texts': {
    settings: { SLIPWAY_DAILY_CONVERSATION_LIMIT: '-1', SLIPWAY_MAX_SANDBOXES: '0', SLIPWAY_CONSOLE: 'off' },
  },
  'replicas on a database': { replicas: 3, database: { url: 'postgres://u:p@db.example/slipway' } },
  'secrets that exist': { replicas: 2, existingSecret: 'keys', database: { existingSecret: 'db' } },
  'a PostgreSQL for trials': { postgresql: { enabled: true, storage: '1.5Gi' } },
  'an Ingress with TLS': {
    ingress: {
      ...{ enabled: true, className: 'nginx', host: 'a.example', tlsSecret: 't' },
      annotations: { 'nginx.ingress.kubernetes.io/proxy-body-size': '100m' },
    },
  },
  'an Ingress without TLS': { ingress: { enabled: true, host: 'a.example' } },
  'a place in the cluster': {
    nodeSelector: { pool: 'control' },
    tolerations: [{ key: 'control', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 30 }],
    imagePullSecrets: [{ name: 'registry' }],
    resources: { requests: { cpu: 0.5, memory: '1Gi' }, limits: { cpu: 2, memory: '2Gi' } },
  },
  'a volume of a class, and no policies': {
    persistence: { size: '100Gi', storageClass: 'fast' },
    ...{ networkPolicy: { enabled: false }, podDisruptionBudget: { enabled: false } },
  },
  'a port of the nodes': {
    image: { repository: 'registry.example/slipway', tag: '0.2.0', pullPolicy: 'Always' },
    service: { type: 'NodePort', port: 80 },
    serviceMonitor: { enabled: true, interval: '1m30s', labels: { release: 'prometheus' } },
  },
  'specs of sandboxes': {
    global: { imageRegistry: 'registry.example' },
    sandboxSpecs: [
      {
        ...{ id: 'gpu', image: 'registry.example/agent:1', warm: 2, idle_seconds: 0 },
        resources: { memory_bytes: 4_294_967_296, cpus: 1.5 },
        kubernetes: { runtime_class: 'gvisor', node_selector: { pool: 'agents' } },
      },
    ],
  },
}

/** What is refused, by what the refusal names. */
const refusedSets: readonly (readonly [object, RegExp])[] = [
  [{ settings: { SLIPWAY_DAILY_CONVERSATION_LIMIT: 'lots' } }, /SLIPWAY_DAILY_CONVERSATION_LIMIT/],
  [{ settings: { SLIPWAY_DAILY_CONVERSATION_LIMIT: -2 } }, /SLIPWAY_DAILY_CONVERSATION_LIMIT/],
  [{ settings: { SLIPWAY_DAILY_CONVERSATION_LIMIT: 1.5 } }, /SLIPWAY_DAILY_CONVERSATION_LIMIT/],
  [{ settings: { SLIPWAY_MAX_SANDBOXES: -1 } }, /SLIPWAY_MAX_SANDBOXES/],
  [{ settings: { SLIPWAY_EXEMPT_ORGANIZATIONS: 'lots' } }, /SLIPWAY_EXEMPT_ORGANIZATIONS/],
  [{ settings: { SLIPWAY_NO_SUCH: '1' } }, /SLIPWAY_NO_SUCH/],
  [{ setings: {} }, /setings/],
  [{ image: { tags: '1' } }, /tags/],
  [{ service: { port: 'lots' } }, /port/],
  [{ replicas: 1.5 }, /replicas/],
  [{ persistence: { size: 'lots' } }, /size/],
  [{ postgresql: { enable: true } }, /enable/],
  [{ sandboxSpecs: [{ id: 'a', privileged: true }] }, /privileged/],
  [{ replicas: 2 }, /need a database/],
  [{ settings: { SLIPWAY_BACKEND: 'qemu' } }, /SLIPWAY_BACKEND/],
  [{ database: { url: 'mysql://x' } }, /database/],
]

/** A file of JSON schemas for each kind, as kubeconform reads them; members that Kubernetes does not know are faults. */
async function writeSchemas(document: string, directory: string): Promise<void> {
  const { definitions } = JSON.parse(await readFile(document, 'utf8')) as {
    readonly definitions: Readonly<Record<string, Record<string, unknown>>>
  }
  const closed = Object.fromEntries(
    Object.entries(definitions).map(([name, each]) => [
      name,
      {
        ...fixTypes(each),
        ...(isRecord(each.properties) && { additionalProperties: false }),
        ...(name.endsWith('.Quantity') && { type: ['string', 'number'] }),
      },
    ]),
  )
  const kinds =
    /^(Secret|Service|ServiceAccount|ConfigMap|PersistentVolumeClaim|Deployment|StatefulSet|Role|RoleBinding|NetworkPolicy|Ingress|PodDisruptionBudget)$/
  for (const [name, { 'x-kubernetes-group-version-kind': versions }] of Object.entries(definitions)) {
    const [version] = (versions ?? []) as {
      readonly group: string
      readonly kind: string
      readonly version: string
    }[]
    if (version === undefined || !kinds.test(version.kind)) continue
    const group = version.group === '' ? '' : `-${version.group.split('.')[0]}`
    const file = `${version.kind}${group}-${version.version}.json`.toLowerCase()
    const schema = { $ref: `#/definitions/${name}`, definitions: closed }
    await writeFile(join(directory, file), JSON.stringify(schema))
  }
}

/** Swagger has no type for what is a number or a text. */
function fixTypes(schema: unknown): Record<string, unknown> {
  return JSON.parse(JSON.stringify(schema), (_, value) =>
    isRecord(value) && value.format === 'int-or-string' ? { type: ['integer', 'string'] } : value,
  )
}

if (!helm || !kubeconform || !openapi) test.skip(`values of the chart: ${skipText}`, () => {})
else defineTests(helm, kubeconform, openapi)

function defineTests(helmProgram: string, kubeconformProgram: string, document: string): void {
  let directory: string
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'slipway-chart-'))
    await writeSchemas(document, directory)
  })
  afterAll(() => rm(directory, { recursive: true, force: true }))

  /** Resolves with what Helm prints. */
  const callHelm = async (command: readonly string[], values: object): Promise<string> => {
    const file = join(directory, `${crypto.randomUUID()}.values.yaml`)
    await writeFile(file, JSON.stringify(values))
    const { stdout } = await run(helmProgram, [...command, '-f', file], { maxBuffer: 2 ** 24 })
    return stdout
  }
  const render = (values: object) => callHelm(['template', 'r', chart, '--kube-version', '1.34.0'], values)

  /** Throws with what kubeconform prints about objects that Kubernetes does not take. */
  const compare = async (objects: string): Promise<unknown> => {
    const location = join(directory, '{{.ResourceKind}}{{.KindSuffix}}.json')
    const options = ['-strict', '-summary', '-output', 'json', '-skip', 'ServiceMonitor']
    const running = run(kubeconformProgram, [...options, '-schema-location', location])
    running.child.stdin?.end(objects)
    const { stdout } = await running.catch((error: { stdout?: string }) => {
      throw new Error(error.stdout || String(error))
    })
    return JSON.parse(stdout).summary
  }

  test.each(Object.entries(valueSets))('Kubernetes takes the chart with %s', async (_, values) => {
    const linted = await callHelm(['lint', chart, '--strict'], values)
    expect(linted).toContain('0 chart(s) failed')
    const objects = await render(values)
    const count = objects.match(/^kind: /gm)?.length
    const skipped = objects.match(/^kind: ServiceMonitor$/gm)?.length ?? 0
    expect(await compare(objects)).toEqual({
      ...{ valid: Number(count) - skipped, invalid: 0, errors: 0, skipped },
    })
  })

  test('kubeconform finds a member that Kubernetes does not know, and one of the wrong type', async () => {
    const objects = await render({})
    for (const [found, wrong] of [
      ['serviceAccountName:', 'serviceAccountNam:'],
      ['replicas: 1', 'replicas: "1"'],
      ['containerPort: 3000', 'containerPort: http'],
    ] as const) {
      expect(objects).toContain(found)
      await expect(compare(objects.replace(found, wrong))).rejects.toThrow(/statusInvalid/)
    }
  })

  test.each(refusedSets)('Helm refuses %j', async (values, message) => {
    await expect(render(values)).rejects.toThrow(message)
  })

  test('values become settings and objects', async () => {
    const plain = await render({})
    expect(plain).toContain('type: Recreate')
    expect(plain).not.toMatch(/^kind: (Ingress|ServiceMonitor|StatefulSet|PodDisruptionBudget)$/m)
    const whole = await render(Object.assign({}, ...Object.values(valueSets), { database: {}, replicas: 3 }))
    for (const kind of ['Ingress', 'ServiceMonitor', 'StatefulSet'])
      expect(whole).toMatch(new RegExp(`^kind: ${kind}$`, 'm'))
    const limits = await render(valueSets.limits ?? {})
    expect(limits).toContain('SLIPWAY_DAILY_CONVERSATION_LIMIT: "1000000"')
    expect(limits).toContain('SLIPWAY_SANDBOX_CPUS: "1.5"')
    const replicated = await render(valueSets['replicas on a database'] ?? {})
    expect(replicated).toMatch(/^kind: PodDisruptionBudget$/m)
    expect(replicated).toContain('maxUnavailable: 0')
    expect(await render(valueSets['an Ingress with TLS'] ?? {})).toContain(
      'SLIPWAY_PUBLIC_URL: "https://a.example"',
    )
  })
}
