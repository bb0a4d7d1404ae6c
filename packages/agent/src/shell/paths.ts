import { unknown } from './words.ts'

/** Directories of the system: whatever is changed below them changes the machine. */
const system = /^\/(?:bin|boot|dev|etc|lib|lib32|lib64|libx32|proc|sbin|sys|usr|System|Library)(?:\/|$)/
/** Below these, parts are somebody's own. */
const notSystem =
  /^\/(?:usr\/(?:local|src)\/.|proc\/self\/fd|dev\/(?:null|zero|full|random|urandom|std(?:in|out|err)|tty|fd|shm|pts|tcp|udp)(?:\/|$))/
/** Directories whose loss as a whole is a catastrophe. */
const whole =
  /^(?:\/|~[\w-]*|\.|\.\.|\*|\/(?:home|Users)\/[^/]+|\/(?:home|opt|root|run|srv|var|Users|Applications|mnt|media)|(?:\.\.\/)+\.\.)$/
const disk = /^\/dev\/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|rdisk|mapper\/|md\d|dm-|loop\d|mem$|kmem$|port$|ram\d)/
const secrets =
  /(?:^|\/)(?:\.ssh(?:$|\/(?!known_hosts|config$|[^/]*\.pub$))|\.(?:aws|azure|gnupg)(?:$|\/)|\.kube\/config|\.docker\/config\.json|\.config\/(?:gcloud|gh)\/|\.netrc|\.pgpass|\.git-credentials|\.npmrc$|\.pypirc|\.vault-token|\.env(?:\.(?!example|sample|template)[\w.-]+)?$|id_(?:rsa|dsa|ecdsa|ed25519)$|[^/]+\.pem$)|^\/etc\/(?:g?shadow|sudoers|ssl\/private)|^\/proc\/[^/]+\/environ$/

/** A path that is as it is read: without double slashes, `/./` and a slash at the end. */
function plain(path: string): string {
  const short = path.replace(/\/{2,}/g, '/').replace(/(?:\/\.(?=\/|$))+/g, '')
  return short === '' ? '/' : short.replace(/(?<=.)\/$/, '')
}

/** Resolves `..` in a path that begins at the root. */
function resolved(path: string): string {
  if (!path.startsWith('/')) return path
  const parts: string[] = []
  for (const part of path.split('/')) part === '..' ? parts.pop() : parts.push(part)
  return parts.join('/') || '/'
}

/** Whether deleting it with all that is below is a catastrophe: the root, a home, a directory of the system, all that is here. */
export function isWhole(path: string): boolean {
  const asked = resolved(plain(path))
  const every = plain(asked.replace(/\/(?:\*|\.\[!\.\]\*|\.\*|\{,\.\}\*)$/, '/').replace(/^\.\/$/, '.'))
  return whole.test(asked) || whole.test(every) || isSystem(every)
}

/** A directory whose name is not known, and everything in it: with an empty name, this is the root. */
export function isUnknownWhole(path: string): boolean {
  return path.startsWith(`${unknown}/`) && /^\/+\*?$/.test(path.slice(1))
}

export function isSystem(path: string): boolean {
  const asked = resolved(plain(path))
  return system.test(asked) && !notSystem.test(asked)
}

export function isDisk(path: string): boolean {
  return disk.test(plain(path))
}

/** A file that commonly holds keys, passwords or tokens. */
export function isSecret(path: string): boolean {
  return secrets.test(plain(path))
}

/** Outside of the directory that the shell is in, as far as the path alone says so: a home, or above. */
export function isOutside(path: string): boolean {
  return /^(?:~|\.\.(?:\/|$))/.test(path) || isSystem(path)
}
