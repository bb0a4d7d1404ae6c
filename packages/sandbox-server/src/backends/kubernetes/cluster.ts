import { PassThrough } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type {
  CoreV1Api,
  CoreV1Event,
  CustomObjectsApi,
  Informer,
  KubeConfig,
  KubernetesListObject,
  KubernetesObject,
  NetworkingV1Api,
  V1NetworkPolicy,
  V1PersistentVolumeClaim,
  V1Pod,
  V1Secret,
  V1Status,
} from '@kubernetes/client-node'
import type { LogFunction } from '@slipway/protocol'
import { isRecord, parseJson } from '@slipway/shared/json'
import { errorText } from '@slipway/shared/text'

type Library = typeof import('@kubernetes/client-node')

const requestTimeoutMs = 30_000
const watchRestartMs = 1_000
const execBufferBytes = 4 * 1024 * 1024
const maxErrorOutputBytes = 64 * 1024

export interface ClusterOptions {
  /** Path of a kubeconfig; undefined: `KUBECONFIG`, `~/.kube/config`, or the service account of this Pod. */
  readonly kubeconfig?: string | undefined
  /** Undefined: that of the kubeconfig's context or of this Pod, otherwise `default`. */
  readonly namespace?: string | undefined
}

/** A refusal of the API server that a repetition does not change; others reject. */
interface Refusal {
  readonly ok: false
  readonly status: number
  readonly reason: string
}

export type Response<T> = { readonly ok: true; readonly value: T } | Refusal

/** A kind of object that a custom resource definition adds. */
export interface CustomResource {
  readonly group: string
  readonly version: string
  readonly plural: string
}

interface ExecResult {
  readonly isOk: boolean
  /** -1 when it is not known. */
  readonly exitCode: number
  /** Its beginning, a character for each byte. */
  readonly errorOutput: string
}

/** The API of one namespace. Loads its library, which is large, on first use. */
export class Cluster {
  readonly namespace: string
  /** Whether this process runs in a Pod of the cluster and uses its service account. */
  readonly isInside: boolean
  /** The namespace of the Pod of this process. */
  readonly ownNamespace: string | undefined
  readonly #library: Library
  readonly #config: KubeConfig
  readonly #core: CoreV1Api
  readonly #networking: NetworkingV1Api
  readonly #custom: CustomObjectsApi

