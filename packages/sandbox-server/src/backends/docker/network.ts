import { createServer } from 'node:net'
import type { NetworkCreateOptions, NetworkInspectInfo } from 'dockerode'
import type { Engine, EngineResponse } from './engine.ts'
import { longTimeoutMs } from './engine.ts'
import { ledgerLabel } from './labels.ts'

/** Whether containers of a network may reach each other: Docker's name for it. */
const iccOption = 'com.docker.network.bridge.enable_icc'

/** The network that the sandboxes of one ledger share, and that nothing else is in. */
export class SandboxNetwork {
  readonly name: string
  readonly #engine: Engine
  readonly #ledgerId: string
  #creating: Promise<EngineResponse<NetworkInspectInfo>> | undefined

  constructor(engine: Engine, name: string, ledgerId: string) {
    this.#engine = engine
    this.name = name
    this.#ledgerId = ledgerId
  }

  /** Makes it if it is not there. Answers its id, and the address of the engine's machine in it. */
  async ensure(): Promise<
    EngineResponse<{ readonly networkId: string; readonly gateway: string | undefined }>
  > {
    const found = await this.#find()
    const answer: EngineResponse<NetworkInspectInfo> = found
      ? { ok: true, value: found }
      : await this.#createOnce()
    if (!answer.ok) return answer
    const network = answer.value
    return { ok: true, value: { networkId: network.Id, gateway: findGateway(network) } }
  }

  /** The address of this machine that only its sandboxes can reach; undefined while, or where, there is no such address. */
  async gatewayAddress(): Promise<string | undefined> {
    const answer = await this.ensure()
    if (!answer.ok) throw new Error(`The container engine made no network: ${answer.reason}`)
    const { gateway } = answer.value
    return gateway !== undefined && (await isLocalAddress(gateway)) ? gateway : undefined
  }

  /** Whether it is known to keep its sandboxes apart from each other. */
  async isIsolated(): Promise<boolean> {
    return (await this.#find())?.Options?.[iccOption] === 'false'
  }

  /** Docker lets several networks have one name: the first of ours is the one. */
  async #find(): Promise<NetworkInspectInfo | undefined> {
    const found = await this.#engine.callOrThrow<readonly NetworkInspectInfo[]>({
      method: 'GET',
      path: '/networks',
      query: { filters: JSON.stringify({ label: [`${ledgerLabel}=${this.#ledgerId}`] }) },
    })
    const own = found.filter(
      ({ Name, Labels }) => Name === this.name && Labels?.[ledgerLabel] === this.#ledgerId,
    )
    return own.toSorted((a, b) => (`${a.Created} ${a.Id}` < `${b.Created} ${b.Id}` ? -1 : 1))[0]
  }

  #createOnce(): Promise<EngineResponse<NetworkInspectInfo>> {
    this.#creating ??= this.#createOrFind().finally(() => {
      this.#creating = undefined
    })
    return this.#creating
  }

  /** Sandboxes must not reach each other. Podman takes the option and ignores it; a kernel may not be able to. */
  async #createOrFind(): Promise<EngineResponse<NetworkInspectInfo>> {
    const isolated = await this.#create({ [iccOption]: 'false' })
    const made = isolated.ok ? isolated : await this.#create({})
    const existing = await this.#find()
    if (existing !== undefined) return { ok: true, value: existing }
    return made.ok ? { ok: false, status: 500, reason: `The network ${this.name} is gone` } : made
  }

  #create(options: Record<string, string>): Promise<EngineResponse<unknown>> {
    const body: NetworkCreateOptions = {
      Name: this.name,
      Driver: 'bridge',
      CheckDuplicate: true,
      Labels: { [ledgerLabel]: this.#ledgerId },
      Options: options,
    }
    return this.#engine.call({ method: 'POST', path: '/networks/create', body, timeoutMs: longTimeoutMs })
  }
}

const findGateway = (network: NetworkInspectInfo): string | undefined =>
  network.IPAM?.Config?.find((config) => config.Gateway !== undefined && !config.Gateway.includes(':'))
    ?.Gateway

/** Asked by listening on it: a bridge without containers is not among the interfaces that Node lists. */
function isLocalAddress(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(0, address, () => server.close(() => resolve(true)))
  })
}
