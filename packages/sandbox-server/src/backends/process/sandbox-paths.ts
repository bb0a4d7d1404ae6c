import { hash } from 'node:crypto'
import { join } from 'node:path'

export type SandboxPaths = ReturnType<typeof sandboxPaths>

/** From inside only folders in `files` are visible, each mounted alone: these paths cannot be replaced. */
export function sandboxPaths(directory: string, id: string) {
  const root = join(directory, id)
  const files = `${root}/files`
  return {
    root,
    record: `${root}/process.json`,
    passwd: `${root}/passwd`,
    group: `${root}/group`,
    image: `${root}/disk.img`,
    files,
    data: `${files}/data`,
    workspace: `${files}/workspace`,
    homeDirectory: `${files}/home`,
    temporary: `${files}/tmp`,
    /** The working directory when it is not in the workspace. */
    externalWorkingDir: `${files}/elsewhere`,
    /** Private to the server (0700): names of the host for the sockets of agent servers. */
    sockets: `${files}/reach`,
    /** There while processes are stopped that are to continue, also when this server ends meanwhile. */
    thawing: `${root}/thawing`,
    /** Process id and start of the supervisor, written on its own. */
    pid: (epoch: string) => `${root}/pid.${epoch}`,
    /** How the program ended, written by the supervisor. */
    exit: (epoch: string) => `${root}/exit.${epoch}`,
  }
}

/** Valid ids. Others are not looked up, so that none can name a path. */
export const idPattern = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/

/** The user of the host for a sandbox, from a range that people, services and containers do not use. */
export function hostUserId(ledgerId: string, id: string): number {
  return 1_900_000_000 + Number.parseInt(hash('sha256', `${ledgerId}/${id}`).slice(0, 6), 16)
}

/** The name of the socket of one start in `sockets`. */
export function socketName(epoch: string): string {
  return `${epoch.slice(0, 8)}.sock`
}

/** Folders next to the sandboxes for short links to those of their sockets. */
export function socketLinkFolders(directory: string): readonly string[] {
  return [join(directory, '.s')]
}
