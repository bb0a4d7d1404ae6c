import type { NetworkCreateOptions, NetworkInspectInfo } from 'dockerode'
import { canListen } from './can-listen.ts'
import type { Engine, EngineResponse } from './engine.ts'
import type { EngineInfo } from './engine-info.ts'
import { ledgerLabel } from './labels.ts'
import { denyLinkLocal } from './link-local.ts'

/** Docker's option: whether containers of a network may reach each other. */
const iccOption = 'com.docker.network.bridge.enable_icc'

/** The network of the sandboxes of one ledger. */
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

  async ensure(): Promise<EngineResponse<NetworkInspectInfo>> {
    const found = await this.#find()
    if (found !== undefined) return { ok: true, value: found }
    this.#creating ??= this.#createOrFind().finally(() => {
      this.#creating = undefined
    })
    return await this.#creating
  }

  /** The address of this machine that only its sandboxes can reach; undefined while there is none. */
  async gatewayAddress(): Promise<string | undefined> {
    const answer = await this.ensure()
    if (!answer.ok) throw new Error(`The container engine made no network: ${answer.reason}`)
    const gateway = findGateway(answer.value)
    // Node lists no bridge without containers among the interfaces.
    return gateway !== undefined && (await canListen(gateway, 0)) ? gateway : undefined
  }

  /** Whether it is known to isolate its sandboxes from each other. */
  async isIsolated(): Promise<boolean> {
    return (await this.#find())?.Options?.[iccOption] === 'false'
  }

  /** Why its sandboxes reach link-local addresses; undefined when they do not. */
  async linkLocalFailure(engineInfo: EngineInfo): Promise<string | undefined> {
    return await denyLinkLocal(await this.#find(), engineInfo)
  }

  /** Docker allows several networks of one name: the first of ours. */
  async #find(): Promise<NetworkInspectInfo | undefined> {
    const found = await this.#engine.callOrThrow<readonly NetworkInspectInfo[]>('GET', '/networks', {
      query: { filters: JSON.stringify({ label: [`${ledgerLabel}=${this.#ledgerId}`] }) },
    })
    const own = found.filter(
      ({ Name, Labels }) => Name === this.name && Labels?.[ledgerLabel] === this.#ledgerId,
    )
    return own.toSorted((a, b) => (`${a.Created} ${a.Id}` < `${b.Created} ${b.Id}` ? -1 : 1))[0]
  }

  /** Isolated if possible: Podman ignores the option, and some kernels cannot do it. */
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
    return this.#engine.call('POST', '/networks/create', { body })
  }
}

/** The address of the machine of the engine in a network. */
export function findGateway({ IPAM }: NetworkInspectInfo): string | undefined {
  return IPAM?.Config?.find(({ Gateway }) => Gateway !== undefined && !Gateway.includes(':'))?.Gateway
}
