import { readFile } from 'node:fs/promises'

/** The account whose rights tools have, where it is not that of the server. */
export interface ToolUser {
  readonly name: string
  readonly uid: number
  readonly gid: number
  /** Absolute. */
  readonly home: string
}

/**
 * The account of a name or user id in `/etc/passwd`, or what `<uid>:<gid>:<home>` says. Rejects with a
 * message when there is none, and for root.
 */
export async function findToolUser(setting: string): Promise<ToolUser> {
  const user = parseToolUser(setting) ?? (await findAccount(setting))
  if (user.uid === 0 || user.gid === 0) throw new Error(`${setting} is root, or in its group`)
  return user
}

function parseToolUser(setting: string): ToolUser | undefined {
  const [, uid = '', gid, home = ''] = /^(\d{1,9}):(\d{1,9}):(\/.*)$/.exec(setting) ?? []
  return uid === '' ? undefined : { name: uid, uid: Number(uid), gid: Number(gid), home }
}

async function findAccount(nameOrId: string): Promise<ToolUser> {
  const accounts = (await readFile('/etc/passwd', 'utf8')).split('\n').map((line) => line.split(':'))
  const account =
    accounts.find(([name]) => name === nameOrId) ?? accounts.find(([, , uid]) => uid === nameOrId)
  if (account === undefined) throw new Error(`there is no user ${nameOrId} in /etc/passwd`)
  const [name = '', , uid, gid, , home = ''] = account
  return { name, uid: Number(uid), gid: Number(gid), home }
}
