import { accessSync, constants, existsSync } from 'node:fs'

/**
 * The settings with which a sandbox server starts here: without pasta, or where this user may not open the device
 * that pasta needs, sandboxes have no separate network, and the server refuses to start.
 */
export function sandboxNetworkEnv(): Record<string, string> {
  return existsSync('/usr/bin/pasta') && mayOpenTun() ? {} : { SLIPWAY_SANDBOX_NETWORK: 'shared' }
}

function mayOpenTun(): boolean {
  try {
    accessSync('/dev/net/tun', constants.R_OK | constants.W_OK)
    return true
  } catch {
    return false
  }
}