  private constructor(library: Library, { kubeconfig, namespace }: ClusterOptions) {
    this.#library = library
    this.#config = new library.KubeConfig()
    if (kubeconfig === undefined) this.#config.loadFromDefault()
    else this.#config.loadFromFile(kubeconfig)
    const context = this.#config.getContextObject(this.#config.getCurrentContext())
    const cluster = this.#config.getCurrentCluster()
    if (cluster === null) throw new Error('The kubeconfig names no cluster.')
    this.isInside = context?.user === 'inClusterUser'
    this.ownNamespace = this.isInside ? context?.namespace : undefined
    this.namespace = namespace ?? context?.namespace ?? 'default'
    const configuration = library.createConfiguration({
      baseServer: new library.ServerConfiguration(cluster.server, {}),
      authMethods: { default: this.#config },
      promiseMiddleware: [
        {
          pre: async (request) => {
            request.setSignal(AbortSignal.timeout(requestTimeoutMs))
            return request
          },
          post: async (response) => response,
        },
      ],
    })
    this.#core = new library.CoreV1Api(configuration)
    this.#networking = new library.NetworkingV1Api(configuration)
    this.#custom = new library.CustomObjectsApi(configuration)
  }

  /** Throws an Error without the library or with an invalid kubeconfig. Does not connect yet. */
  static async open(options: ClusterOptions): Promise<Cluster> {
    return new Cluster(await loadLibrary(), options)
  }

  async listPods(labelSelector: string): Promise<readonly V1Pod[]> {
    const { namespace } = this
    return (await orThrow(this.#core.listNamespacedPod({ namespace, labelSelector }))).items
  }

  async listVolumes(labelSelector: string): Promise<readonly V1PersistentVolumeClaim[]> {
    const { namespace } = this
    return (await orThrow(this.#core.listNamespacedPersistentVolumeClaim({ namespace, labelSelector }))).items
  }

  /** The events of one object. */
  async listEvents(objectName: string): Promise<readonly CoreV1Event[]> {
    const query = {
      namespace: this.namespace,
      fieldSelector: `involvedObject.name=${objectName}`,
      limit: 100,
    }
    return (await orThrow(this.#core.listNamespacedEvent(query))).items
  }

  createPod(body: V1Pod): Promise<Response<V1Pod>> {
    return settle(this.#core.createNamespacedPod({ namespace: this.namespace, body }))
  }

  createVolume(body: V1PersistentVolumeClaim): Promise<Response<V1PersistentVolumeClaim>> {
    return settle(this.#core.createNamespacedPersistentVolumeClaim({ namespace: this.namespace, body }))
  }

  /** Sets annotations; null removes one. */
  annotateVolume(name: string, annotations: Readonly<Record<string, string | null>>) {
    const { namespace } = this
    const { setHeaderOptions, PatchStrategy } = this.#library
    return settle(
      this.#core.patchNamespacedPersistentVolumeClaim(
        { namespace, name, body: { metadata: { annotations } } },
        setHeaderOptions('Content-Type', PatchStrategy.MergePatch),
      ),
    )
  }

  /** Creates or replaces it, without reading: the Role has no right to read Secrets. */
  async putSecret(body: V1Secret): Promise<Response<unknown>> {
    const { namespace } = this
    const created = await settle(this.#core.createNamespacedSecret({ namespace, body }))
    if (created.ok || created.status !== 409) return created
    return await settle(this.#core.replaceNamespacedSecret({ namespace, name: nameOf(body), body }))
  }

  async putNetworkPolicy(body: V1NetworkPolicy): Promise<Response<unknown>> {
    const { namespace } = this
    const created = await settle(this.#networking.createNamespacedNetworkPolicy({ namespace, body }))
    if (created.ok || created.status !== 409) return created
    return await settle(
      this.#networking.replaceNamespacedNetworkPolicy({ namespace, name: nameOf(body), body }),
    )
  }

  /** Resolves when the deletion has begun, also of one that is missing. `uid`: only this very Pod. */
  async deletePod(name: string, { uid, graceSeconds }: { uid?: string | undefined; graceSeconds: number }) {
    const { namespace } = this
    const preconditions = uid === undefined ? {} : { preconditions: { uid } }
    const body = { gracePeriodSeconds: graceSeconds, ...preconditions }
    await orGone(this.#core.deleteNamespacedPod({ namespace, name, body }))
  }

  async deleteVolume(name: string): Promise<void> {
    await orGone(this.#core.deleteNamespacedPersistentVolumeClaim({ namespace: this.namespace, name }))
  }

  async deleteSecret(name: string): Promise<void> {
    await orGone(this.#core.deleteNamespacedSecret({ namespace: this.namespace, name }))
  }

  async deleteNetworkPolicy(name: string): Promise<void> {
    await orGone(this.#networking.deleteNamespacedNetworkPolicy({ namespace: this.namespace, name }))
  }

  /** Whether the API server knows such objects. */
  async serves({ group, version, plural }: CustomResource): Promise<boolean> {
    const known = await settle(this.#custom.getAPIResources({ group, version }))
    if (!known.ok && known.status !== 404)
      throw new Error(`The Kubernetes API server refuses: ${known.reason}`)
    return known.ok && known.value.resources.some(({ name }) => name === plural)
  }

  async listCustom<T>(resource: CustomResource, labelSelector: string): Promise<readonly T[]> {
    const query = { ...resource, namespace: this.namespace, labelSelector }
    return (await orThrow<{ readonly items: readonly T[] }>(this.#custom.listNamespacedCustomObject(query)))
      .items
  }

  createCustom(resource: CustomResource, body: object): Promise<Response<unknown>> {
    const { namespace } = this
    return settle(this.#custom.createNamespacedCustomObject({ ...resource, namespace, body }))
  }

  /** By operations of a JSON Patch. */
  patchCustom(resource: CustomResource, name: string, body: readonly object[]): Promise<Response<unknown>> {
    const { namespace } = this
    const { setHeaderOptions, PatchStrategy } = this.#library
    return settle(
      this.#custom.patchNamespacedCustomObject(
        { ...resource, namespace, name, body },
        setHeaderOptions('Content-Type', PatchStrategy.JsonPatch),
      ),
    )
  }

  async deleteCustom(resource: CustomResource, name: string): Promise<void> {
    const { namespace } = this
    await orGone(this.#custom.deleteNamespacedCustomObject({ ...resource, namespace, name }))
  }

  /** The last lines of its output; empty when there are none. */
  async readLog(name: string, tailLines: number, limitBytes = 64 * 1024): Promise<string> {
    const query = { namespace: this.namespace, name, tailLines, limitBytes }
    const log = await settle(this.#core.readNamespacedPodLog(query))
    return log.ok ? (log.value ?? '') : ''
  }

  /**
   * Calls back for each Pod and volume with these labels that appears, changes or disappears, the existing
   * ones first. Continues after bookmarks, expired versions and lost connections.
   */
  watch(labelSelector: string, onChange: (object: KubernetesObject) => void, log: LogFunction): Disposable {
    const { namespace } = this
    const stops = [
      this.#inform('pods', () => this.#core.listNamespacedPod({ namespace, labelSelector }), labelSelector),
      this.#inform(
        'persistentvolumeclaims',
        () => this.#core.listNamespacedPersistentVolumeClaim({ namespace, labelSelector }),
        labelSelector,
      ),
    ].map((informer) => keepInforming(informer, onChange, log))
    return { [Symbol.dispose]: () => stops.forEach((stop) => void stop()) }
  }

  /** Connects a socket with a port of a Pod, through the API server. */
  async forward(
    pod: string,
    port: number,
    socket: NodeJS.ReadWriteStream & { destroy(): void },
  ): Promise<void> {
    const forward = new this.#library.PortForward(this.#config)
    const duplex = socket as unknown as import('node:net').Socket
    const connection = await forward.portForward(this.namespace, pod, [port], duplex, null, duplex)
    if (typeof connection === 'function') throw new Error('the connection is to be repeated')
    connection.onclose = () => socket.destroy()
    duplex.once('close', () => connection.close())
  }

  /**
   * Runs a command in a container of a Pod. `output` gets what it prints, no faster than it is read; `input`
   * is sent to it. Rejects when the connection ends before the command does.
   */
  async exec(
    pod: string,
    container: string,
    command: readonly string[],
    streams: { readonly output?: PassThrough; readonly input?: AsyncIterable<Buffer> } = {},
  ): Promise<ExecResult> {
    const { output = new PassThrough().resume(), input } = streams
    const stdin = input === undefined ? null : new PassThrough()
    const stderr = new PassThrough()
    let errorOutput = ''
    stderr.on('data', (part: Buffer) => {
      if (errorOutput.length < maxErrorOutputBytes) errorOutput += part.toString('latin1')
    })
    const { promise: ended, resolve, reject } = Promise.withResolvers<V1Status>()
    ended.catch(() => undefined)
    const exec = new this.#library.Exec(this.#config)
    const socket = await exec
      .exec(this.namespace, pod, container, [...command], output, stderr, stdin, false, resolve)
      .catch((cause: unknown) => {
        throw new Error(`The Kubernetes API server does not run a command in ${pod}: ${errorText(cause)}`)
      })
    socket.on('message', () => output.writableNeedDrain && socket.pause())
    output.on('drain', () => socket.resume())
    output.on('close', () => socket.resume())
    socket.on('close', () => reject(new Error(`The connection with a command in ${pod} was lost`)))
    try {
      if (input !== undefined && stdin !== null) {
        // To older ones the end of the input cannot be sent.
        if (socket.protocol !== 'v5.channel.k8s.io')
          throw new Error('The cluster is older than Kubernetes 1.30')
        const send = async () => {
          for await (const chunk of input) {
            stdin.write(chunk)
            while (socket.bufferedAmount > execBufferBytes && socket.readyState === socket.OPEN)
              await sleep(5)
            if (socket.readyState !== socket.OPEN) return
          }
          stdin.end()
        }
        await Promise.race([send().then(() => ended), ended])
      }
      const { status, details } = await ended
      const exitCode = details?.causes?.find(({ reason }) => reason === 'ExitCode')?.message
      return { isOk: status === 'Success', exitCode: Number(exitCode ?? -1), errorOutput }
    } finally {
      socket.close()
    }
  }

  #inform<T extends KubernetesObject>(
    resource: string,
    list: () => Promise<KubernetesListObject<T>>,
    labelSelector: string,
  ): Informer<T> {
    // The informer keeps what is in the path.
    const path = `/api/v1/namespaces/${this.namespace}/${resource}?allowWatchBookmarks=true`
    return this.#library.makeInformer(this.#config, path, list, labelSelector)
  }
}

/** Starts an informer again after each failure. Returns what stops it. */
function keepInforming<T extends KubernetesObject>(
  informer: Informer<T>,
  onChange: (object: KubernetesObject) => void,
  log: LogFunction,
): () => void {
  let timer: NodeJS.Timeout | undefined
  let isStopped = false
  let failures = 0
  const begin = () => {
    timer = undefined
    informer.start().catch(restart)
  }
  const restart = (error: unknown) => {
    if (isStopped || timer !== undefined) return
    failures += 1
    log(failures === 1 ? 'warn' : 'debug', 'a watch of the cluster ended and is repeated', {
      error: apiErrorText(error),
    })
    timer = setTimeout(begin, Math.min(watchRestartMs * 2 ** Math.min(failures - 1, 3), 5_000))
  }
  informer.on('change', (object) => {
    failures = 0
    onChange(object)
  })
  informer.on('error', restart)
  begin()
  return () => {
    isStopped = true
    clearTimeout(timer)
    void informer.stop()
  }
}

async function loadLibrary(): Promise<Library> {
  try {
    return await import('@kubernetes/client-node')
  } catch (cause) {
    if (!(cause instanceof Error && 'code' in cause && cause.code === 'ERR_MODULE_NOT_FOUND')) throw cause
    const advice = 'Install it beside slipway: npm install -g @kubernetes/client-node@2'
    throw new Error(`The Kubernetes backend needs the package @kubernetes/client-node. ${advice}`, { cause })
  }
}

/** Statuses that a repetition does not change. */
const refusals: ReadonlySet<number> = new Set([400, 403, 404, 409, 413, 422])

async function settle<T>(call: Promise<T>): Promise<Response<T>> {
  try {
    return { ok: true, value: await call }
  } catch (error) {
    const status = statusOf(error)
    if (status !== undefined && refusals.has(status))
      return { ok: false, status, reason: apiErrorText(error) }
    throw new Error(`The Kubernetes API server refuses it: ${apiErrorText(error)}`, { cause: error })
  }
}

async function orThrow<T>(call: Promise<T>): Promise<T> {
  const response = await settle(call)
  if (response.ok) return response.value
  throw new Error(`The Kubernetes API server refuses: ${response.reason}`)
}

/** For deletions: what is missing, or is another object by now, is as good as deleted. */
async function orGone(call: Promise<unknown>): Promise<void> {
  const response = await settle(call)
  if (response.ok || response.status === 404 || response.status === 409) return
  throw new Error(`The Kubernetes API server refuses: ${response.reason}`)
}

function statusOf(error: unknown): number | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'number' ? error.code : undefined
}

/** The message of the API server, without headers, which may hold a token. */
export function apiErrorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (statusOf(error) === undefined || !('body' in error)) {
    return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
  }
  const { body } = error
  const fromServer = messageOf(typeof body === 'string' ? body : JSON.stringify(body ?? null))
  return fromServer ?? /^Message: (.+)$/m.exec(error.message)?.[1] ?? `status ${statusOf(error)}`
}

function messageOf(body: string): string | undefined {
  const value = parseJson(body)
  return isRecord(value) && typeof value.message === 'string' ? value.message : undefined
}

function nameOf({ metadata }: KubernetesObject): string {
  return metadata?.name ?? ''
}
