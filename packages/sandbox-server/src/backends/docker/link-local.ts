import type { NetworkInspectInfo } from 'dockerode'
import { findProgram, runProgram } from '../process/host/run-program.ts'
import type { EngineInfo } from './engine-info.ts'

/** Where clouds have the metadata service of a machine, with credentials of its owner. */
const linkLocalRange = '169.254.0.0/16'

/**
 * Drops what a network of sandboxes sends to link-local addresses: in the firewall of this machine, before
 * any rule of the engine, and again after something has removed the rule. Returns why that is not possible.
 */
export async function denyLinkLocal(
  network: NetworkInspectInfo | undefined,
  { isLocal }: EngineInfo,
): Promise<string | undefined> {
  if (!isLocal || process.getuid?.() !== 0)
    return 'only a server that runs as root on the machine of the engine can forbid that'
  const iptables = await findProgram('iptables')
  if (iptables === undefined) return 'iptables is not installed'
  const subnets = (network?.IPAM?.Config ?? []).flatMap(({ Subnet }) =>
    Subnet === undefined || Subnet.includes(':') ? [] : [Subnet],
  )
  for (const subnet of subnets) {
    const rule = ['PREROUTING', '-s', subnet, '-d', linkLocalRange, '-j', 'DROP']
    const change = (command: string) => runProgram(iptables, ['-w', '10', '-t', 'raw', command, ...rule])
    if ((await change('-C')).isOk) continue
    const added = await change('-I')
    if (!added.isOk) return `iptables refuses the rule: ${added.output}`
  }
  return undefined
}
